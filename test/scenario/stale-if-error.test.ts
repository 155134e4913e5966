/** Stale responses while the origin fails (RFC 9111 §4.2.4, RFC 5861 §4): until when they are served, and to which requests. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { ended, fetched, reused, settled, storedBody } from '../support/clients/conversation.ts';
import { createRangeOrigin } from '../support/origins/range-origin.ts';
import {
  createWholeProxy,
  type Sent,
  type WholeProxy,
  type WholeProxyOptions,
} from '../support/proxies/whole-proxy.ts';
import { noteUnhandled } from '../support/traffic/traffic-unhandled.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const directives = 'max-age=100, stale-if-error=50';
const stored = { 'cache-control': directives, etag: '"v1"' };
const noBytes = new Uint8Array();

type Failure = ProxyError | number;
const failures: readonly (readonly [name: string, failure: Failure, status: string, ownStatus: number])[] = [
  ['no connection', new ProxyError('origin_refused'), 'detail=origin_refused', 502],
  ['a connection that is cut', new ProxyError('origin_reset'), 'detail=origin_reset', 502],
  ['no answer', new ProxyError('origin_timeout'), 'detail=origin_timeout', 504],
  ['500', 500, 'fwd-status=500', 500],
  ['502', 502, 'fwd-status=502', 502],
  ['503', 503, 'fwd-status=503', 503],
  ['504', 504, 'fwd-status=504', 504],
];

let proxy: WholeProxy;
let unhandled: readonly unknown[];
beforeEach(() => {
  unhandled = noteUnhandled();
  proxy = createWholeProxy();
});
afterEach(async () => {
  await ended(proxy);
  expect(unhandled).toEqual([]);
});

async function restart(options: WholeProxyOptions): Promise<void> {
  await proxy.close();
  proxy = createWholeProxy(options);
}

/** Sends a request whose validation fails after `afterMs`. */
async function failed(failure: Failure, sent: Sent = {}, afterMs = 0) {
  const client = proxy.send(sent);
  const exchange = await proxy.origin.next();
  proxy.clock.advance(afterMs);
  if (failure instanceof ProxyError) exchange.fail(failure);
  else exchange.respond({ status: failure, fields: { 'x-origin': '1' } }, noBytes);
  await client.response;
  return client;
}

describe('a response within its stale-if-error window', () => {
  it.each(failures)('is served after %s, with its age and the reason', async (_name, failure, status) => {
    await fetched(proxy, { fields: { ...stored, age: '10' } });
    proxy.clock.advance(130_500);
    const client = await failed(failure);
    expect(await client.status()).toBe(200);
    expect(await client.field('cache-status')).toContain('rangeway; fwd=stale; ');
    expect(await client.field('cache-status')).toContain(status);
    expect(await client.field('cache-status')).toContain('; ttl=-41');
    expect(await client.field('age')).toBe('140');
    expect(await client.bytes()).toEqual(Buffer.from(storedBody));
    expect(proxy.requestEvents().at(-1)?.outcome).toBe('stale');
  });

  it.each(failures)('is not served when %s comes after the window', async (_name, failure, _status, ownStatus) => {
    await fetched(proxy, { fields: stored });
    proxy.clock.advance(149_000);
    const client = await failed(failure, {}, 1000);
    expect(await client.status()).toBe(ownStatus);
    expect(await client.field('age')).toBeUndefined();
  });

  it.each(failures)('is served when %s comes just before the end of the window', async (_name, failure) => {
    await fetched(proxy, { fields: stored });
    proxy.clock.advance(149_000);
    expect(await (await failed(failure, {}, 999)).bytes()).toEqual(Buffer.from(storedBody));
  });

  it.each([400, 404, 410, 429, 501, 505])('is not served after a %d', async (status) => {
    await fetched(proxy, { fields: stored });
    proxy.clock.advance(120_000);
    const client = await failed(status);
    expect(await client.status()).toBe(status);
    expect(await client.field('x-origin')).toBe('1');
  });

  it('is required: with nothing stored, the error is passed on', async () => {
    const client = await failed(503);
    expect(await client.status()).toBe(503);
    expect(await client.field('cache-status')).toBe('rangeway; fwd=uri-miss; fwd-status=503; detail=no-freshness');
  });
});

describe('requests that wait for the same validation', () => {
  it('each get what they may have when it fails', async () => {
    await fetched(proxy, { fields: stored });
    proxy.clock.advance(120_000);
    const clients = [
      proxy.send(),
      proxy.send({ fields: { range: 'bytes=0-9' } }),
      proxy.send({ fields: { 'cache-control': 'no-cache' } }),
    ];
    (await proxy.origin.next()).fail(new ProxyError('origin_timeout'));
    expect(await Promise.all(clients.map((client) => client.status()))).toEqual([200, 206, 504]);
    expect(await clients[1]?.field('cache-status')).toBe(
      'rangeway; fwd=stale; ttl=-20; collapsed; detail=origin_timeout',
    );
    expect(await clients[1]?.bytes()).toEqual(Buffer.from(patternBytes(0, 10)));
    expect(await clients[1]?.field('age')).toBe('120');
  });

  it('ask for themselves after an error status if they may not get the stale response', async () => {
    await fetched(proxy, { fields: stored });
    proxy.clock.advance(120_000);
    const leading = proxy.send();
    const reloading = proxy.send({ fields: { 'cache-control': 'no-cache' } });
    (await proxy.origin.next()).respond({ status: 503 }, noBytes);
    expect(await leading.bytes()).toEqual(Buffer.from(storedBody));
    (await proxy.origin.next()).respond({ status: 503, fields: { 'x-origin': '2' } }, noBytes);
    expect(await reloading.status()).toBe(503);
    expect(await reloading.field('x-origin')).toBe('2');
  });
});

