/** Random traffic with random faults: no wrong or foreign byte, nobody waits for ever, nothing is left open. */

import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fieldValue } from '../../src/http/fields.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { StoreFault } from '../../src/store/store.ts';
import { patternBytes } from '../support/pattern-body.ts';
import { createSteeredStore } from '../support/steered-store.ts';
import { TrafficOrigin } from '../support/traffic-origin.ts';
import { ownLifetimes, type Plan, plans, type Step } from '../support/traffic-plan.ts';
import { turn } from '../support/turn.ts';
import { type Client, createWholeProxy, type Sent } from '../support/whole-proxy.ts';

const blockSizeBytes = 256;

/** More runs than usual find what is rare. */
const { RANGEWAY_TEST_RUNS = '500' } = process.env;

/** A client, and what is known of it from outside. */
interface Visitor {
  readonly id: string;
  readonly client: Client;
  readonly sent: Sent;
  /** The version that somebody had been told of before it came: an earlier one is invalid for it. */
  readonly leastVersion: number;
  hasLeft: boolean;
  stalledUntil: PromiseWithResolvers<void> | undefined;
}

class Traffic {
  readonly #plan: Plan;
  readonly #store: ReturnType<typeof createSteeredStore>;
  readonly #proxy: ReturnType<typeof createWholeProxy>;
  readonly #visitors: Visitor[] = [];
  readonly #readings: Promise<void>[] = [];
  readonly #origin: TrafficOrigin;
  readonly #releases: (() => void)[] = [];
  #isClosing = false;
  /** By target. */
  readonly #knownVersions = new Map<string | undefined, number>();

