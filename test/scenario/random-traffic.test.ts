/** Random traffic with random faults: no wrong or foreign byte, nobody waits for ever, nothing is left open. */

import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Span } from '../../src/bytes/span.ts';
import { type Fields, fieldValue } from '../../src/http/fields.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { StoreFault } from '../../src/store/store.ts';
import type { FakeExchange, FakeHead } from '../support/fake-origin.ts';
import { patternBytes } from '../support/pattern-body.ts';
import { createSteeredStore } from '../support/steered-store.ts';
import { type Client, createWholeProxy, type Sent } from '../support/whole-proxy.ts';

const blockSizeBytes = 256;

/** More runs than usual find what is rare. */
const { RANGEWAY_TEST_RUNS = '500' } = process.env;

const ranges = ['bytes=0-9', 'bytes=-7', 'bytes=300-', 'bytes=0-', 'bytes=500-509,3-5', 'bytes=99999-'];
const requests: Sent[] = [
  {},
  ...ranges.map((range) => ({ fields: { range } })),
  { method: 'HEAD' },
  { fields: { 'if-none-match': '*' } },
  { fields: { 'if-match': '"none"' } },
  { fields: { 'cache-control': 'no-cache' } },
  { fields: { 'cache-control': 'only-if-cached' } },
  { fields: { 'accept-language': 'de', range: 'bytes=100-' } },
  { fields: { authorization: 'x' } },
  { method: 'PUT' },
];

/** Under the second ones a response is for the client alone that has asked for it. */
const sharedLifetimes = ['max-age=60', 'max-age=1', ''];
const ownLifetimes = ['no-cache', 'max-age=0', 'no-store', 'private'];

/** One thing that happens. `who` counts clients or the exchanges that the origin has not ended, round and round. */
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('send' as const), sent: fc.constantFrom(...requests) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('leave' as const), who: fc.nat(20) }) },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant('head' as const), isSized: fc.boolean(), is304: fc.boolean() }),
  },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('chunk' as const), who: fc.nat(9), count: fc.nat(900) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('finish' as const), who: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('break' as const), who: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('refuse' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('fill-disk' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('damage' as const), index: fc.nat(3) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('hold' as const),
      step: fc.constantFrom('openWriter' as const, 'writeBlock' as const, 'commit' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('release' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('advance' as const), ms: fc.constantFrom(500, 2000, 100_000) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('change' as const) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('turn' as const) }) },
);

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** What an origin makes of a Range: nothing, what it should, or something else. */
const rangeManners = [
  'none',
  'right',
  'short',
  'early',
  'elsewhere',
  'other-length',
  'unnamed',
  'unsatisfied',
] as const;

interface Plan {
  readonly ranges: (typeof rangeManners)[number];
  readonly complete: 'always' | 'never';
  readonly resumeAttempts: number;
  readonly seekAheadBytes: number;
  readonly onAbort: 'finish' | 'stop';
  readonly size: number;
  readonly lifetime: string;
  readonly validator: 'strong' | 'weak' | 'none';
  readonly varies: boolean;
  readonly steps: readonly Step[];
}

/** A client, and what is known of it from outside. */
interface Visitor {
  readonly id: string;
  readonly client: Client;
  readonly sent: Sent;
  /** The version that somebody had been told of before it came: an earlier one is invalid for it. */
  readonly leastVersion: number;
  hasLeft: boolean;
}

/** A response that the origin has begun. */
interface Transfer {
  readonly exchange: FakeExchange;
  readonly version: number;
  /** Where the next piece begins, and where the body ends. */
  sent: number;
  readonly end: number;
  /** How many pieces nobody has read. */
  unread: number;
  isOver: boolean;
}

class Traffic {
  readonly #plan: Plan;
  readonly #store = createSteeredStore({ blockSizeBytes, maxSizeBytes: 64 * 1024 });
  readonly #proxy: ReturnType<typeof createWholeProxy>;
  readonly #visitors: Visitor[] = [];
  readonly #readings: Promise<void>[] = [];
  readonly #transfers: Transfer[] = [];
  readonly #releases: (() => void)[] = [];
  #version = 1;
  #knownVersion = 1;

