/** The limits of a route for one request, and their release when the request ends. */

import { describe, expect, it } from 'vitest';
import { type AllowanceRules, createAllowances } from '../../src/guard/limits/allowances.ts';
import { fieldValue } from '../../src/http/fields.ts';
import { type BodyStream, changedRequest, type ProxyRequest, type ProxyResponse } from '../../src/http/message.ts';
import { type ErrorCode, ProxyError } from '../../src/http/proxy-error.ts';
import type { OriginRequest } from '../../src/origin/origin.ts';
import { routeWith } from '../routing/route-sample.ts';
import { createFakeOrigin } from '../support/origins/fake-origin.ts';
import { noLimits } from '../support/proxies/open-gate.ts';

const finished = { bytesSent: 0, complete: true };

function request(changes: Partial<Pick<ProxyRequest, 'body' | 'bodySizeBytes'>> = {}): ProxyRequest {
  const plain: ProxyRequest = {
    method: 'GET',
    scheme: 'http',
    authority: 'a.test',
    target: '/',
    version: '1.1',
    fields: [],
    body: undefined,
    bodySizeBytes: undefined,
    peer: { address: '192.0.2.7', port: 40_000 },
    receivedAt: 0,
    signal: new AbortController().signal,
    sendInterim: () => undefined,
  };
  return changedRequest(plain, changes);
}

function createGround(rules: Partial<AllowanceRules>) {
  const clock = { ms: 0 };
  const origin = createFakeOrigin();
  const allowances = createAllowances({ ...noLimits, ...rules }, { now: () => clock.ms, after: () => () => {} });
  const route = { ...routeWith(), origin };
  const routed = { route, scheme: 'http' as const, authority: 'a.test', target: { path: '/', query: '' } };
  const enter = (address = '192.0.2.7', changes = {}) =>
    allowances.enter(request(changes), { address, forwardedFor: [] }, routed);
  const refusal = (address?: string, changes?: object): ProxyError | undefined => {
    try {
      enter(address, changes).leave(finished);
      return undefined;
    } catch (thrown) {
      if (thrown instanceof ProxyError) return thrown;
      throw thrown;
    }
  };
  return { clock, origin, enter, refusal, hits: allowances.hits };
}

function bodyOf(...sizes: readonly number[]): BodyStream & { isClosed: boolean } {
  return {
    isClosed: false,
    async *[Symbol.asyncIterator]() {
      for (const size of sizes) yield new Uint8Array(size);
    },
    close() {
      this.isClosed = true;
    },
  };
}

async function sizeOf(body: BodyStream | undefined): Promise<number> {
  let bytes = 0;
  for await (const chunk of body ?? []) bytes += chunk.length;
  return bytes;
}

async function codeOf(promise: Promise<unknown>): Promise<ErrorCode | 'none'> {
  return await promise.then(
    () => 'none',
    (thrown) => (thrown as ProxyError).code,
  );
}

describe('requestsPerClient', () => {
  it('limits the running requests of each client, and frees a place only once', () => {
    const { enter, refusal } = createGround({ requestsPerClient: 2 });
    const [first, second] = [enter(), enter()];
    const refused = refusal();
    expect(refused?.code).toBe('too_many_requests');
    expect(refused?.fields).toEqual([['retry-after', '1']]);
    expect(refusal('192.0.2.8')).toBeUndefined();
    first.leave(finished);
    first.leave(finished);
    expect(refusal()).toBeUndefined();
    const third = enter();
    expect(refusal()?.code).toBe('too_many_requests');
    for (const each of [second, third]) each.leave({ ...finished, complete: false });
    expect([enter(), enter()]).toHaveLength(2);
  });

  it('by default lets hits pass, and does not count a tunnel, which has its own limit', () => {
    const { enter, refusal, hits } = createGround({ requestsPerClient: 1, areHitsFree: true });
    expect(hits).toBeDefined();
    expect(createGround({ requestsPerClient: 1 }).hits).toBeUndefined();
    const tunnel = enter();
    expect(refusal()?.code).toBe('too_many_requests');
    tunnel.openTunnel();
    enter();
    tunnel.leave(finished);
    expect(refusal()?.code).toBe('too_many_requests');
  });

  it.each<[one: string, other: string, isShared: boolean]>([
    ['2001:db8::1', '2001:db8::2', true],
    ['2001:db8::1', '2001:db8:0:0:ffff::1', true],
    ['2001:db8::1', '2001:db8:0:1::1', false],
    ['', '', true],
    ['192.0.2.7', '192.0.2.8', false],
  ])('%j and %j count as one client: %j', (one, other, isShared) => {
    const { enter, refusal } = createGround({ requestsPerClient: 1 });
    enter(one);
    expect(refusal(other)?.code).toBe(isShared ? 'too_many_requests' : undefined);
  });
});

