/** Explanations: what Rangeway would decide about a request, and why, without answering it. */

import { afterEach, describe, expect, it } from 'vitest';
import type { Explanation } from '../../src/delivery/explanation.ts';
import { fieldValue } from '../../src/http/fields.ts';
import { fetched, storedBody } from '../support/clients/conversation.ts';
import { requestOf } from '../support/clients/direct-client.ts';
import { createWholeProxy, type RouteOptions, type Sent, type WholeProxy } from '../support/proxies/whole-proxy.ts';

const modified = 'Wed, 01 Jan 2025 00:00:00 GMT';
const fresh = { 'cache-control': 'max-age=100', etag: '"v1"' };

let proxy: WholeProxy;
afterEach(async () => {
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
});

function start(cache: RouteOptions['cache'] = {}): void {
  proxy = createWholeProxy({ route: { cache } });
}

describe('a decision', () => {
  const seconds = 1000;
  it.each<
    [
      name: string,
      given: {
        stored?: Record<string, string>;
        afterMs?: number;
        asked?: Sent;
        cache?: RouteOptions['cache'];
      },
      want: Partial<Explanation['decision']>,
    ]
  >([
    ['nothing stored', {}, { kind: 'fill', reason: 'uri-miss', cacheStatus: 'rangeway; fwd=uri-miss' }],
    [
      'fresh',
      { stored: fresh, afterMs: 40 * seconds },
      { kind: 'hit', reason: 'fresh', cacheStatus: 'rangeway; hit; ttl=60' },
    ],
    ['fresh, for HEAD', { stored: fresh, asked: { method: 'HEAD' } }, { kind: 'hit', reason: 'fresh' }],
    [
      'stale, by max-stale',
      { stored: fresh, afterMs: 150 * seconds, asked: { fields: { 'cache-control': 'max-stale=60' } } },
      { kind: 'stale', reason: 'request', directive: 'max-stale', cacheStatus: 'rangeway; hit; ttl=-50' },
    ],
    [
      'stale, by only-if-cached',
      {
        stored: { ...fresh, 'cache-control': 'max-age=100, stale-while-revalidate=60' },
        afterMs: 150 * seconds,
        asked: { fields: { 'cache-control': 'only-if-cached' } },
      },
      { kind: 'stale', reason: 'request', directive: 'only-if-cached', cacheStatus: 'rangeway; hit; ttl=-50' },
    ],
    [
      'stale, within stale-while-revalidate',
      { stored: { ...fresh, 'cache-control': 'max-age=100, stale-while-revalidate=60' }, afterMs: 150 * seconds },
      { kind: 'stale-while-revalidate', reason: 'stale-while-revalidate', cacheStatus: 'rangeway; hit; ttl=-50' },
    ],
    [
      'stale',
      { stored: fresh, afterMs: 150 * seconds },
      { kind: 'revalidate', reason: 'stale', forwardReason: 'stale', cacheStatus: 'rangeway; fwd=stale' },
    ],
    [
      'no-cache in the response',
      { stored: { ...fresh, 'cache-control': 'no-cache' } },
      { kind: 'revalidate', reason: 'response', directive: 'no-cache', cacheStatus: 'rangeway; fwd=stale' },
    ],
    [
      'no-cache in the request',
      { stored: fresh, asked: { fields: { 'cache-control': 'no-cache' } } },
      { kind: 'revalidate', reason: 'request', directive: 'no-cache', cacheStatus: 'rangeway; fwd=request' },
    ],
    [
      'max-age in the request',
      { stored: fresh, afterMs: 20 * seconds, asked: { fields: { 'cache-control': 'max-age=10' } } },
      { kind: 'revalidate', reason: 'request', directive: 'max-age' },
    ],
    [
      'min-fresh in the request',
      { stored: fresh, afterMs: 20 * seconds, asked: { fields: { 'cache-control': 'min-fresh=90' } } },
      { kind: 'revalidate', reason: 'request', directive: 'min-fresh' },
    ],
    [
      'a request directive that the route ignores',
      { stored: fresh, asked: { fields: { 'cache-control': 'no-cache' } }, cache: { requestDirectives: 'ignore' } },
      { kind: 'hit', reason: 'fresh' },
    ],
    [
      'another variant',
      { stored: { ...fresh, vary: 'Accept-Language' }, asked: { fields: { 'accept-language': 'de' } } },
      { kind: 'fill', reason: 'vary-miss', cacheStatus: 'rangeway; fwd=vary-miss' },
    ],
    [
      'a method that is not cached',
      { asked: { method: 'POST' } },
      { kind: 'pass', reason: 'method', forwardReason: 'method' },
    ],
    [
      'HEAD where nothing is stored',
      { asked: { method: 'HEAD' } },
      { kind: 'pass', reason: 'method', forwardReason: 'uri-miss' },
    ],
    [
      'no-store in the request',
      { stored: fresh, asked: { fields: { 'cache-control': 'no-store' } } },
      { kind: 'pass', reason: 'request', cacheStatus: 'rangeway; fwd=request' },
    ],
    [
      'a request that the route sends past the cache',
      {
        stored: fresh,
        asked: { fields: { cookie: 'session=1' } },
        cache: { bypass: { fields: [], cookies: ['session'], queryParameters: [] } },
      },
      { kind: 'pass', reason: 'bypass', cacheStatus: 'rangeway; fwd=bypass' },
    ],
    ['a route without a cache', { cache: { enabled: false } }, { kind: 'pass', reason: 'bypass' }],
    [
      'a response with too few uses to be stored',
      { cache: { storeAfterUses: 2 } },
      { kind: 'pass', reason: 'few-uses', cacheStatus: 'rangeway; fwd=uri-miss; detail=few-uses' },
    ],
    [
      'only-if-cached, and nothing stored',
      { asked: { fields: { 'cache-control': 'only-if-cached' } } },
      { kind: 'refuse', reason: 'only-if-cached', cacheStatus: undefined },
    ],
    [
      'only-if-cached, and fresh',
      { stored: fresh, asked: { fields: { 'cache-control': 'only-if-cached' } } },
      { kind: 'hit' },
    ],
  ])('%s', async (_name, { stored, afterMs = 0, asked, cache }, want) => {
    start(cache);
    if (stored !== undefined) await fetched(proxy, { fields: stored });
    proxy.clock.advance(afterMs);
    const { decision } = await proxy.explain(asked);
    expect(decision).toMatchObject(JSON.parse(JSON.stringify(want)));
  });

  it('shows until when the stored response is served if the origin fails', async () => {
    start();
    await fetched(proxy, { fields: { ...fresh, 'cache-control': 'max-age=100, stale-if-error=50' } });
    const storedAt = proxy.clock.now();
    proxy.clock.advance(120_000);
    expect((await proxy.explain()).decision).toMatchObject({ kind: 'revalidate', serveStaleUntil: storedAt + 150_000 });
    proxy.clock.advance(40_000);
    expect((await proxy.explain()).decision).not.toHaveProperty('serveStaleUntil');
  });

  it('shows that another request already fetches the response', async () => {
    start();
    const first = proxy.send();
    const exchange = await proxy.origin.next();
    expect(await proxy.explain()).toMatchObject({
      decision: { kind: 'join', reason: 'uri-miss', cacheStatus: 'rangeway; fwd=uri-miss' },
      flights: [{ hasLanded: false }],
    });
    exchange.head({ fields: { ...fresh, 'content-length': '3000' } });
    await first.status();
    expect(await proxy.explain()).toMatchObject({
      decision: { kind: 'join', cacheStatus: 'rangeway; fwd=uri-miss; fwd-status=200; stored; collapsed' },
      flights: [{ hasLanded: true, generation: 'generation-1', sizeBytes: 3000, transfers: [{ at: 0, end: 3000 }] }],
    });
    void exchange.send(storedBody);
    exchange.end();
    await first.bytes();
    await proxy.fillsEnded(1);
    expect(await proxy.explain()).toMatchObject({ decision: { kind: 'hit' }, flights: [] });
  });

  it('shows that a response to HEAD has made the entry invalid', async () => {
    start();
    await fetched(proxy, { fields: fresh });
    proxy.clock.advance(1);
    const head = proxy.send({ method: 'HEAD', fields: { 'cache-control': 'no-cache' } });
    (await proxy.origin.next()).head({ fields: { etag: '"v2"', 'content-length': '3000' } });
    await head.status();
    expect(await proxy.explain()).toMatchObject({
      decision: { kind: 'revalidate', reason: 'invalid' },
      chosen: { isInvalid: true, freshness: { stale: { forbiddenBy: 'invalid' } } },
    });
  });

  it('shows that a replaced generation is pinned for clients that resume', async () => {
    start({ pinSeconds: 60 });
    await fetched(proxy, { fields: fresh });
    await fetched(proxy, { fields: { ...fresh, etag: '"v2"' } }, { fields: { 'cache-control': 'no-cache' } });
    const explained = await proxy.explain({ fields: { range: 'bytes=10-', 'if-range': '"v1"' } });
    expect(explained).toMatchObject({
      decision: { kind: 'hit', reason: 'pinned' },
      chosen: { generation: 'generation-1', pinnedUntil: proxy.clock.now() + 60_000 },
      entryCount: 2,
      plan: { status: 206, spans: [{ start: 10, end: 3000, hereBytes: 2990 }] },
    });
  });
});

