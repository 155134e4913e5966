/** Which members a group asks, in which order, and the health of its members. */

import { describe, expect, it } from 'vitest';
import { BoundClient } from '../../src/http/client-connection.ts';
import type { BodyStream } from '../../src/http/message.ts';
import { type ErrorCode, ProxyError } from '../../src/http/proxy-error.ts';
import { createOriginGroup, type OriginGroupOptions } from '../../src/origin/group/origin-group.ts';
import type { Origin, OriginRequest, OriginResponse } from '../../src/origin/origin.ts';
import { OriginError } from '../../src/origin/origin-error.ts';
import { createFakeClock, type FakeClock } from '../support/clocks/fake-clock.ts';
import { codeOf, originRequest, readBody } from '../support/origins/origin-request.ts';

type Answer =
  | number
  | ErrorCode
  | `unsent ${ErrorCode}`
  | ((request: OriginRequest) => Promise<OriginResponse> | OriginResponse);

/** Creates a group of members a, b, c … and the answers of each, in turn; the last answer repeats. */
function createGroup(answers: Record<string, readonly Answer[]>, overrides: Partial<OriginGroupOptions> = {}) {
  const clock: FakeClock = createFakeClock();
  const asked: string[] = [];
  const hosts: (string | undefined)[] = [];
  const changes: string[] = [];
  const closed: string[] = [];
  const members = Object.entries(answers).map(([name, script]) => {
    let count = 0;
    const origin: Origin = {
      async fetch(request) {
        asked.push(name);
        hosts.push(request.fields.find(([field]) => field === 'host')?.[1]);
        const answer = script[Math.min(count++, script.length - 1)] ?? 200;
        if (typeof answer === 'function') return await answer(request);
        if (typeof answer === 'number') return responseOf(answer);
        const isUnsent = answer.startsWith('unsent ');
        throw new OriginError(answer.replace('unsent ', '') as ErrorCode, { isUnsent });
      },
      close: async () => void closed.push(name),
    };
    return { url: new URL(`http://${name}.test`), origin, host: `${name}.test` };
  });
  const group = createOriginGroup({
    members,
    choice: 'first',
    retries: { attempts: 2, budgetPercent: 20 },
    health: { failures: 3, restMs: 10_000 },
    clock,
    random: () => 0.5,
    onHealth: ({ hostname }, isWell, reason) => changes.push(`${hostname[0]} ${isWell ? 'well' : 'ill'}: ${reason}`),
    ...overrides,
  });
  const ask = async (request: Partial<OriginRequest> = {}): Promise<string> =>
    group.fetch(originRequest(request)).then(
      async (response) => {
        await readBody(response);
        return String(response.status);
      },
      (thrown: unknown) => codeOf(thrown),
    );
  /** Returns the members that were asked since the last call. */
  const takeAsked = () => asked.splice(0).join('');
  return { group, clock, ask, takeAsked, hosts, changes, closed };
}

function responseOf(status: number, body: BodyStream = emptyBody()): OriginResponse {
  return { status, fields: [], version: '1.1', framing: 'chunked', sizeBytes: undefined, body };
}

function emptyBody(): BodyStream {
  const { body, end } = heldBody();
  end();
  return body;
}

/** A body that ends with `end`, or breaks off with `fail`. */
function heldBody() {
  const end = Promise.withResolvers<void>();
  const body: BodyStream = {
    async *[Symbol.asyncIterator]() {
      await end.promise;
      yield Buffer.alloc(0);
    },
    close: end.resolve,
  };
  return { body, end: end.resolve, fail: (code: ErrorCode = 'origin_reset') => end.reject(new ProxyError(code)) };
}

const refused = 'unsent origin_refused';

it('reports the health of its members', async () => {
  const { group, ask, clock } = createGroup({ a: [refused], b: [200] });
  const reported = () => group.listMembers().map(({ url, health }) => `${url.hostname} ${health}`);
  expect(reported()).toEqual(['a.test well', 'b.test well']);
  for (let count = 0; count < 3; count += 1) await ask();
  expect(reported()).toEqual(['a.test resting', 'b.test well']);
  clock.advance(10_000);
  expect(reported()).toEqual(['a.test ill', 'b.test well']);
});