describe('tunnelsPerClient', () => {
  it('limits the open tunnels of each client, and frees a place only once', () => {
    const { enter } = createGround({ tunnelsPerClient: 2, tunnelIdleTimeoutMs: 5_000 });
    const [first, second, third] = [enter(), enter(), enter()];
    expect(first.openTunnel()).toEqual({ idleTimeoutMs: 5_000 });
    second.openTunnel();
    expect(() => third.openTunnel()).toThrow(expect.objectContaining({ code: 'too_many_requests' }));
    third.leave(finished);
    enter('192.0.2.8').openTunnel();
    first.leave(finished);
    first.leave(finished);
    enter().openTunnel();
    expect(() => enter().openTunnel()).toThrow(expect.objectContaining({ code: 'too_many_requests' }));
  });

  it('does not count other requests', () => {
    const { enter } = createGround({ tunnelsPerClient: 1 });
    enter().openTunnel();
    expect([enter(), enter()]).toHaveLength(2);
  });
});

describe('rate', () => {
  it('is stated in each response, and in refusals for any reason', () => {
    const rate = { requests: 3, seconds: 60, burst: 3 };
    const { enter, refusal } = createGround({ rate, requestsPerClient: 1, bodyBytes: 10 });
    const response: ProxyResponse = { status: 200, fields: [['a', 'b']], body: { kind: 'none' } };
    const presented = enter().present(response);
    expect(presented.fields).toEqual([
      ['a', 'b'],
      ['ratelimit-policy', '"rangeway";q=3;w=60'],
      ['ratelimit', '"rangeway";r=2;t=40'],
    ]);
    const busy = refusal();
    expect(busy?.fields.map(([name]) => name)).toEqual(['retry-after', 'ratelimit-policy', 'ratelimit']);
    const large = refusal('192.0.2.7', { body: bodyOf(11), bodySizeBytes: 11 });
    expect([large?.code, fieldValue(large?.fields ?? [], 'ratelimit')]).toEqual([
      'body_too_large',
      '"rangeway";r=0;t=20',
    ]);
    expect(refusal()?.code).toBe('rate_limited');
    expect(refusal('192.0.2.8')).toBeUndefined();
  });

  it('leaves a response unchanged without a limit', () => {
    const response: ProxyResponse = { status: 200, fields: [], body: { kind: 'none' } };
    expect(createGround({}).enter().present(response)).toBe(response);
  });
});

describe('bodyBytes', () => {
  it.each<[sizeBytes: number | undefined, sizes: readonly number[], want: string]>([
    [10, [10], 'passed, 10'],
    [11, [11], 'body_too_large at once'],
    [undefined, [4, 6], 'passed, 10'],
    [undefined, [4, 6, 1], 'body_too_large'],
    [undefined, [11], 'body_too_large'],
    [undefined, [], 'passed, 0'],
  ])('of 10, with Content-Length %j and chunks of %j: %s', async (bodySizeBytes, sizes, want) => {
    const { enter, refusal } = createGround({ bodyBytes: 10 });
    const changes = { body: bodyOf(...sizes), bodySizeBytes };
    if (want.endsWith('at once')) return expect(refusal(undefined, changes)?.code).toBe('body_too_large');
    const { body } = enter(undefined, changes).request;
    const read = sizeOf(body);
    if (want === 'body_too_large') expect(await codeOf(read)).toBe(want);
    else expect(`passed, ${await read}`).toBe(want);
    body?.close();
    expect(changes.body.isClosed).toBe(true);
  });

  it('of 0 allows only requests without a body', () => {
    const { refusal } = createGround({ bodyBytes: 0 });
    expect(refusal()).toBeUndefined();
    expect(refusal(undefined, { body: bodyOf(1), bodySizeBytes: 1 })?.code).toBe('body_too_large');
  });
});

/** Returns a request to the origin with an charged of its own. */
function originRequest(client = 'a', method = 'GET'): OriginRequest & { readonly body: BodyStream | undefined } {
  return {
    method,
    target: '/',
    fields: [],
    body: undefined,
    bodySizeBytes: undefined,
    signal: new AbortController().signal,
    charged: { client, bodyClients: undefined },
  };
}