describe('the question to the origin', () => {
  it.each<[string, Record<string, string>, Record<string, string>]>([
    [
      'has the stored validators',
      { etag: '"v1"', 'last-modified': modified },
      { 'if-none-match': '"v1"', 'if-modified-since': modified },
    ],
    ['never has a tag made by Rangeway', { 'cache-control': 'max-age=1' }, {}],
  ])('%s', async (_name, stored, want) => {
    start();
    await fetched(proxy, { fields: { 'cache-control': 'max-age=1', ...stored } });
    proxy.clock.advance(10_000);
    const { originQuestion } = await proxy.explain();
    expect(originQuestion).toEqual({ method: 'GET', target: '/file', fields: Object.entries(want) });
  });

  it('has the conditions of the client where the request is passed', async () => {
    start({ enabled: false });
    const { originQuestion } = await proxy.explain({
      fields: { range: 'bytes=0-9', 'if-match': '"x"', cookie: 'a=1' },
    });
    expect(originQuestion?.fields).toEqual([
      ['range', 'bytes=0-9'],
      ['if-match', '"x"'],
    ]);
  });
});

describe('an explanation', () => {
  it('names the request, the route, the key and the tags', async () => {
    start();
    await fetched(proxy, { fields: { ...fresh, 'cache-groups': '"a", "b"' } }, { target: '/f?x=1' });
    expect(await proxy.explain({ target: '/f?x=1', authority: 'FILES.example' })).toMatchObject({
      version: 1,
      at: proxy.clock.now(),
      method: 'GET',
      uri: 'http://FILES.example/f?x=1',
      route: 'main',
      key: 'http://origin.example/ http://files.example/f?x=1',
      chosen: {
        generation: 'generation-1',
        status: 200,
        isComplete: true,
        tags: [expect.stringContaining('a'), expect.stringContaining('b')],
      },
      origin: { isKnown: false, mayAsk: false },
    });
  });

  it('asks the origin nothing, and changes nothing', async () => {
    start({ storeAfterUses: 2 });
    for (let times = 0; times < 5; times += 1) await proxy.explain();
    const first = proxy.send();
    (await proxy.origin.next()).respond({ fields: fresh }, storedBody);
    await first.bytes();
    expect(await first.field('cache-status')).toContain('detail=few-uses');
    for (let times = 0; times < 5; times += 1) await proxy.explain({ fields: { range: 'bytes=0-9' } });
    await fetched(proxy, { fields: { ...fresh, 'cache-control': 'max-age=1, stale-while-revalidate=60' } });
    proxy.clock.advance(10_000);
    const before = await proxy.store.find((await proxy.explain()).key);
    expect((await proxy.explain()).decision.kind).toBe('stale-while-revalidate');
    expect(await proxy.explain({ fields: { 'cache-control': 'no-cache' } })).toMatchObject({ flights: [] });
    expect(await proxy.store.find((await proxy.explain()).key)).toEqual(before);
    expect(proxy.origin.requests).toBe(2);
  });

  it('is not reported as a request of a client', async () => {
    start();
    await proxy.explain();
    expect(proxy.requestEvents()).toEqual([]);
  });

  it('is the refusal that the request would get, or the answer that needs no cache', async () => {
    start();
    const reply = (sent: Sent) => proxy.explainer(requestOf(sent, proxy.clock.now()));
    const malformed = { kind: 'answered', status: 400, detail: 'The request is malformed.' };
    expect(await reply({ authority: 'a b' })).toEqual(malformed);
    expect(await reply({ fields: { 'cdn-loop': 'rangeway-test' } })).toMatchObject({ kind: 'answered', status: 508 });
    const last = { method: 'OPTIONS', fields: { 'max-forwards': '0' } };
    expect(await reply(last)).toMatchObject({ kind: 'answered', detail: 'Rangeway answers it by itself.' });
  });

  it('cannot be requested by a client: Rangeway-Explain is ignored, even from this machine', async () => {
    start();
    const asking = { connection: 'Rangeway-Explain', 'rangeway-explain': '?1' };
    const client = proxy.send({ peer: '127.0.0.1', fields: asking });
    const exchange = await proxy.origin.next();
    expect(fieldValue(exchange.request.fields, 'rangeway-explain')).toBeUndefined();
    exchange.respond({ fields: fresh }, storedBody);
    expect(await client.bytes()).toEqual(Buffer.from(storedBody));
    await proxy.fillsEnded(1);
    const again = proxy.send({ peer: '127.0.0.1', fields: asking });
    expect(await again.field('cache-status')).toMatch(/^rangeway; hit/);
    expect(await again.bytes()).toEqual(Buffer.from(storedBody));
  });
});