describe('the first well member', () => {
  it.each<
    [name: string, answers: Record<string, Answer[]>, want: string, asked: string, request?: Partial<OriginRequest>]
  >([
    ['is asked', { a: [200], b: [200] }, '200', 'a'],
    ['does not listen: the next one is asked', { a: [refused], b: [200] }, '200', 'ab'],
    ['does not listen, nor does the next', { a: [refused], b: [refused], c: [200] }, '200', 'abc'],
    [
      'fails, and two more at most are asked',
      { a: [refused], b: [refused], c: [refused], d: [200] },
      'origin_refused',
      'abc',
    ],
    ['does not listen, for a POST', { a: [refused], b: [200] }, '200', 'ab', { method: 'POST' }],
    ['breaks off', { a: ['origin_reset'], b: [200] }, '200', 'ab'],
    ['breaks off, for a POST', { a: ['origin_reset'], b: [200] }, 'origin_reset', 'a', { method: 'POST' }],
    ['does not answer in time', { a: ['origin_timeout'], b: [200] }, '200', 'ab'],
    ['answers 503', { a: [503], b: [200] }, '200', 'ab'],
    ['answers 503, and the next one too', { a: [503], b: [502] }, '502', 'ab'],
    ['answers 503, for a POST', { a: [503], b: [200] }, '503', 'a', { method: 'POST' }],
    ['answers 500', { a: [500], b: [200] }, '500', 'a'],
    ['answers garbage', { a: ['origin_ill_framed'], b: [200] }, 'origin_ill_framed', 'a'],
    ['is the only one, and refuses', { a: [refused, 200] }, 'origin_refused', 'a'],
    ['is the only one, and breaks off', { a: ['origin_reset', 'origin_reset', 200] }, '200', 'aaa'],
    ['is the only one, and refuses the stream', { a: ['unsent origin_reset', 200] }, '200', 'aa', { method: 'POST' }],
  ])('%s', async (_name, answers, want, asked, request) => {
    const ground = createGroup(answers);
    expect(await ground.ask(request)).toBe(want);
    expect(ground.takeAsked()).toBe(asked);
  });

  it('is not sent a request again without retries', async () => {
    const ground = createGroup({ a: [refused], b: [200] }, { retries: { attempts: 0, budgetPercent: 20 } });
    expect(await ground.ask()).toBe('origin_refused');
  });

  it('is asked with its own Host', async () => {
    const ground = createGroup({ a: [refused], b: [200] });
    await ground.ask();
    expect(ground.hosts).toEqual(['a.test', 'b.test']);
  });

  it('has its failure passed on when the budget is spent', async () => {
    const ground = createGroup(
      { a: [503], b: [200] },
      { retries: { attempts: 2, budgetPercent: 0 }, health: { failures: 1000, restMs: 1 } },
    );
    const got = [];
    for (let count = 0; count < 12; count++) got.push(await ground.ask());
    expect(got).toEqual([...Array.from({ length: 10 }, () => '200'), '503', '503']);
  });

  it('leaves an untouched body to the next one, and the body is closed in the end', async () => {
    let closes = 0;
    const body: BodyStream = {
      async *[Symbol.asyncIterator]() {
        yield Buffer.from('abc');
      },
      close() {
        closes += 1;
      },
    };
    const refuse: Answer = (request) => {
      request.body?.close();
      throw new OriginError('origin_refused', { isUnsent: true });
    };
    const take: Answer = async (request) => {
      const chunks: Uint8Array[] = [];
      for await (const chunk of request.body ?? emptyBody()) chunks.push(chunk);
      request.body?.close();
      return responseOf(Buffer.concat(chunks).toString() === 'abc' ? 201 : 500);
    };
    const ground = createGroup({ a: [refuse], b: [take] });
    expect(await ground.ask({ method: 'POST', body, bodySizeBytes: 3 })).toBe('201');
    expect(ground.takeAsked()).toBe('ab');
    expect(closes).toBeGreaterThan(0);

    closes = 0;
    const failing = createGroup({ a: [refuse], b: [refuse] });
    expect(await failing.ask({ method: 'POST', body, bodySizeBytes: 3 })).toBe('origin_refused');
    expect(closes).toBeGreaterThan(0);
  });

  it('has its answer closed where that is not passed on', async () => {
    const held = heldBody();
    const ground = createGroup({ a: [() => responseOf(503, held.body)], b: [200] });
    expect(await ground.ask()).toBe('200');
    await held.end();
  });
});

