/** Random traffic with random faults: whatever happens in whichever order, no wrong byte, nobody waits for ever, nothing is left open. */

import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fieldValue } from '../../src/http/fields.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { StoreFault } from '../../src/store/store.ts';
import type { FakeExchange } from '../support/fake-origin.ts';
import { patternBytes } from '../support/pattern-body.ts';
import { createSteeredStore } from '../support/steered-store.ts';
import { type Client, createWholeProxy, type Sent } from '../support/whole-proxy.ts';

const blockSizeBytes = 256;

const ranges = ['bytes=0-9', 'bytes=-7', 'bytes=300-', 'bytes=0-', 'bytes=500-509,3-5', 'bytes=99999-'];
const sents: Sent[] = [
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

const lifetimes = ['max-age=60', 'max-age=1', 'no-cache', 'max-age=0', '', 'no-store', 'private'];

const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('send' as const), sent: fc.constantFrom(...sents) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('leave' as const), who: fc.nat(20) }) },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant('head' as const), isSized: fc.boolean(), is304: fc.boolean() }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('chunk' as const),
      who: fc.nat(9),
      bytes: fc.integer({ min: 1, max: 900 }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('finish' as const), who: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('fail' as const), who: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('refuse' as const) }) },
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
    arbitrary: fc.record({ kind: fc.constant('advance' as const), ms: fc.constantFrom(500, 2000, 20_000, 100_000) }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('turn' as const) }) },
);

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

interface Plan {
  readonly onAbort: 'finish' | 'stop';
  readonly size: number;
  readonly lifetime: string;
  readonly hasValidator: boolean;
  readonly varies: boolean;
  readonly steps: readonly Step[];
}

interface Answering {
  readonly exchange: FakeExchange;
  readonly seed: number;
  sent: number;
  isOver: boolean;
}

/** The origin and the clients of one run. */
class Traffic {
  readonly #plan: Plan;
  readonly #store = createSteeredStore({ blockSizeBytes, maxSizeBytes: 64 * 1024 });
  readonly #proxy: ReturnType<typeof createWholeProxy>;
  readonly #clients: { client: Client; sent: Sent; hasLeft: boolean; over: Promise<void> }[] = [];
  readonly #answering: Answering[] = [];
  #seed = 1;
  #releases: (() => void)[] = [];