describe('fills', () => {
  type Ending = (ground: ReturnType<typeof createGround>, answer: Promise<{ body: BodyStream }>) => Promise<unknown>;
  const endings: readonly (readonly [string, Ending])[] = [
    ['an error before the head', async ({ origin }) => (await origin.next()).fail(new ProxyError('origin_reset'))],
    [
      'the end of the body',
      async ({ origin }, answer) => {
        (await origin.next()).respond({}, new Uint8Array(5));
        await sizeOf((await answer).body);
      },
    ],
    [
      'a body that breaks off',
      async ({ origin }, answer) => {
        const exchange = await origin.next();
        exchange.head();
        const { body } = await answer;
        exchange.fail(new ProxyError('origin_reset'));
        await codeOf(sizeOf(body));
      },
    ],
    [
      'a body that is closed unread',
      async ({ origin }, answer) => {
        (await origin.next()).head();
        (await answer).body.close();
      },
    ],
    [
      'a response without a body',
      async ({ origin }, answer) => {
        (await origin.next()).head({ status: 304, framing: 'none' });
        await answer;
      },
    ],
  ];
  it.each(endings)('free their place with %s', async (_name, end) => {
    const ground = createGround({ fills: 1 });
    const { origin } = ground.enter();
    const answer = origin.fetch(originRequest());
    answer.catch(() => {});
    const refused = origin.fetch(originRequest('b'));
    await expect(refused).rejects.toMatchObject({ code: 'origin_busy', status: 503, fields: [['retry-after', '1']] });
    await end(ground, answer);
    await answer.catch(() => {});
    void origin.fetch(originRequest('c')).catch(() => {});
    expect(ground.origin.requests).toBe(2);
    expect(await codeOf(origin.fetch(originRequest('d')))).toBe('origin_busy');
  });

  it('close the body of a refused request', async () => {
    const { enter } = createGround({ fills: 1 });
    const { origin } = enter();
    void origin.fetch(originRequest()).catch(() => {});
    const body = bodyOf(5);
    expect(await codeOf(origin.fetch({ ...originRequest(), body }))).toBe('origin_busy');
    expect(body.isClosed).toBe(true);
  });

  it('of one client are limited by fillsPerClient', async () => {
    const { enter } = createGround({ fillsPerClient: 1 });
    const { origin } = enter();
    void origin.fetch(originRequest('a')).catch(() => {});
    const refused = origin.fetch(originRequest('a'));
    await expect(refused).rejects.toMatchObject({ code: 'too_many_requests', status: 429 });
    void origin.fetch(originRequest('b')).catch(() => {});
    expect(await codeOf(origin.fetch(originRequest('b')))).toBe('too_many_requests');
  });

  it('are resumed although another fill has taken the place', async () => {
    const { enter, origin: behind } = createGround({ fills: 1, fillsPerClient: 1 });
    const { origin } = enter();
    const first = originRequest('a');
    const broken = origin.fetch(first);
    (await behind.next()).fail(new ProxyError('origin_reset'));
    await codeOf(broken);
    void origin.fetch(originRequest('b')).catch(() => {});
    void origin.fetch(first).catch(() => {});
    expect(behind.requests).toBe(3);
  });

  it('are not counted without an charged', async () => {
    const { enter, origin: behind } = createGround({ fills: 1 });
    const { origin } = enter();
    for (let count = 0; count < 3; count += 1)
      void origin.fetch({ ...originRequest(), charged: undefined }).catch(() => {});
    expect(behind.requests).toBe(3);
  });

  it('use the origin itself without limits', () => {
    const { enter, origin } = createGround({});
    expect(enter().origin).toBe(origin);
  });
});