describe('an ill origin', () => {
  it('is not asked, is probed after its rest, and is reported', async () => {
    const ground = createGroup({ a: [refused, refused, refused, 503, 200], b: [200] });
    for (let count = 0; count < 4; count++) await ground.ask();
    expect(ground.takeAsked()).toBe('abababb');
    expect(ground.changes).toEqual(['a ill: origin_refused']);
    ground.clock.advance(10_000);
    expect(await ground.ask()).toBe('200');
    expect(ground.takeAsked()).toBe('ab');
    ground.clock.advance(19_999);
    await ground.ask();
    expect(ground.takeAsked()).toBe('b');
    ground.clock.advance(1);
    await ground.ask();
    await ground.ask();
    expect(ground.takeAsked()).toBe('aa');
    expect(ground.changes).toEqual(['a ill: origin_refused', 'a well: it answers again']);
  });

  it('is probed by one request at a time', async () => {
    const probe = Promise.withResolvers<OriginResponse>();
    const ground = createGroup(
      { a: [503, () => probe.promise], b: [200] },
      { health: { failures: 1, restMs: 10_000 } },
    );
    await ground.ask();
    ground.clock.advance(10_000);
    ground.takeAsked();
    const probing = ground.ask();
    await ground.ask();
    await ground.ask();
    expect(ground.takeAsked()).toBe('abb');
    probe.resolve(responseOf(200));
    expect(await probing).toBe('200');
    await ground.ask();
    expect(ground.takeAsked()).toBe('a');
  });

  it('is asked all the same when none is well: the one whose rest ends first', async () => {
    const ground = createGroup(
      { a: [503], b: [refused] },
      { health: { failures: 1, restMs: 10_000 }, retries: { attempts: 0, budgetPercent: 0 } },
    );
    expect(await ground.ask()).toBe('503');
    ground.clock.advance(1000);
    expect(await ground.ask()).toBe('origin_refused');
    expect(await ground.ask()).toBe('503');
    expect(await ground.ask()).toBe('503');
    expect(ground.takeAsked()).toBe('abaa');
  });

  it('is never one whose clients leave', async () => {
    const gone: Answer = () => Promise.reject(new ProxyError('client_gone'));
    const ground = createGroup({ a: [gone], b: [200] }, { health: { failures: 1, restMs: 10_000 } });
    for (let count = 0; count < 3; count++) expect(await ground.ask()).toBe('client_gone');
    expect(ground.changes).toEqual([]);
  });

  it('is never a lone origin', async () => {
    const ground = createGroup({ a: [503, 'origin_timeout', refused, 503, 503, 200] });
    const got = [];
    for (let count = 0; count < 6; count++) got.push(await ground.ask());
    expect(got).toEqual(['503', 'origin_timeout', 'origin_refused', '503', '503', '200']);
    expect(ground.changes).toEqual([]);
  });
});