  constructor(plan: Plan) {
    this.#plan = plan;
    this.#proxy = createWholeProxy({
      createStore: () => this.#store,
      blockSizeBytes,
      windowBytes: 512,
      route: { fill: { onAbort: plan.onAbort, lengthWaitMs: 1000 } },
    });
  }

  async run(): Promise<void> {
    for (const step of this.#plan.steps) await this.#take(step);
    for (const release of this.#releases) release();
    await this.#settle();
    await this.#proxy.close();
    await turn();
    expect(this.#store.held).toBe(0);
    expect(this.#answering.filter(({ exchange, isOver }) => !exchange.isClosed && !isOver)).toEqual([]);
  }

  async #take(step: Step): Promise<void> {
    switch (step.kind) {
      case 'send':
        this.#send(step.sent);
        break;
      case 'leave': {
        const who = this.#clients[step.who % Math.max(1, this.#clients.length)];
        if (who !== undefined && !who.hasLeft) {
          who.hasLeft = true;
          void who.client.leave();
        }
        break;
      }
      case 'head':
        if (this.#proxy.origin.untaken > 0) await this.#answer(step.isSized, step.is304);
        break;
      case 'chunk':
        this.#chunk(this.#at(step.who), step.bytes);
        break;
      case 'finish':
        this.#finish(this.#at(step.who));
        break;
      case 'fail': {
        const answering = this.#at(step.who);
        if (answering !== undefined) {
          answering.isOver = true;
          answering.exchange.fail(new ProxyError('origin_reset'));
        }
        break;
      }
      case 'refuse':
        this.#store.fail('writeBlock', new StoreFault('no_room', 'full'));
        break;
      case 'damage':
        this.#store.damageBlock(step.index);
        break;
      case 'hold':
        this.#releases.push(this.#store.hold(step.step).release);
        break;
      case 'release':
        this.#releases.shift()?.();
        break;
      case 'advance':
        this.#proxy.clock.advance(step.ms);
        break;
      case 'turn':
        await turn();
        break;
    }
  }

  #at(who: number): Answering | undefined {
    const open = this.#answering.filter(({ isOver }) => !isOver);
    return open[who % Math.max(1, open.length)];
  }

  #send(sent: Sent): void {
    const client = this.#proxy.send(sent);
    const entry = { client, sent, hasLeft: false, over: Promise.resolve() };
    entry.over = this.#read(client, sent, () => entry.hasLeft);
    this.#clients.push(entry);
  }

  /** Reads all and checks each byte against the version that the response says it is of. */
  async #read(client: Client, sent: Sent, hasLeft: () => boolean): Promise<void> {
    const { status, fields, body } = await client.response;
    let bytes: Uint8Array;
    try {
      bytes = await client.bytes();
    } catch (error) {
      expect(error).toBeInstanceOf(ProxyError);
      // Who stays is told the truth: its response broke off because the origin did, the store did, or the server stops.
      if (!hasLeft()) expect(['origin_reset', 'bytes_gone']).toContain((error as ProxyError).code);
      return;
    }
    if (!hasLeft()) expect(status).not.toBe(499);
    expect([200, 204, 206, 304, 412, 416, 499, 500, 502, 504]).toContain(status);
    if (status === 500) expect.fail(`internal: ${JSON.stringify(this.#proxy.requestEvents().at(-1))}`);
    if (sent.method === 'HEAD' || (status !== 200 && status !== 206)) return;
    if (body.kind !== 'none' && body.sizeBytes !== undefined) expect(bytes.length).toBe(body.sizeBytes);
    const seed = Number(fieldValue(fields, 'x-seed'));
    if (status === 200) {
      expect(bytes.length).toBe(this.#plan.size);
      expect(Buffer.from(bytes).equals(patternBytes(0, this.#plan.size, seed))).toBe(true);
      return;
    }
    const [, first, last] = /^bytes (\d+)-(\d+)\//.exec(fieldValue(fields, 'content-range') ?? '') ?? [];
    if (first === undefined) return expectParts(Buffer.from(bytes), seed);
    expect(Buffer.from(bytes).equals(patternBytes(Number(first), Number(last) + 1, seed))).toBe(true);
  }

  async #answer(isSized: boolean, is304: boolean): Promise<void> {
    const exchange = await this.#proxy.origin.next();
    const { method, fields } = exchange.request;
    if (method === 'PUT') {
      this.#seed += 1;
      exchange.respond({ status: 204, framing: 'none' }, new Uint8Array());
      return;
    }
    const seed = this.#seed;
    const { size, lifetime, hasValidator, varies } = this.#plan;
    const head: Record<string, string> = {
      'x-seed': String(seed),
      ...(lifetime === '' ? {} : { 'cache-control': lifetime }),
      ...(hasValidator ? { etag: `"${seed}"` } : {}),
      ...(varies ? { vary: 'accept-language' } : {}),
    };
    if (is304 && hasValidator && fieldValue(fields, 'if-none-match') === `"${seed}"`) {
      exchange.respond({ status: 304, fields: head, framing: 'none' }, new Uint8Array());
      return;
    }
    if (method === 'HEAD') {
      exchange.head({ fields: { ...head, 'content-length': String(size) }, framing: 'none' });
      exchange.end();
      return;
    }
    exchange.head({ fields: isSized ? { ...head, 'content-length': String(size) } : head });
    this.#answering.push({ exchange, seed, sent: 0, isOver: false });
  }

  #chunk(answering: Answering | undefined, count: number): void {
    if (answering === undefined) return;
    const end = Math.min(this.#plan.size, answering.sent + count);
    if (end > answering.sent) void answering.exchange.send(patternBytes(answering.sent, end, answering.seed));
    answering.sent = end;
  }

  #finish(answering: Answering | undefined): void {
    if (answering === undefined) return;
    this.#chunk(answering, this.#plan.size);
    answering.isOver = true;
    answering.exchange.end();
  }

  /** Answers whatever is still asked, until every client has its response: or some client waits for ever. */
  async #settle(): Promise<void> {
    let isOver = false;
    const over = Promise.all(this.#clients.map((client) => client.over)).finally(() => {
      isOver = true;
    });
    over.catch(() => {});
    for (let turns = 0; !isOver && turns < 2000; turns += 1) {
      while (this.#proxy.origin.untaken > 0) await this.#answer(true, true);
      for (const answering of this.#answering) if (!answering.isOver) this.#finish(answering);
      if (turns % 20 === 19) this.#proxy.clock.advance(1000);
      await turn();
    }
    if (!isOver) expect.fail('somebody waits for ever');
    await over;
  }
}

function expectParts(body: Buffer, seed: number): void {
  const text = body.toString('latin1');
  const heads = [...text.matchAll(/Content-Range: bytes (\d+)-(\d+)\/\d+\r\n\r\n/g)];
  expect(heads.length).toBeGreaterThan(1);
  for (const head of heads) {
    const at = (head.index ?? 0) + head[0].length;
    const part = patternBytes(Number(head[1]), Number(head[2]) + 1, seed);
    expect(body.subarray(at, at + part.length).equals(part)).toBe(true);
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

  it('gets no wrong byte, does not wait for ever, and leaves nothing open', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          onAbort: fc.constantFrom('finish' as const, 'stop' as const),
          size: fc.constantFrom(0, 1, 255, 256, 700, 3000),
          lifetime: fc.constantFrom(...lifetimes),
          hasValidator: fc.boolean(),
          varies: fc.boolean(),
          steps: fc.array(step, { minLength: 5, maxLength: 60 }),
        }),
        async (plan) => {
          await new Traffic(plan).run();
        },
      ),
      { numRuns: Number(process.env['RUNS'] ?? 300) },
    );
    expect(unhandled).toEqual([]);
  });
});
