/** Lifetimes that change with a validation or that the operator sets, and errors that are not shared. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RouteCaching } from '../../src/routing/router.ts';
import { ended, fetched, reused, settled, storedBody } from '../support/clients/conversation.ts';
import { createWholeProxy, type Sent, type WholeProxy } from '../support/proxies/whole-proxy.ts';

const noBytes = new Uint8Array();
const etag = '"v1"';

let proxy: WholeProxy;
beforeEach(() => {
  proxy = createWholeProxy();
});
afterEach(async () => {
  await ended(proxy);
});

async function restart(cache: Partial<RouteCaching>): Promise<void> {
  await proxy.close();
  proxy = createWholeProxy({ route: { cache } });
}

const ttlOf = async (sent: Sent = {}) => (await reused(proxy, sent)).field('cache-status');

describe('a targeted field (RFC 9213)', () => {
  it('applies instead of Cache-Control, and clients get both', async () => {
    await fetched(proxy, { fields: { 'cache-control': 'no-store', 'cdn-cache-control': 'max-age=100', etag } });
    const client = await reused(proxy);
    expect(await client.field('cache-status')).toBe('rangeway; hit; ttl=100');
    expect(await client.field('cache-control')).toBe('no-store');
    expect(await client.field('cdn-cache-control')).toBe('max-age=100');
  });

  it('in a 304 applies from then on', async () => {
    await fetched(proxy, { fields: { 'cache-control': 'max-age=10', etag } });
    proxy.clock.advance(10_000);
    const fields = { 'rangeway-cache-control': 'max-age=100, stale-while-revalidate=50' };
    await fetched(proxy, { status: 304, fields }, {}, noBytes);
    expect(await ttlOf()).toBe('rangeway; hit; ttl=100');
    proxy.clock.advance(120_000);
    const stale = proxy.send();
    expect(await stale.field('cache-status')).toBe('rangeway; hit; ttl=-20');
    (await proxy.origin.next()).respond({ status: 304, fields: { 'rangeway-cache-control': 'no-cache' } }, noBytes);
    await settled();
    for (const _ of [1, 2]) await fetched(proxy, { status: 304, fields: {} }, {}, noBytes);
  });

  it('stays in force when a 304 changes Cache-Control only', async () => {
    await fetched(proxy, { fields: { 'cdn-cache-control': 'max-age=10', etag } });
    proxy.clock.advance(10_000);
    await fetched(proxy, { status: 304, fields: { 'cache-control': 'max-age=999' } }, {}, noBytes);
    expect(await ttlOf()).toBe('rangeway; hit; ttl=10');
  });

  it('with private keeps a response from being stored that Cache-Control allows', async () => {
    const fields = { 'cache-control': 'max-age=100', 'cdn-cache-control': 'private' };
    const { client } = await fetched(proxy, { fields });
    expect(await client.field('cache-status')).toContain('detail=private');
  });

  it('decides whether a response may be served stale', async () => {
    await fetched(proxy, {
      fields: { 'cache-control': 'max-age=10', 'cdn-cache-control': 'max-age=10, must-revalidate', etag },
    });
    proxy.clock.advance(11_000);
    expect(await (await fetched(proxy, { status: 503 }, {}, noBytes)).client.status()).toBe(503);
    const other = { target: '/other' };
    const strict = 'max-age=10, must-revalidate';
    await fetched(proxy, { fields: { 'cache-control': strict, 'cdn-cache-control': 'max-age=10', etag } }, other);
    proxy.clock.advance(11_000);
    expect(await (await fetched(proxy, { status: 503 }, other, noBytes)).client.status()).toBe(200);
  });
});

describe('lifetimes of the operator', () => {
  it('by status apply to responses to which the origin gives none', async () => {
    await restart({ defaultTtlByStatus: { 404: 10, '5xx': 5 } });
    for (const [status, target, ttl] of [
      [404, '/a', 10],
      [503, '/b', 5],
      [500, '/c', 5],
    ] as const) {
      await fetched(proxy, { status }, { target });
      const client = await reused(proxy, { target });
      expect(await client.status()).toBe(status);
      expect(await client.field('cache-status')).toBe(`rangeway; hit; ttl=${ttl}`);
      proxy.clock.advance(ttl * 1000);
      await fetched(proxy, { status }, { target });
    }
    await fetched(proxy, { status: 404, fields: { 'cache-control': 'max-age=1' } }, { target: '/d' });
    expect(await ttlOf({ target: '/d' })).toBe('rangeway; hit; ttl=1');
    await fetched(proxy, { status: 410 }, { target: '/e' });
    await fetched(proxy, { status: 410 }, { target: '/e' });
  });

  it('override the lifetime of the origin, but not what it forbids', async () => {
    await restart({ overrideTtlByStatus: { 200: 50 } });
    await fetched(proxy, { fields: { 'cache-control': 'max-age=1' } });
    proxy.clock.advance(40_000);
    expect(await ttlOf()).toBe('rangeway; hit; ttl=10');
    for (const [target, directive] of [
      ['/a', 'no-store'],
      ['/b', 'private'],
    ] as const) {
      await fetched(proxy, { fields: { 'cache-control': directive } }, { target });
      await fetched(proxy, { fields: { 'cache-control': directive } }, { target });
    }
    await fetched(proxy, { fields: { 'cache-control': 'no-cache', etag } }, { target: '/c' });
    await fetched(proxy, { status: 304, fields: {} }, { target: '/c' }, noBytes);
    await fetched(proxy, { fields: { 'cache-control': 'max-age=1, must-revalidate', etag } }, { target: '/d' });
    proxy.clock.advance(51_000);
    expect(await (await fetched(proxy, { status: 503 }, { target: '/d' }, noBytes)).client.status()).toBe(503);
  });
});

describe('an error that one client has provoked', () => {
  it.each<[number, Record<string, string>]>([
    [400, { 'x-big': 'x'.repeat(5000) }],
    [400, { 'x-odd': 'caf\u00e9' }],
    [403, { authorization: 'x' }],
    [405, { 'max-forwards': '3' }],
    [406, { accept: 'text/nothing' }],
    [431, { 'x-a': '1' }],
    [500, { 'content-type': 'text/x' }],
  ])('(%d) is not served to other clients, whatever its lifetime', async (status, fields) => {
    const head = { status, fields: { 'cache-control': 'public, max-age=100' } };
    const { client } = await fetched(proxy, head, { fields });
    expect(await client.status()).toBe(status);
    await fetched(proxy, { fields: { 'cache-control': 'max-age=100' } });
    expect(await (await reused(proxy)).status()).toBe(200);
  });

  it('does not replace a stored response either', async () => {
    await fetched(proxy, { fields: { 'cache-control': 'max-age=100', etag } });
    const fields = { 'cache-control': 'no-cache', 'x-odd': 'caf\u00e9' };
    const head = { status: 400, fields: { 'cache-control': 'max-age=100' } };
    expect(await (await fetched(proxy, head, { fields })).client.status()).toBe(400);
    expect(await (await reused(proxy)).bytes()).toEqual(Buffer.from(storedBody));
  });

  it('(416) is never stored', async () => {
    const head = { status: 416, fields: { 'cache-control': 'max-age=100', 'content-range': 'bytes */9' } };
    await fetched(proxy, head, { fields: { range: 'bytes=10-' } });
    await fetched(proxy, { fields: { 'cache-control': 'max-age=100' } });
  });
});

