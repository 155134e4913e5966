/** Background revalidations (RFC 5861 §3): which requests share them, what ends them, and what they leave in the store. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fieldValue } from '../../src/http/fields.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { createSteeredProxy, ended, fetched, reused, settled, storedBody } from '../support/clients/conversation.ts';
import { createRangeOrigin } from '../support/origins/range-origin.ts';
import type { WholeProxy, WholeProxyOptions } from '../support/proxies/whole-proxy.ts';
import type { SteeredStore } from '../support/stores/steered-store.ts';
import { noteUnhandled } from '../support/traffic/traffic-unhandled.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const directives = 'max-age=100, stale-while-revalidate=50';
const first = { 'cache-control': directives, etag: '"v1"' };
const second = { 'cache-control': directives, etag: '"v2"' };
const newBody = patternBytes(0, 2500, 2);
const noBytes = new Uint8Array();

let store: SteeredStore;
let proxy: WholeProxy;
let unhandled: readonly unknown[];
beforeEach(() => {
  unhandled = noteUnhandled();
});
afterEach(async () => {
  await ended(proxy, store);
  expect(proxy.clock.pending).toBe(0);
  expect(unhandled).toEqual([]);
});

function start(options: WholeProxyOptions & { readonly maxSizeBytes?: number } = {}): void {
  ({ store, proxy } = createSteeredProxy(options));
}

/** Starts a proxy with a stored response within its stale-while-revalidate window. */
async function startStale(options: Parameters<typeof start>[0] = {}): Promise<void> {
  start(options);
  await fetched(proxy, { fields: first });
  proxy.clock.advance(120_000);
}

const part = { fields: { range: 'bytes=0-99' } };

/** Starts a proxy with a partly stored response within its stale-while-revalidate window. Returns the origin. */
async function startWithPart(fill: NonNullable<WholeProxyOptions['fill']> = {}) {
  start({ originRanges: 'auto', fill });
  const origin = createRangeOrigin(proxy.origin, { fields: first });
  const client = proxy.send(part);
  await origin.give();
  await client.bytes();
  await settled();
  proxy.clock.advance(120_000);
  return origin;
}

/** Sends a request that gets the stale response at once. */
async function stale(sent: Parameters<WholeProxy['send']>[0] = {}) {
  const client = proxy.send(sent);
  expect(await client.field('cache-status')).toBe('rangeway; hit; ttl=-20');
  await client.bytes();
  return client;
}