  constructor(plan: Plan) {
    this.#plan = plan;
    this.#store = createSteeredStore({ blockSizeBytes, maxSizeBytes: plan.maxSizeBytes });
    this.#proxy = createWholeProxy({
      createStore: () => this.#store,
      blockSizeBytes,
      windowBytes: plan.windowBytes,
      route: { cache: { pinSeconds: plan.pinSeconds, digest: plan.wantsDigest } },
      originRanges: plan.ranges === 'none' ? 'never' : 'auto',
      fill: {
        onAbort: plan.onAbort,
        complete: plan.complete,
        resumeAttempts: plan.resumeAttempts,
        seekAheadBytes: plan.seekAheadBytes,
      },
    });
    this.#origin = new TrafficOrigin(plan, this.#proxy.origin);
  }

  async run(): Promise<void> {
    for (const each of this.#plan.steps) await this.#take(each);
    for (const release of this.#releases) release();
    if (this.#plan.closesEarly) {
      this.#isClosing = true;
      await this.#closeAtOnce();
    } else {
      for (const visitor of this.#visitors) visitor.stalledUntil?.resolve();
      await this.#serveTheRest();
    }
    await this.#proxy.close();
    await turn();
    expect(this.#proxy.origin.requests).toBeLessThan(40 + 12 * this.#visitors.length);
    expect(this.#proxy.clock.pending).toBe(0);
    expect(this.#store.held).toBe(0);
    for (const { exchange, unread } of this.#origin.transfers) {
      expect(unread === 0 || exchange.isClosed || exchange.request.signal.aborted).toBe(true);
    }
  }

  /** Ends the server while its clients are there, some of whom do not read. */
  async #closeAtOnce(): Promise<void> {
    await turns(3);
    let isClosed = false;
    void this.#proxy.closeCache().then(() => {
      isClosed = true;
    });
    for (let count = 0; count < 200 && !isClosed; count += 1) await turn();
    if (!isClosed) expect.fail('the server does not end');
    for (const visitor of this.#visitors) this.#leave(visitor);
    await turns(3);
    while (this.#proxy.origin.untaken > 0) await this.#origin.refuse(new ProxyError('origin_refused'));
    await turns(3);
  }

  async #take(each: Step): Promise<void> {
    switch (each.kind) {
      case 'send':
        return this.#send({ ...each.sent, target: each.target });
      case 'leave':
        return this.#leave(this.#visitors[each.who % Math.max(1, this.#visitors.length)]);
      case 'head':
        return await this.#origin.answer(each.isSized, each.is304);
      case 'chunk':
        return this.#origin.transfer(each.who, (transfer) => this.#origin.continue(transfer, each.count));
      case 'finish':
        return this.#origin.transfer(each.who, (transfer) => this.#origin.finish(transfer));
      case 'break':
        return this.#origin.transfer(each.who, (transfer) => {
          transfer.isOver = true;
          transfer.exchange.fail(new ProxyError('origin_reset'));
        });
      case 'refuse':
        return await this.#origin.refuse(new ProxyError('origin_refused'));
      case 'fill-disk':
        return this.#store.fail('writeBlock', new StoreFault('no_room', 'full'));
      case 'damage':
        return this.#store.damageBlock(each.index);
      case 'hold':
        return void this.#releases.push(this.#store.hold(each.step).release);
      case 'release':
        return this.#releases.shift()?.();
      case 'advance':
        return this.#proxy.clock.advance(each.ms);
      case 'change':
        this.#origin.version += 1;
        return;
      case 'lose':
        return this.#store.loseBlock(each.index);
      case 'fault':
        return this.#store.fail(each.step, new StoreFault('io', 'a fault'));
      case 'stall': {
        const visitor = this.#visitors[each.who % Math.max(1, this.#visitors.length)];
        if (visitor !== undefined) visitor.stalledUntil ??= Promise.withResolvers();
        return;
      }
      case 'status':
        return await this.#origin.refuse(each.status);
      case 'turn':
        return await turn();
    }
  }

  #send(sent: Sent): void {
    const id = String(this.#visitors.length);
    const client = this.#proxy.send({ ...sent, fields: { ...sent.fields, 'x-client': id } });
    const visitor = {
      id,
      client,
      sent,
      leastVersion: this.#knownVersions.get(sent.target) ?? 1,
      hasLeft: false,
      stalledUntil: undefined,
    };
    this.#visitors.push(visitor);
    this.#readings.push(this.#read(visitor));
  }

  #leave(visitor: Visitor | undefined): void {
    if (visitor === undefined || visitor.hasLeft) return;
    visitor.hasLeft = true;
    visitor.stalledUntil?.resolve();
    void visitor.client.leave().catch(() => {});
  }

  async #read(visitor: Visitor): Promise<void> {
    const { status } = await visitor.client.response;
    const bytes = await this.#readSlowly(visitor).catch((error: ProxyError) => {
      if (!visitor.hasLeft) expect(this.#possibleErrors()).toContain(error.code);
    });
    if (bytes === undefined || visitor.hasLeft || this.#isClosing) return;
    if ((await visitor.client.field('x-refused')) === '1') return;
    const expected = visitor.sent.method === 'PUT' ? [204, 502] : [200, 206, 304, 412, 416, 502, 504];
    expect(expected).toContain(status);
    if (visitor.sent.method === 'PUT') {
      const version = Number((await visitor.client.field('x-version')) ?? 0);
      const { target } = visitor.sent;
      this.#knownVersions.set(target, Math.max(this.#knownVersions.get(target) ?? 1, version));
    } else if (visitor.sent.method !== 'HEAD' && status <= 206) {
      await this.#check(visitor, Buffer.from(bytes));
    }
  }

  async #readSlowly(visitor: Visitor): Promise<Uint8Array> {
    for (let count = 1; visitor.stalledUntil !== undefined; count += 300) {
      await visitor.client.readUntil(count);
      await visitor.stalledUntil.promise;
      visitor.stalledUntil = undefined;
    }
    return await visitor.client.bytes();
  }

  /** What may cut the response of a client that stays. */
  #possibleErrors(): string[] {
    const { steps, ranges: manner, digest, maxSizeBytes } = this.#plan;
    const kinds = new Set<string>(steps.map(({ kind }) => kind));
    const has = (...some: string[]) => this.#isClosing || some.some((kind) => kinds.has(kind));
    const isPut = steps.some((each) => each.kind === 'send' && each.sent.method === 'PUT');
    const isLie = ['short', 'other-length', 'long'].includes(manner);
    return [
      ...(this.#isClosing ? ['client_gone'] : []),
      ...(has('refuse') ? ['origin_refused'] : []),
      ...(has('break', 'status') || isLie ? ['origin_reset', 'origin_body_short', 'origin_failed_rest'] : []),
      ...(has('change', 'status') || isPut || isLie ? ['generation_changed'] : []),
      ...(digest === 'none' ? [] : ['generation_changed', 'origin_digest_mismatch']),
      ...(has('damage', 'fill-disk', 'lose', 'fault') || maxSizeBytes < 64 * 1024 ? ['bytes_gone'] : []),
    ];
  }

  /** Whether the bytes are those of the version that the response names, which may be given to this client. */
  async #check(visitor: Visitor, bytes: Buffer): Promise<void> {
    const { status, fields, body } = await visitor.client.response;
    const version = Number(fieldValue(fields, 'x-version'));
    if (this.#plan.ranges === 'long' && fieldValue(fields, 'cache-status')?.includes('detail=')) return;
    expect(version).toBeGreaterThanOrEqual(visitor.leastVersion);
    const asker = this.#visitors[Number(fieldValue(fields, 'x-client'))] ?? visitor;
    if (asker !== visitor) this.#checkSharing(visitor, asker, fieldValue(fields, 'cache-status') ?? '');

    if (body.kind !== 'none' && body.sizeBytes !== undefined) expect(bytes.length).toBe(body.sizeBytes);
    const range = fieldValue(fields, 'content-range');
    const isRight = this.#possibleVersions(version).some((each) => {
      if (status === 200) return bytes.equals(patternBytes(0, this.#plan.size, each));
      return range === undefined ? areParts(bytes, each) : bytes.equals(bytesOf(range, each));
    });
    expect(isRight).toBe(true);
  }

  /** Where nothing names the bytes, a transfer that is taken up again before anybody has seen one may bring later ones. */
  #possibleVersions(version: number): number[] {
    const { validator, isTold } = this.#plan;
    if (validator !== 'none' || isTold) return [version];
    return Array.from({ length: this.#origin.version - version + 1 }, (_, later) => version + later);
  }

  /** Whether what the origin gave to another client may be given to this one. */
  #checkSharing(visitor: Visitor, asker: Visitor, cacheStatus: string): void {
    const { lifetime, varies, validator } = this.#plan;
    if (varies) expect(asker.sent.fields?.['accept-language']).toBe(visitor.sent.fields?.['accept-language']);
    const { 'cache-control': wish, 'if-range': resumed } = visitor.sent.fields ?? {};
    const isStale = wish === 'max-stale' || resumed !== undefined || cacheStatus.includes('fwd-status=50');
    if (ownLifetimes.includes(lifetime) && !isStale) expect(cacheStatus).toContain('detail=origin');
    // With a validator it may be another client's response that this one's request has confirmed.
    if (validator === 'none') expect(Object.keys(asker.sent.fields ?? {})).not.toContain('authorization');
  }

  /** Answers whatever is still asked, until every client has its response, or one of them waits for ever. */
  async #serveTheRest(): Promise<void> {
    let isOver = false;
    const over = Promise.all(this.#readings).finally(() => {
      isOver = true;
    });
    over.catch(() => {});
    for (let turns = 0; !isOver && turns < 2000; turns += 1) {
      while (this.#proxy.origin.untaken > 0) await this.#origin.answer(true, true);
      this.#origin.finishAll();
      if (turns % 20 === 19) this.#proxy.clock.advance(1000);
      await turn();
    }
    if (!isOver) expect.fail('somebody waits for ever');
    await over;
  }
}