describe('the time for which a response is served when the origin fails', () => {
  it.each<[string, string, number, string | undefined, number]>([
    ['a week on a route that says so', 'max-age=100', 604_800, undefined, 604_800],
    ['that of the route', 'max-age=100', 30, undefined, 30],
    ['that of the response, if it is shorter', 'max-age=100, stale-if-error=9', 30, undefined, 9],
    ['that of the response, if it is longer', 'max-age=100, stale-if-error=99', 30, undefined, 99],
    ['that of the request, if it is longer', 'max-age=100', 30, 'stale-if-error=80', 80],
    ['not that of the request, if it is shorter', 'max-age=100', 30, 'stale-if-error=1', 30],
  ])('is %s', async (_name, control, staleIfErrorSeconds, wish, seconds) => {
    await restart({ route: { cache: { staleIfErrorSeconds } } });
    await fetched(proxy, { fields: { 'cache-control': control, etag: '"v1"' } });
    const sent: Sent = wish === undefined ? {} : { fields: { 'cache-control': wish } };
    proxy.clock.advance(100_000 + seconds * 1000 - 1);
    expect(await (await failed(503, sent)).status()).toBe(200);
    proxy.clock.advance(1);
    expect(await (await failed(503, sent)).status()).toBe(503);
  });

  it('is 0 where route and response give none, from the first millisecond on', async () => {
    await restart({ route: { cache: { staleIfErrorSeconds: 0 } } });
    await fetched(proxy, { fields: { 'cache-control': 'max-age=100', etag: '"v1"' } });
    proxy.clock.advance(100_000);
    expect(await (await failed(new ProxyError('origin_refused'))).status()).toBe(502);
  });

  it.each(['must-revalidate', 'proxy-revalidate', 's-maxage=100', 'no-cache', 'no-store'])(
    'is 0 once a 304 has brought %s',
    async (directive) => {
      await fetched(proxy, { fields: stored });
      proxy.clock.advance(101_000);
      const control = `max-age=100, stale-if-error=99, ${directive}`;
      const client = proxy.send();
      (await proxy.origin.next()).respond({ status: 304, fields: { 'cache-control': control } }, noBytes);
      if (directive === 'no-store')
        (await proxy.origin.next()).respond({ fields: { 'cache-control': control } }, noBytes);
      await client.bytes();
      await settled();
      proxy.clock.advance(101_000);
      expect(await (await failed(new ProxyError('origin_reset'))).status()).toBe(502);
    },
  );
});

describe('a stored response while the origin fails', () => {
  it('is kept, although errors may be stored', async () => {
    await restart({ route: { cache: { defaultTtlByStatus: { '5xx': 10 } } } });
    await fetched(proxy, { fields: stored });
    proxy.clock.advance(120_000);
    // The error that one client gets does not replace the response that others may get.
    expect(await (await failed(503, { fields: { 'cache-control': 'no-cache' } })).status()).toBe(503);
    await settled();
    const client = await failed(503);
    expect(await client.bytes()).toEqual(Buffer.from(storedBody));
  });

  it('is served for stored ranges, and other ranges get an error instead of a 206 that breaks off', async () => {
    await restart({ originRanges: 'auto' });
    const origin = createRangeOrigin(proxy.origin, { fields: stored });
    const first = proxy.send({ fields: { range: 'bytes=0-99' } });
    await origin.give();
    await first.bytes();
    await settled();
    proxy.clock.advance(120_000);
    const present = await failed(new ProxyError('origin_refused'), { fields: { range: 'bytes=0-99' } });
    expect(await present.status()).toBe(206);
    expect(await present.field('cache-status')).toBe('rangeway; fwd=stale; ttl=-20; detail=origin_refused');
    expect(await present.bytes()).toEqual(Buffer.from(patternBytes(0, 100)));
    const absent = await failed(new ProxyError('origin_refused'), { fields: { range: 'bytes=0-5000' } });
    await settled();
    if (proxy.origin.untaken > 0) (await proxy.origin.next()).fail(new ProxyError('origin_refused'));
    expect(await absent.status()).toBe(502);
  });

  it('answers HEAD, too', async () => {
    await fetched(proxy, { fields: stored });
    proxy.clock.advance(120_000);
    for (const failure of [new ProxyError('origin_refused'), 503]) {
      const client = await failed(failure, { method: 'HEAD' });
      expect(await client.status()).toBe(200);
      expect((await client.response).body).toMatchObject({ sizeBytes: 3000 });
      expect(await client.field('age')).toBe('120');
    }
    proxy.clock.advance(31_000);
    expect(await (await failed(503, { method: 'HEAD' })).status()).toBe(503);
    expect(await (await failed(new ProxyError('origin_refused'), { method: 'HEAD' })).status()).toBe(502);
  });

  it('is not served to a request with only-if-cached', async () => {
    await fetched(proxy, { fields: stored });
    proxy.clock.advance(120_000);
    const client = await reused(proxy, { fields: { 'cache-control': 'only-if-cached' } });
    expect(await client.status()).toBe(504);
  });
});