describe('amplification', () => {
  const amplification = { factor: 2, freeBytes: 1000, windowMs: 1000 };

  async function fetched(ground: ReturnType<typeof createGround>, bytes: number, client = '192.0.2.7') {
    const answer = ground.enter(client).origin.fetch(originRequest(client));
    (await ground.origin.next()).respond({}, new Uint8Array(bytes));
    return await sizeOf((await answer).body);
  }

  it('counts the bytes of bodies as they arrive, and does not end a body that is read', async () => {
    const ground = createGround({ amplification });
    const answer = ground.enter().origin.fetch(originRequest('192.0.2.7'));
    const exchange = await ground.origin.next();
    exchange.head();
    const read = sizeOf((await answer).body);
    await exchange.send(new Uint8Array(1001));
    expect(await codeOf(ground.enter().origin.fetch(originRequest('192.0.2.7')))).toBe('origin_share_spent');
    void exchange.send(new Uint8Array(5000));
    exchange.end();
    expect(await read).toBe(6001);
    void ground.enter().origin.fetch(originRequest('192.0.2.7', 'HEAD'));
    expect(ground.origin.requests).toBe(2);
  });

  it('is asked about again by requests that have waited for a connection: by each that may bring bytes', async () => {
    const ground = createGround({ amplification });
    const { origin } = ground.enter();
    const requests = ['GET', 'POST', 'HEAD'].map((method) => originRequest('192.0.2.7', method));
    for (const request of requests) void origin.fetch(request);
    const refusals = () => requests.map(({ charged }) => charged?.whyNotBegin?.('192.0.2.7')?.code);
    expect(refusals()).toEqual([undefined, undefined, undefined]);
    for (const _ of requests) (await ground.origin.next()).head({ framing: 'none' });
    await fetched(ground, 1010);
    expect(refusals()).toEqual(['origin_share_spent', 'origin_share_spent', undefined]);
    // A transfer that is resumed is not refused.
    const [resumed] = requests;
    if (resumed !== undefined) void origin.fetch(resumed);
    expect(refusals()[0]).toBeUndefined();
  });

  it("does not count the proxy's own errors as delivered bytes", async () => {
    const ground = createGround({ amplification });
    await fetched(ground, 1010);
    const allowance = ground.enter();
    const problem = { title: 'Error', status: 429, detail: '' };
    allowance.present({ status: 429, fields: [], body: { kind: 'none' }, problem });
    allowance.leave({ bytesSent: 5000, complete: true });
    expect(await codeOf(ground.enter().origin.fetch(originRequest('192.0.2.7')))).toBe('origin_share_spent');
  });

  it('reads a body to its end although it exceeds the share', async () => {
    const ground = createGround({ amplification });
    expect(await fetched(ground, 5000)).toBe(5000);
  });

  it.each<[sizeBytes: number | undefined, isSpent: boolean]>([
    [undefined, true],
    [300_000, true],
    [900, false],
  ])(
    'counts the bytes in transit of a body that is closed unread, of %j bytes: spent %s',
    async (sizeBytes, isSpent) => {
      const ground = createGround({ amplification });
      const { origin } = ground.enter();
      const answer = origin.fetch(originRequest());
      (await ground.origin.next()).head({
        fields: sizeBytes === undefined ? {} : { 'content-length': `${sizeBytes}` },
      });
      const { body } = await answer;
      body.close();
      body.close();
      const again = origin.fetch(originRequest());
      again.catch(() => {});
      expect(ground.origin.requests).toBe(isSpent ? 1 : 2);
    },
  );

  it.each(['stream', 'bytes'] as const)(
    'is paid back once by the delivered bytes of a body of kind %s',
    async (kind) => {
      const ground = createGround({ amplification });
      await fetched(ground, 3000);
      const isSpent = async () => {
        const before = ground.origin.requests;
        await codeOf(Promise.race([ground.enter().origin.fetch(originRequest('192.0.2.7')), Promise.resolve()]));
        return ground.origin.requests === before;
      };
      expect(await isSpent()).toBe(true);
      const allowance = ground.enter();
      const chunks = [new Uint8Array(500), new Uint8Array(499)];
      const body =
        kind === 'bytes' ? { kind, sizeBytes: 999, chunks } : { kind, sizeBytes: 999, stream: bodyOf(500, 499) };
      const presented = allowance.present({ status: 200, fields: [], body });
      const bytesSent = presented.body.kind === 'stream' ? await sizeOf(presented.body.stream) : 999;
      allowance.leave({ bytesSent, complete: true });
      allowance.leave({ bytesSent, complete: true });
      expect(await isSpent()).toBe(true);
      const rest = ground.enter();
      rest.leave({ bytesSent: 1, complete: true });
      expect(await isSpent()).toBe(false);
    },
  );

  it('is paid back while a long body is being delivered', async () => {
    const ground = createGround({ amplification });
    await fetched(ground, 2000);
    const allowance = ground.enter();
    const { body } = allowance.present({
      status: 200,
      fields: [],
      body: { kind: 'stream', sizeBytes: undefined, stream: bodyOf(500, 500) },
    });
    if (body.kind !== 'stream') throw new Error('not a stream');
    const chunks = body.stream[Symbol.asyncIterator]();
    await chunks.next();
    expect(await codeOf(ground.enter().origin.fetch(originRequest('192.0.2.7')))).toBe('origin_share_spent');
    await chunks.next();
    void ground.enter().origin.fetch(originRequest('192.0.2.7'));
    expect(ground.origin.requests).toBe(2);
  });
});