describe('spread', () => {
  const choice = 'spread';

  it('takes idle members in turn', async () => {
    const ground = createGroup({ a: [200], b: [200], c: [200] }, { choice });
    for (let count = 0; count < 6; count++) await ground.ask();
    expect(ground.takeAsked()).toBe('abcabc');
  });

  it('takes the member with the fewest requests, which count until their bodies are over', async () => {
    const held = heldBody();
    const ground = createGroup({ a: [() => responseOf(200, held.body), 200], b: [200] }, { choice });
    const first = await ground.group.fetch(originRequest());
    for (let count = 0; count < 4; count++) await ground.ask();
    expect(ground.takeAsked()).toBe('abbbb');
    held.end();
    await readBody(first);
    for (let count = 0; count < 4; count++) await ground.ask();
    expect(ground.takeAsked()).toBe('abab');
  });

  it('continues a representation at the member that sent it', async () => {
    const ground = createGroup({ a: [200], b: [200] }, { choice });
    await ground.ask();
    for (let count = 0; count < 3; count++)
      await ground.ask({
        fields: [
          ['host', 'x'],
          ['if-range', '"1"'],
        ],
      });
    for (let count = 0; count < 3; count++)
      await ground.ask({
        fields: [
          ['host', 'x'],
          ['if-none-match', '"1"'],
        ],
      });
    expect(ground.takeAsked()).toBe('aaaaaaa');
  });

  it('continues it at another member where that one is ill', async () => {
    const ground = createGroup({ a: [200, 503], b: [200] }, { choice, health: { failures: 1, restMs: 10_000 } });
    await ground.ask();
    for (let count = 0; count < 3; count++) await ground.ask({ fields: [['if-range', '"1"']] });
    expect(ground.takeAsked()).toBe('aabbb');
  });

  it('resumes a broken transfer at the same member, and then at another', async () => {
    const broken = (): OriginResponse => {
      const { body, fail } = heldBody();
      fail();
      return responseOf(200, body);
    };
    const ground = createGroup({ a: [broken], b: [200] }, { choice });
    for (let count = 0; count < 3; count++) await ground.ask();
    expect(ground.takeAsked()).toBe('aab');
  });

  it('does not count a client that leaves as a broken transfer', async () => {
    const left = (): OriginResponse => {
      const { body, fail } = heldBody();
      fail('client_gone');
      return responseOf(200, body);
    };
    const ground = createGroup({ a: [left, left, 200], b: [200] });
    for (let count = 0; count < 4; count++) await ground.ask();
    expect(ground.takeAsked()).toBe('aaaa');
  });
});

describe('a hold', () => {
  it('is for the member that a request would go to, counts as a request, and reports its health', async () => {
    const ground = createGroup({ a: [200], b: [200] }, { choice: 'spread', health: { failures: 1, restMs: 10_000 } });
    const hold = ground.group.hold();
    expect([hold.url.hostname, hold.host]).toEqual(['a.test', 'a.test']);
    await ground.ask();
    await ground.ask();
    expect(ground.takeAsked()).toBe('bb');
    hold.report('failed', 'it is not there');
    hold.report('well', 'too late');
    hold.release();
    hold.release();
    expect(ground.changes).toEqual(['a ill: it is not there']);
    expect(ground.group.hold().url.hostname).toBe('b.test');
  });

  it('is for the member that authenticates the connection of its owner, as are later requests', async () => {
    const ground = createGroup({ a: [401, 200], b: [401, 200], c: [401, 200] }, { choice: 'spread' });
    const [one, other] = [new BoundClient(), new BoundClient()];
    await ground.ask({ owner: one });
    const name = () => ground.group.hold(one).url.hostname;
    expect([name(), name(), ground.group.hold(other).url.hostname]).toEqual(['a.test', 'a.test', 'b.test']);
    await ground.ask({ owner: other });
    await ground.ask({ owner: one });
    expect(ground.takeAsked()).toBe('aba');
  });
});

describe('checks', () => {
  const check = { path: '/healthz', intervalMs: 10_000, timeoutMs: 5000, passes: 2, fieldsFor: () => [] };

  it('take an origin out and put it in again, and stop when the group is closed', async () => {
    const ground = createGroup({ a: [500, 500, 500, 200, 404, 302, 204, 200], b: [200] }, { check });
    const tick = async (ms: number) => {
      ground.clock.advance(ms);
      await ground.clock.whenPending(2);
    };
    await tick(5000);
    expect(ground.takeAsked()).toBe('ab');
    await tick(10_000);
    await tick(10_000);
    expect(ground.changes).toEqual(['a ill: the check got 500']);
    ground.takeAsked();
    await tick(10_000);
    await tick(10_000);
    await tick(10_000);
    expect(ground.changes.length).toBe(1);
    await tick(10_000);
    expect(ground.changes).toEqual(['a ill: the check got 500', 'a well: it answers again']);
    await ground.group.close();
    expect([ground.clock.pending, ground.closed]).toEqual([0, ['a', 'b']]);
  });

  it('fail when no answer arrives in time', async () => {
    const silent: Answer = ({ signal }) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }));
    const ground = createGroup({ a: [silent], b: [200] }, { check, health: { failures: 1, restMs: 10_000 } });
    ground.clock.advance(5000);
    await ground.clock.whenPending(2);
    ground.clock.advance(5000);
    await expect
      .poll(() => ground.changes)
      .toEqual([expect.stringMatching(/^a ill: the check failed: origin_timeout/)]);
    await ground.group.close();
  });
});