describe('a background revalidation', () => {
  it('passes its interim responses to no client', async () => {
    await startStale();
    const client = await stale();
    const exchange = await proxy.origin.next();
    exchange.request.onInterim?.({ status: 103, fields: [['link', '</a.css>; rel=preload']] });
    exchange.respond({ status: 304, fields: first }, noBytes);
    await settled();
    expect(client.interim).toEqual([]);
  });

  it.each(['finish', 'stop'] as const)('goes on when its client leaves (onAbort: %s)', async (onAbort) => {
    await startStale({ fill: { onAbort } });
    const client = await stale();
    const exchange = await proxy.origin.next();
    await client.leave();
    await settled();
    expect(exchange.request.signal.aborted).toBe(false);
    exchange.respond({ fields: second }, newBody);
    await settled();
    expect(await (await reused(proxy)).bytes()).toEqual(Buffer.from(newBody));
  });

  it('was sent too early for requests that demand a validation, which share one of their own', async () => {
    await startStale({ fill: { onAbort: 'stop' } });
    await stale();
    const reload = { fields: { 'cache-control': 'no-cache' } };
    const leaving = proxy.send(reload);
    const waiting = [proxy.send(reload), proxy.send(reload)];
    (await proxy.origin.next()).respond({ status: 304, fields: first }, noBytes);
    const exchange = await proxy.origin.next();
    await leaving.leave();
    exchange.respond({ status: 304, fields: first }, noBytes);
    for (const client of waiting) {
      expect(await client.field('cache-status')).toBe(
        'rangeway; fwd=request; fwd-status=304; ttl=100; stored; collapsed',
      );
      expect(await client.field('age')).toBe('0');
      expect(await client.bytes()).toEqual(Buffer.from(storedBody));
    }
    expect(proxy.origin.requests).toBe(3);
  });

  it.each<[string, Parameters<WholeProxy['send']>[0], number]>([
    ['no-cache', { fields: { 'cache-control': 'no-cache' } }, 502],
    ['a max-age', { fields: { 'cache-control': 'max-age=110' } }, 200],
  ])('that fails is an error only for a request that may not get a stale response: %s', async (_name, sent, status) => {
    await startStale();
    await stale();
    const waiting = proxy.send(sent);
    for (const _ of ['background', 'request']) (await proxy.origin.next()).fail(new ProxyError('origin_reset'));
    expect(await waiting.status()).toBe(status);
  });

  it('is not begun while a request waits for a validation', async () => {
    await startStale();
    const waiting = proxy.send({ fields: { 'cache-control': 'max-age=0' } });
    const exchange = await proxy.origin.next();
    await stale();
    exchange.respond({ status: 304, fields: first }, noBytes);
    expect(await waiting.status()).toBe(200);
    expect(proxy.origin.requests).toBe(2);
  });

  it('is waited for by a request that comes after the window', async () => {
    await startStale();
    await stale();
    const exchange = await proxy.origin.next();
    proxy.clock.advance(60_000);
    const late = proxy.send();
    await settled();
    exchange.respond({ fields: second }, newBody);
    expect(await late.field('etag')).toBe('"v2"');
    expect(await late.bytes()).toEqual(Buffer.from(newBody));
    expect(proxy.origin.requests).toBe(2);
  });

  it.each(['no-cache', 'max-age=110', 'min-fresh=1'])('is not enough for a request with %s', async (wish) => {
    await startStale();
    const client = proxy.send({ fields: { 'cache-control': wish } });
    (await proxy.origin.next()).respond({ status: 304, fields: first }, noBytes);
    expect(await client.field('cache-status')).toContain('fwd-status=304');
  });

  it('is not begun by a request with only-if-cached (RFC 9111 §5.2.1.7)', async () => {
    await startStale();
    await stale({ fields: { 'cache-control': 'only-if-cached' } });
    expect(proxy.origin.requests).toBe(1);
  });

  it('stores no response that was invalidated meanwhile (RFC 9111 §4.4)', async () => {
    await startStale();
    await stale();
    const exchange = await proxy.origin.next();
    const put = proxy.send({ method: 'PUT' });
    (await proxy.origin.next()).respond({ status: 204 }, noBytes);
    await put.bytes();
    exchange.respond({ fields: second }, newBody);
    await settled();
    await fetched(proxy, { fields: { ...second, etag: '"v3"' } });
    expect(await (await reused(proxy)).field('etag')).toBe('"v3"');
  });

  it('ends when the store does not take the new response, and the old one is not served after that', async () => {
    await startStale({ maxSizeBytes: 16 * 1024 });
    await stale();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...second, 'content-length': '99999' } });
    await settled();
    expect(exchange.isClosed).toBe(true);
    const next = proxy.send();
    (await proxy.origin.next()).respond({ fields: second }, newBody);
    expect(await next.field('etag')).toBe('"v2"');
    await next.bytes();
  });

  it.each<[string, NonNullable<WholeProxyOptions['fill']>]>([
    ['finishMaxSizeBytes', { finishMaxSizeBytes: 2000 }],
    ['finishMaxLeftBytes', { finishMaxLeftBytes: 2000 }],
  ])('fetches no new body that exceeds %s', async (_name, fill) => {
    await startStale({ fill });
    await stale();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...second, 'content-length': '2500' } });
    await settled();
    expect(exchange.isClosed).toBe(true);
    const next = proxy.send({ fields: { range: 'bytes=0-9' } });
    (await proxy.origin.next()).respond({ fields: second }, newBody);
    expect(await next.field('etag')).toBe('"v2"');
    expect(await next.bytes()).toEqual(Buffer.from(patternBytes(0, 10, 2)));
  });

  it('fetches no large new body whole where the origin gives parts', async () => {
    const origin = await startWithPart({ complete: { smallerThanBytes: 5000 } });
    await stale(part);
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...second, 'content-length': '10000' } });
    await settled();
    expect(exchange.isClosed).toBe(true);
    origin.file = { ...origin.file, fields: second, seed: 2 };
    const next = proxy.send(part);
    (await origin.begin()).finish();
    expect(await next.bytes()).toEqual(Buffer.from(patternBytes(0, 100, 2)));
  });

  it('ends, and is not repeated, when the new body turns out to be too large', async () => {
    await startStale({ maxSizeBytes: 16 * 1024 });
    await stale();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: second });
    for (let sent = 0; sent < 12; sent += 1) void exchange.send(patternBytes(sent * 1024, (sent + 1) * 1024, 2));
    await settled();
    expect(exchange.isClosed).toBe(true);
  });

  it.each(['is waited for', 'is on its way'])('ends with the server while its response %s', async (when) => {
    await startStale();
    await stale();
    const exchange = await proxy.origin.next();
    if (when === 'is waited for') await proxy.closeCache();
    exchange.head({ fields: { ...second, 'content-length': '2500' } });
    if (when === 'is on its way') await exchange.send(newBody.subarray(0, 1500));
    await proxy.closeCache();
    expect(exchange.request.signal.aborted || exchange.isClosed).toBe(true);
  });
});