  constructor(plan: Plan) {
    this.#plan = plan;
    this.#proxy = createWholeProxy({
      createStore: () => this.#store,
      blockSizeBytes,
      windowBytes: 512,
      originRanges: plan.ranges === 'none' ? 'never' : 'auto',
      fill: {
        onAbort: plan.onAbort,
        complete: plan.complete,
        resumeAttempts: plan.resumeAttempts,
        seekAheadBytes: plan.seekAheadBytes,
      },
    });
  }

  async run(): Promise<void> {
    for (const each of this.#plan.steps) await this.#take(each);
    for (const release of this.#releases) release();
    await this.#serveTheRest();
    await this.#proxy.close();
    await turn();
    expect(this.#store.held).toBe(0);
    for (const { exchange, unread } of this.#transfers) {
      expect(unread === 0 || exchange.isClosed || exchange.request.signal.aborted).toBe(true);
    }
  }

  async #take(each: Step): Promise<void> {
    switch (each.kind) {
      case 'send':
        return this.#send(each.sent);
      case 'leave':
        return this.#leave(this.#visitors[each.who % Math.max(1, this.#visitors.length)]);
      case 'head':
        return await this.#answer(each.isSized, each.is304);
      case 'chunk':
        return this.#transfer(each.who, (transfer) => this.#continue(transfer, each.count));
      case 'finish':
        return this.#transfer(each.who, (transfer) => this.#finish(transfer));
      case 'break':
        return this.#transfer(each.who, (transfer) => {
          transfer.isOver = true;
          transfer.exchange.fail(new ProxyError('origin_reset'));
        });
      case 'refuse':
        if (this.#proxy.origin.untaken > 0) (await this.#proxy.origin.next()).fail(new ProxyError('origin_refused'));
        return;
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
        this.#version += 1;
        return;
      case 'turn':
        return await turn();
    }
  }

  #send(sent: Sent): void {
    const id = String(this.#visitors.length);
    const client = this.#proxy.send({ ...sent, fields: { ...sent.fields, 'x-client': id } });
    const visitor = { id, client, sent, leastVersion: this.#knownVersion, hasLeft: false };
    this.#visitors.push(visitor);
    this.#readings.push(this.#read(visitor));
  }

  #leave(visitor: Visitor | undefined): void {
    if (visitor === undefined || visitor.hasLeft) return;
    visitor.hasLeft = true;
    void visitor.client.leave();
  }

  async #read(visitor: Visitor): Promise<void> {
    const { status } = await visitor.client.response;
    const bytes = await visitor.client.bytes().catch((error: ProxyError) => {
      if (!visitor.hasLeft) expect(this.#possibleErrors()).toContain(error.code);
    });
    if (bytes === undefined || visitor.hasLeft) return;
    const expected = visitor.sent.method === 'PUT' ? [204, 502] : [200, 206, 304, 412, 416, 502, 504];
    expect(expected).toContain(status);
    if (visitor.sent.method === 'PUT') {
      this.#knownVersion = Math.max(this.#knownVersion, Number((await visitor.client.field('x-version')) ?? 0));
    } else if (visitor.sent.method !== 'HEAD' && status <= 206) {
      await this.#check(visitor, Buffer.from(bytes));
    }
  }

  /** What may cut the response of a client that stays. */
  #possibleErrors(): string[] {
    const kinds = new Set(this.#plan.steps.map(({ kind }) => kind));
    const { steps, ranges: manner } = this.#plan;
    const isPut = steps.some((each) => each.kind === 'send' && each.sent.method === 'PUT');
    const mayChange = kinds.has('change') || isPut || manner === 'other-length';
    const isLosing = kinds.has('damage') || kinds.has('fill-disk');
    return [
      ...(kinds.has('break') ? ['origin_reset'] : []),
      ...(kinds.has('refuse') ? ['origin_refused'] : []),
      ...(mayChange ? ['generation_changed'] : []),
      ...(isLosing ? ['bytes_gone'] : []),
    ];
  }

  /** Whether the bytes are those of the version that the response names, which may be given to this client. */
  async #check(visitor: Visitor, bytes: Buffer): Promise<void> {
    const { status, fields, body } = await visitor.client.response;
    const version = Number(fieldValue(fields, 'x-version'));
    expect(version).toBeGreaterThanOrEqual(visitor.leastVersion);
    const asker = this.#visitors[Number(fieldValue(fields, 'x-client'))] ?? visitor;
    if (asker !== visitor) this.#checkSharing(visitor, asker, fieldValue(fields, 'cache-status') ?? '');

    if (body.kind !== 'none' && body.sizeBytes !== undefined) expect(bytes.length).toBe(body.sizeBytes);
    const range = fieldValue(fields, 'content-range');
    if (status === 200) expect(bytes.equals(patternBytes(0, this.#plan.size, version))).toBe(true);
    else if (range === undefined) expectParts(bytes, version);
    else expect(bytes.equals(bytesOf(range, version))).toBe(true);
  }

  /** Whether what the origin gave to another client may be given to this one. */
  #checkSharing(visitor: Visitor, asker: Visitor, cacheStatus: string): void {
    const { lifetime, varies, validator } = this.#plan;
    if (varies) expect(asker.sent.fields?.['accept-language']).toBe(visitor.sent.fields?.['accept-language']);
    if (ownLifetimes.includes(lifetime)) expect(cacheStatus).toContain('detail=origin');
    // With a validator it may be another client's response that this one's request has confirmed.
    if (validator === 'none') expect(Object.keys(asker.sent.fields ?? {})).not.toContain('authorization');
  }

  async #answer(isSized: boolean, is304: boolean): Promise<void> {
    if (this.#proxy.origin.untaken === 0) return;
    const exchange = await this.#proxy.origin.next();
    const { method, fields } = exchange.request;
    if (method === 'PUT') this.#version += 1;
    const { size, lifetime, varies } = this.#plan;
    const etag = this.#etag();
    const head: Record<string, string> = {
      'x-version': String(this.#version),
      'content-type': `text/plain; version=${this.#version}`,
      'x-client': fieldValue(fields, 'x-client') ?? '',
      ...(lifetime === '' ? {} : { 'cache-control': lifetime }),
      ...(etag === undefined ? {} : { etag }),
      ...(varies ? { vary: 'accept-language' } : {}),
    };
    const sized = isSized ? { ...head, 'content-length': String(size) } : head;
    const isUnchanged = is304 && etag !== undefined && fieldValue(fields, 'if-none-match') === etag;
    const part = method === 'GET' ? this.#part(fields) : undefined;
    if (method === 'PUT') exchange.respond({ status: 204, fields: head, framing: 'none' }, new Uint8Array());
    else if (isUnchanged) exchange.respond({ status: 304, fields: head, framing: 'none' }, new Uint8Array());
    else if (method === 'HEAD') exchange.respond({ fields: sized, framing: 'none' }, new Uint8Array());
    else if (part === 'unsatisfied') exchange.respond({ status: 416, fields: head }, new Uint8Array());
    else if (part !== undefined) this.#sendPart(exchange, head, part);
    else this.#begin(exchange, { fields: sized }, { start: 0, end: size });
  }

  #etag(): string | undefined {
    const { validator } = this.#plan;
    return validator === 'none' ? undefined : `${validator === 'weak' ? 'W/' : ''}"${this.#version}"`;
  }

  /** The bytes that the origin sends for a Range; undefined for the whole. */
  #part(fields: Fields): Span | 'unsatisfied' | undefined {
    const { size, ranges: manner } = this.#plan;
    const ifRange = fieldValue(fields, 'if-range');
    const [, first = '', last = ''] = /^bytes=([0-9]*)-([0-9]*)$/.exec(fieldValue(fields, 'range') ?? '') ?? [];
    const isAsked = first !== '' || last !== '';
    if (manner === 'none' || !isAsked || (ifRange !== undefined && ifRange !== this.#etag())) return undefined;
    const start = first === '' ? Math.max(0, size - Number(last)) : Number(first);
    const end = first === '' || last === '' ? size : Math.min(size, Number(last) + 1);
    if (start >= end || manner === 'unsatisfied') return 'unsatisfied';
    if (manner === 'short') return { start, end: Math.min(end, start + 300) };
    if (manner === 'early') return { start: Math.max(0, start - 100), end };
    return manner === 'elsewhere' ? { start: size - 1, end: size } : { start, end };
  }

  #sendPart(exchange: FakeExchange, head: Record<string, string>, part: Span): void {
    const { size, ranges: manner } = this.#plan;
    const { etag: _, ...unnamed } = head;
    const total = manner === 'other-length' ? size + 1 : size;
    const fields = {
      ...(manner === 'unnamed' ? unnamed : head),
      'content-length': String(part.end - part.start),
      'content-range': `bytes ${part.start}-${part.end - 1}/${total}`,
    };
    this.#begin(exchange, { status: 206, fields }, part);
  }

  #begin(exchange: FakeExchange, head: FakeHead, { start, end }: Span): void {
    exchange.head(head);
    this.#transfers.push({ exchange, version: this.#version, sent: start, end, unread: 0, isOver: false });
  }

  #transfer(who: number, act: (transfer: Transfer) => void): void {
    const running = this.#transfers.filter(({ isOver }) => !isOver);
    const transfer = running[who % Math.max(1, running.length)];
    if (transfer !== undefined) act(transfer);
  }

  #continue(transfer: Transfer, count: number): void {
    const end = Math.min(transfer.end, transfer.sent + count);
    const piece = patternBytes(transfer.sent, end, transfer.version);
    transfer.sent = end;
    transfer.unread += 1;
    void transfer.exchange.send(piece).then(() => {
      transfer.unread -= 1;
    });
  }

  #finish(transfer: Transfer): void {
    this.#continue(transfer, this.#plan.size);
    transfer.isOver = true;
    transfer.exchange.end();
  }

  /** Answers whatever is still asked, until every client has its response, or one of them waits for ever. */
  async #serveTheRest(): Promise<void> {
    let isOver = false;
    const over = Promise.all(this.#readings).finally(() => {
      isOver = true;
    });
    over.catch(() => {});
    for (let turns = 0; !isOver && turns < 2000; turns += 1) {
      while (this.#proxy.origin.untaken > 0) await this.#answer(true, true);
      for (const transfer of this.#transfers) if (!transfer.isOver) this.#finish(transfer);
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

function expectParts(body: Buffer, version: number): void {
  const heads = [...body.toString('latin1').matchAll(/Content-Range: (bytes .*)\r\n\r\n/g)];
  expect(heads.length).toBeGreaterThan(1);
  for (const { 0: head, 1: range = '', index } of heads) {
    const part = bytesOf(range, version);
    const start = index + head.length;
    expect(body.subarray(start, start + part.length).equals(part)).toBe(true);
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

describe('random traffic', () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => unhandled.push(reason);
  beforeAll(() => void process.on('unhandledRejection', note));
  afterAll(() => void process.off('unhandledRejection', note));

  it('gets no wrong byte and none that is for others, does not wait for ever, and leaves nothing open', async () => {
    const plan = fc.record({
      onAbort: fc.constantFrom('finish' as const, 'stop' as const),
      size: fc.constantFrom(0, 1, 255, 256, 700, 3000, 6000),
      lifetime: fc.constantFrom(...sharedLifetimes, ...ownLifetimes),
      validator: fc.constantFrom('strong' as const, 'strong' as const, 'weak' as const, 'none' as const),
      ranges: fc.constantFrom(...rangeManners),
      complete: fc.constantFrom('always' as const, 'never' as const),
      resumeAttempts: fc.constantFrom(0, 3),
      seekAheadBytes: fc.constantFrom(0, 600, 100_000),
      varies: fc.boolean(),
      steps: fc.array(step, { minLength: 5, maxLength: 60 }),
    });
    const traffic = fc.asyncProperty(plan, (each) => new Traffic(each).run());
    await fc.assert(traffic, { numRuns: Number(RANGEWAY_TEST_RUNS) });
    expect(unhandled).toEqual([]);
  });
});