/** The bytes that a Content-Range tells of. */
function bytesOf(range: string, version: number): Uint8Array {
  const [, first, last] = /^bytes (\d+)-(\d+)\//.exec(range) ?? [];
  return patternBytes(Number(first), Number(last) + 1, version);
}

function areParts(body: Buffer, version: number): boolean {
  const heads = [...body.toString('latin1').matchAll(/Content-Range: (bytes .*)\r\n\r\n/g)];
  return (
    heads.length > 1 &&
    heads.every(({ 0: head, 1: range = '', index }) => {
      const part = bytesOf(range, version);
      const start = index + head.length;
      return body.subarray(start, start + part.length).equals(part);
    })
  );
}

async function turns(count: number): Promise<void> {
  for (let passed = 0; passed < count; passed += 1) await turn();
}

describe('random traffic', () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => unhandled.push(reason);
  beforeAll(() => void process.on('unhandledRejection', note));
  afterAll(() => void process.off('unhandledRejection', note));

  it('gets no wrong byte and none that is for others, does not wait for ever, and leaves nothing open', async () => {
    const traffic = fc.asyncProperty(plans, (each) => new Traffic(each).run());
    await fc.assert(traffic, { numRuns: Number(RANGEWAY_TEST_RUNS) });
    expect(unhandled).toEqual([]);
  });
});