describe('variants within their stale-while-revalidate window', () => {
  const german = { 'accept-language': 'de' };
  const head = (etag: string) => ({ fields: { ...first, etag, vary: 'Accept-Language' } });

  it('are each revalidated, even while a new response of another variant is arriving', async () => {
    start();
    await fetched(proxy, head('"en"'));
    await fetched(proxy, head('"de"'), { fields: german });
    proxy.clock.advance(120_000);
    await stale();
    const english = await proxy.origin.next();
    english.head({ fields: { ...head('"en2"').fields, 'content-length': '2500' } });
    await english.send(newBody.subarray(0, 100));
    await stale({ fields: german });
    const asked = await proxy.origin.next();
    expect(fieldValue(asked.request.fields, 'if-none-match')).toBe('"de"');
    asked.respond({ status: 304, fields: head('"de"').fields }, noBytes);
    void english.send(newBody.subarray(100));
    english.end();
    await settled();
    expect(await (await reused(proxy, { fields: german })).field('cache-status')).toBe('rangeway; hit; ttl=100');
    expect(await (await reused(proxy)).field('etag')).toBe('"en2"');
  });
});

describe('a partly stored response within its stale-while-revalidate window', () => {
  it('is served at once, and revalidated', async () => {
    const origin = await startWithPart();
    const client = await stale(part);
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(0, 100)));
    expect(proxy.requestEvents().at(-1)?.outcome).toBe('stale');
    const exchange = await proxy.origin.next();
    expect(fieldValue(exchange.request.fields, 'if-none-match')).toBe('"v1"');
    exchange.respond({ status: 304, fields: first }, noBytes);
    await settled();
    expect(await (await reused(proxy, part)).field('cache-status')).toBe('rangeway; hit; ttl=100');
    expect(origin.asked).toEqual(['bytes=0-1023']);
  });

  it('is completed under its validator while it is revalidated', async () => {
    await startWithPart();
    const client = proxy.send({ fields: { range: 'bytes=5000-5099' } });
    const validation = await proxy.origin.next();
    const rest = await proxy.origin.next();
    expect(fieldValue(rest.request.fields, 'if-range')).toBe('"v1"');
    validation.respond({ status: 304, fields: first }, noBytes);
    const fields = { ...first, 'content-range': 'bytes 4096-6143/10000' };
    rest.respond({ status: 206, fields }, patternBytes(4096, 6144));
    expect(await client.field('cache-status')).toBe('rangeway; fwd=partial; stored');
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(5000, 5100)));
  });
});

describe('a replaced generation that is pinned for clients that resume', () => {
  it('is not revalidated for them', async () => {
    start({ route: { cache: { pinSeconds: 3600 } } });
    await fetched(proxy, { fields: first });
    proxy.clock.advance(200_000);
    await fetched(proxy, { fields: second }, {}, newBody);
    proxy.clock.advance(120_000);
    const client = await reused(proxy, { fields: { range: 'bytes=10-19', 'if-range': '"v1"' } });
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(10, 20)));
    expect(await client.field('cache-status')).toBe('rangeway; hit; ttl=-220');
  });
});