describe('a reload of an immutable response (RFC 8246 §2)', () => {
  it('does not reach the origin while the response is fresh, unless it has no-cache', async () => {
    await fetched(proxy, { fields: { 'cache-control': 'max-age=100, immutable', etag } });
    proxy.clock.advance(50_000);
    expect(await ttlOf({ fields: { 'cache-control': 'max-age=0' } })).toBe('rangeway; hit; ttl=50');
    const range = { range: 'bytes=0-9', 'cache-control': 'max-age=0' };
    expect(await (await reused(proxy, { fields: range })).status()).toBe(206);
    await fetched(proxy, { status: 304, fields: {} }, { fields: { 'cache-control': 'no-cache' } }, noBytes);
    proxy.clock.advance(100_000);
    await fetched(proxy, { status: 304, fields: {} }, { fields: { 'cache-control': 'max-age=0' } }, noBytes);
  });

  it('reaches the origin once a 304 has no immutable', async () => {
    await fetched(proxy, { fields: { 'cache-control': 'max-age=100, immutable', etag } });
    proxy.clock.advance(101_000);
    await fetched(proxy, { status: 304, fields: { 'cache-control': 'max-age=100' } }, {}, noBytes);
    await fetched(proxy, { status: 304, fields: {} }, { fields: { 'cache-control': 'max-age=0' } }, noBytes);
  });
});

describe('Date and Age', () => {
  it('are sent with every reuse, and Date is added where there is none (RFC 9110 §6.6.1)', async () => {
    const { client } = await fetched(proxy, { fields: { 'cache-control': 'max-age=100' } });
    expect(await client.field('date')).toBe('Thu, 01 Jan 2026 00:00:00 GMT');
    expect(await client.field('age')).toBeUndefined();
    proxy.clock.advance(7_900);
    for (const sent of [
      {},
      { method: 'HEAD' },
      { fields: { range: 'bytes=0-9' } },
      { fields: { 'if-none-match': '*' } },
    ]) {
      const again = await reused(proxy, sent);
      expect(await again.field('age')).toBe('7');
      expect(await again.field('date')).toBe('Thu, 01 Jan 2026 00:00:00 GMT');
    }
  });

  it('are sent to all requests that share an exchange, counted from the Age of the origin', async () => {
    const leading = proxy.send();
    const exchange = await proxy.origin.next();
    const waiting = proxy.send();
    proxy.clock.advance(2_000);
    exchange.head({ fields: { 'cache-control': 'max-age=100', age: '30', 'content-length': '3000' } });
    await settled();
    proxy.clock.advance(3_000);
    const late = proxy.send();
    void exchange.send(storedBody);
    exchange.end();
    expect(await leading.field('age')).toBe('30');
    // The response may be two seconds older than its Age (RFC 9111 §4.2.3).
    expect(await waiting.field('age')).toBe('32');
    expect(await late.field('age')).toBe('35');
    await Promise.all([leading, waiting, late].map((client) => client.bytes()));
  });

  it('begin anew with a 304', async () => {
    await fetched(proxy, { fields: { 'cache-control': 'max-age=100', age: '50', etag } });
    proxy.clock.advance(60_000);
    const { client } = await fetched(proxy, { status: 304, fields: {} }, {}, noBytes);
    expect(await client.field('age')).toBe('0');
    expect(await client.field('date')).toBe('Thu, 01 Jan 2026 00:01:00 GMT');
    expect(await ttlOf()).toBe('rangeway; hit; ttl=100');
  });
});
