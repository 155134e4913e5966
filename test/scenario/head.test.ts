/** HEAD requests that reach the origin: which responses freshen or invalidate a stored response to GET (RFC 9111 §4.3.5). */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fieldValue } from '../../src/http/fields.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { createSteeredProxy, ended, fetched, reused, settled, storedBody } from '../support/clients/conversation.ts';
import type { FakeHead } from '../support/origins/fake-origin.ts';
import { createRangeOrigin } from '../support/origins/range-origin.ts';
import { defaultCaching } from '../support/proxies/default-caching.ts';
import type { Sent, WholeProxy, WholeProxyOptions } from '../support/proxies/whole-proxy.ts';
import type { SteeredStore } from '../support/stores/steered-store.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const stored = { 'cache-control': 'max-age=100', etag: '"v1"', 'last-modified': 'Wed, 01 Jan 2025 00:00:00 GMT' };
const reload = { 'cache-control': 'no-cache' };
const noBytes = new Uint8Array();

let store: SteeredStore;
let proxy: WholeProxy;
const start = (options: WholeProxyOptions = {}) => {
  ({ store, proxy } = createSteeredProxy(options));
};
beforeEach(() => start());
afterEach(async () => {
  await ended(proxy, store);
});

/** Sends a HEAD that the origin answers. */
async function headed(head: FakeHead, fields: Sent['fields'] = reload) {
  // A response stored in the same millisecond may be newer than the HEAD.
  proxy.clock.advance(1);
  const client = proxy.send({ method: 'HEAD', fields });
  const exchange = await proxy.origin.next();
  expect(exchange.request.method).toBe('HEAD');
  exchange.head({ framing: 'none', ...head });
  await client.response;
  await settled();
  return client;
}

/** Expects that the next request has the stored response validated. Returns that exchange. */
async function expectValidated() {
  const client = proxy.send();
  const exchange = await proxy.origin.next();
  exchange.respond({ status: 304, fields: stored }, noBytes);
  await client.bytes();
  await settled();
  return exchange;
}

describe('a HEAD that agrees with the stored response', () => {
  it('freshens it, with the fields that the HEAD brings', async () => {
    await fetched(proxy, { fields: stored });
    proxy.clock.advance(90_000);
    const client = await headed({ fields: { ...stored, 'content-length': '3000', 'x-new': '1' } });
    expect(await client.field('cache-status')).toBe('rangeway; fwd=request; fwd-status=200; detail=method');
    expect((await client.response).body).toMatchObject({ sizeBytes: 3000 });
    proxy.clock.advance(90_000);
    const again = await reused(proxy);
    expect(await again.field('cache-status')).toBe('rangeway; hit; ttl=10');
    expect(await again.field('age')).toBe('90');
    expect(await again.field('x-new')).toBe('1');
    expect(await again.bytes()).toEqual(Buffer.from(storedBody));
  });

  it('freshens a stale one', async () => {
    await fetched(proxy, { fields: stored });
    proxy.clock.advance(200_000);
    const client = await headed({ fields: { ...stored, 'content-length': '3000' } }, {});
    expect(await client.field('cache-status')).toBe('rangeway; fwd=stale; fwd-status=200; detail=method');
    expect(await (await reused(proxy)).field('cache-status')).toBe('rangeway; hit; ttl=100');
  });

  it('freshens a partly stored one, even while it is being read', async () => {
    await proxy.close();
    start({ originRanges: 'auto' });
    const origin = createRangeOrigin(proxy.origin, { fields: stored });
    const first = proxy.send({ fields: { range: 'bytes=0-99' } });
    await origin.give();
    await first.bytes();
    await settled();
    proxy.clock.advance(90_000);
    const reading = proxy.send({ fields: { range: 'bytes=5000-5099' } });
    const rest = await proxy.origin.next();
    await headed({ fields: { ...stored, 'content-length': '10000', 'x-new': '1' } });
    rest.respond(
      { status: 206, fields: { ...stored, 'content-range': 'bytes 4096-6143/10000' } },
      patternBytes(4096, 6144),
    );
    expect(await reading.bytes()).toEqual(Buffer.from(patternBytes(5000, 5100)));
    await settled();
    proxy.clock.advance(89_000);
    for (const range of ['bytes=0-99', 'bytes=5000-5099']) {
      const again = await reused(proxy, { fields: { range } });
      expect(await again.field('cache-status')).toBe('rangeway; hit; ttl=10');
      expect(await again.field('x-new')).toBe('1');
    }
  });
});

describe('a HEAD that differs from the stored response', () => {
  it.each<[string, Record<string, string>]>([
    ['another entity tag', { ...stored, etag: '"v2"' }],
    ['another Last-Modified', { ...stored, 'last-modified': 'Thu, 02 Jan 2025 00:00:00 GMT' }],
    ['another length', { ...stored, 'content-length': '3001' }],
    ['another Vary', { ...stored, vary: 'Accept-Language' }],
  ])('(%s) has it validated before it is used again, and does not freshen it', async (_name, fields) => {
    await fetched(proxy, { fields: stored });
    await headed({ fields: { ...fields, 'x-new': '1' } });
    const exchange = await expectValidated();
    expect(fieldValue(exchange.request.fields, 'if-none-match')).toBe('"v1"');
    const again = await reused(proxy);
    expect(await again.field('cache-status')).toBe('rangeway; hit; ttl=100');
    expect(await again.field('x-new')).toBeUndefined();
  });

  it('has a stored error fetched again, to which a 200 does not apply', async () => {
    await fetched(proxy, { status: 404, fields: { 'cache-control': 'max-age=100' } }, {}, noBytes);
    await headed({ fields: { 'cache-control': 'max-age=1000' } });
    await fetched(proxy, { fields: stored });
  });

  it('keeps it from being served stale when the origin fails', async () => {
    await fetched(proxy, { fields: stored });
    await headed({ fields: { ...stored, etag: '"v2"' } });
    const client = proxy.send();
    (await proxy.origin.next()).respond({ status: 503 }, noBytes);
    expect(await client.status()).toBe(503);
  });

  it('keeps new readers from a partly stored one', async () => {
    await proxy.close();
    start({ originRanges: 'auto' });
    const origin = createRangeOrigin(proxy.origin, { fields: stored });
    const reading = proxy.send({ fields: { range: 'bytes=0-99' } });
    await origin.give();
    expect(await reading.bytes()).toEqual(Buffer.from(patternBytes(0, 100)));
    const holding = proxy.send({ fields: { range: 'bytes=2000-9999' } });
    const rest = await origin.begin();
    await rest.sendTo(5000);
    await holding.readUntil(100);
    await headed({ fields: { ...stored, etag: '"v2"' } });
    const client = proxy.send({ fields: { range: 'bytes=0-99' } });
    const asked = await proxy.origin.next();
    expect(fieldValue(asked.request.fields, 'if-none-match')).toBe('"v1"');
    asked.respond({ fields: { ...stored, etag: '"v2"' } }, patternBytes(0, 10_000, 2));
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(0, 100, 2)));
    rest.finish();
    expect(await holding.bytes()).toEqual(Buffer.from(patternBytes(2000, 10_000)));
    await settled();
    expect(await (await reused(proxy)).field('etag')).toBe('"v2"');
  });

  it('concerns only the variants that match its request', async () => {
    const german = { 'accept-language': 'de' };
    const varied = { ...stored, vary: 'Accept-Language' };
    await fetched(proxy, { fields: varied });
    await fetched(proxy, { fields: varied }, { fields: german });
    await headed({ fields: { ...varied, etag: '"v2"' } }, { ...reload, ...german });
    await reused(proxy);
    await fetched(proxy, { fields: { ...varied, etag: '"v2"' } }, { fields: german });
  });
});

describe('a HEAD that does not apply to the stored response', () => {
  it.each<[string, FakeHead, Sent['fields']]>([
    ['a 304', { status: 304, fields: { ...stored, etag: '"v2"' } }, { ...reload, 'if-none-match': '"v2"' }],
    ['a 404', { status: 404, fields: { etag: '"v2"' } }, reload],
    ['a 500', { status: 500, fields: { etag: '"v2"' } }, reload],
    ['a request with Authorization', { fields: { ...stored, etag: '"v2"' } }, { ...reload, authorization: 'x' }],
    ['a private response', { fields: { etag: '"v2"', 'cache-control': 'private' } }, reload],
    ['fields of a private response', { fields: { ...stored, 'cache-control': 'private', 'x-new': '1' } }, reload],
    [
      'fields for a request with Authorization',
      { fields: { ...stored, 'x-new': '1' } },
      { ...reload, authorization: 'x' },
    ],
  ])('(%s) changes nothing', async (_name, head, fields) => {
    await fetched(proxy, { fields: stored });
    proxy.clock.advance(9_999);
    await headed(head, fields);
    const again = await reused(proxy);
    expect(await again.field('cache-status')).toBe('rangeway; hit; ttl=90');
    expect(await again.field('age')).toBe('10');
    expect(await again.field('etag')).toBe('"v1"');
    expect(await again.field('x-new')).toBeUndefined();
  });

  it('changes nothing where the route has it bypass the cache', async () => {
    await proxy.close();
    start({ route: { cache: { bypass: { ...defaultCaching.bypass, fields: ['x-draft'] } } } });
    await fetched(proxy, { fields: stored });
    await headed({ fields: { ...stored, etag: '"draft"' } }, { 'x-draft': '1' });
    await reused(proxy);
  });

  it('changes nothing in a newer response that was stored while the HEAD was under way', async () => {
    await fetched(proxy, { fields: stored });
    const head = proxy.send({ method: 'HEAD', fields: reload });
    const exchange = await proxy.origin.next();
    proxy.clock.advance(1000);
    const put = proxy.send({ method: 'PUT' });
    (await proxy.origin.next()).respond({ status: 204 }, noBytes);
    await put.bytes();
    await fetched(proxy, { fields: { ...stored, etag: '"v2"' } });
    proxy.clock.advance(1000);
    exchange.head({ framing: 'none', fields: { 'cache-control': 'max-age=9999', 'x-old': '1' } });
    expect(await head.status()).toBe(200);
    await settled();
    const again = await reused(proxy);
    expect(await again.field('cache-status')).toBe('rangeway; hit; ttl=99');
    expect(await again.field('x-old')).toBeUndefined();
  });
});

describe('a HEAD of an absent response', () => {
  /** Sends a HEAD that the origin answers with these fields. */
  async function head(fields: Record<string, string>, status = 200) {
    const client = await headed({ status, fields }, {});
    return { ranges: await client.field('accept-ranges'), client };
  }

  it.each<[string, Record<string, string>, string | undefined]>([
    ['may be stored', stored, 'bytes'],
    ['may be stored, and has a length', { ...stored, 'content-length': '3000' }, 'bytes'],
    ['may be stored, at an origin without ranges', { ...stored, 'accept-ranges': 'none' }, 'bytes'],
    ['is not stored, and has a length', { 'cache-control': 'no-store', 'content-length': '3000' }, 'bytes'],
    [
      'is not stored, and has a length, at an origin without ranges',
      { 'cache-control': 'no-store', 'content-length': '3000', 'accept-ranges': 'none' },
      'bytes',
    ],
    ['is not stored, and has no length', { 'cache-control': 'no-store' }, undefined],
    [
      'is not stored, and has no length, at an origin without ranges',
      { 'cache-control': 'no-store', 'accept-ranges': 'none' },
      'none',
    ],
    [
      'is not stored, and has no length, at an origin with ranges',
      { 'cache-control': 'no-store', 'accept-ranges': 'bytes' },
      'bytes',
    ],
  ])('states whether ranges are served from a response that %s', async (_name, fields, expected) => {
    expect((await head(fields)).ranges).toBe(expected);
  });

  it('has no Accept-Ranges with an error', async () => {
    expect((await head({ ...stored, 'content-length': '9' }, 404)).ranges).toBeUndefined();
  });

  it('has Accept-Ranges without a cache only where ranges can be cut from the relayed body', async () => {
    await proxy.close();
    start({ route: { cache: { enabled: false } } });
    expect((await head({ ...stored, 'content-length': '3000' })).ranges).toBe('bytes');
    expect((await head(stored)).ranges).toBeUndefined();
  });

  it('agrees with a GET that is passed on', async () => {
    const fields = { 'cache-control': 'no-store', 'content-length': '3000', 'accept-ranges': 'none' };
    const whole = (await fetched(proxy, { fields })).client;
    expect(await whole.field('accept-ranges')).toBe('bytes');
    const part = (await fetched(proxy, { fields }, { fields: { range: 'bytes=0-9' } })).client;
    expect(await part.status()).toBe(206);
    expect(await part.field('accept-ranges')).toBe('bytes');
  });
});

describe('a HEAD that the origin answers without a length', () => {
  const { 'last-modified': date, ...tagged } = stored;

  it.each<[string, Record<string, string>, Record<string, string>, number | undefined]>([
    ['the same entity tag', stored, stored, 3000],
    ['the same strong date', { 'last-modified': date }, { 'last-modified': date }, 3000],
    ['another entity tag', stored, { ...stored, etag: '"v2"' }, undefined],
    ['a weak entity tag', { ...stored, etag: 'W/"v1"' }, { ...stored, etag: 'W/"v1"' }, undefined],
    ['no validator', tagged, { 'cache-control': 'max-age=100' }, undefined],
    ['a private response', stored, { ...stored, 'cache-control': 'private' }, undefined],
  ])('gets the stored length only under the same strong validator: %s', async (_name, first, second, expected) => {
    await fetched(proxy, { fields: first });
    const client = await headed({ fields: second });
    expect((await client.response).body).toMatchObject({ sizeBytes: expected });
  });

  it('gets the length of the entry that ranges reuse, where the origin gives no lifetime and no validator', async () => {
    await fetched(proxy, { fields: {} });
    const client = await headed({ fields: {} }, {});
    expect((await client.response).body).toMatchObject({ sizeBytes: 3000 });
    await reused(proxy, { fields: { range: 'bytes=0-9' } });
    const reloading = await headed({ fields: {} });
    expect((await reloading.response).body).toMatchObject({ sizeBytes: undefined });
    proxy.clock.advance(61_000);
    const late = await headed({ fields: { etag: '"v1"' } }, {});
    expect((await late.response).body).toMatchObject({ sizeBytes: undefined });
  });

  it('keeps the length that the origin gives', async () => {
    await fetched(proxy, { fields: stored });
    const client = await headed({ fields: { ...stored, 'content-length': '3001' } });
    expect((await client.response).body).toMatchObject({ sizeBytes: 3001 });
  });

  it('gets the length of a running fill', async () => {
    const reading = proxy.send();
    const fill = await proxy.origin.next();
    fill.head({ fields: { ...stored, 'content-length': '3000' } });
    await reading.response;
    const client = await headed({ fields: stored });
    expect((await client.response).body).toMatchObject({ sizeBytes: 3000 });
    await fill.send(storedBody);
    fill.end();
    await reading.bytes();
  });

  it('gets the length once the body is stored, without asking the origin', async () => {
    await fetched(proxy, { fields: stored });
    const client = await reused(proxy, { method: 'HEAD' });
    expect((await client.response).body).toMatchObject({ sizeBytes: 3000 });
    expect(await client.field('accept-ranges')).toBe('bytes');
  });
});

describe('a HEAD of a response with a content coding', () => {
  const coded = { ...stored, 'content-encoding': 'gzip' };

  /** Has the body stored. The origin states its length only where the fields do. */
  async function fetchChunked(fields: Record<string, string>): Promise<void> {
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields });
    await exchange.send(storedBody);
    exchange.end();
    await client.bytes();
    await settled();
  }

  it.each<[string, Record<string, string>, number | undefined]>([
    ['has no length where the origin gave none', coded, undefined],
    ['has the length that the origin gave', { ...coded, 'content-length': '3000' }, 3000],
    ['has the length where the coding is none', { ...stored, 'content-encoding': 'Identity' }, 3000],
  ])('%s, from the store', async (_name, fields, expected) => {
    await fetchChunked(fields);
    const client = await reused(proxy, { method: 'HEAD' });
    expect((await client.response).body).toMatchObject({ sizeBytes: expected });
    expect(await client.field('content-encoding')).toBe(fields['content-encoding']);
  });

  it('has no length where it is passed on, although the whole is stored', async () => {
    await fetchChunked(coded);
    const client = await headed({ fields: coded });
    expect((await client.response).body).toMatchObject({ sizeBytes: undefined });
  });

  it('does not wait for the length of a running fill', async () => {
    const reading = proxy.send();
    const fill = await proxy.origin.next();
    fill.head({ fields: coded });
    await reading.response;
    const client = proxy.send({ method: 'HEAD' });
    expect((await client.response).body).toMatchObject({ sizeBytes: undefined });
    await fill.send(storedBody);
    fill.end();
    await reading.bytes();
  });
});

describe('a HEAD of a response that is arriving without a length', () => {
  it('is answered without it where the transfer breaks off', async () => {
    const reading = proxy.send();
    const fill = await proxy.origin.next();
    fill.head({ fields: stored });
    await fill.send(storedBody.subarray(0, 10));
    const client = proxy.send({ method: 'HEAD' });
    await settled();
    fill.fail(new ProxyError('origin_reset'));
    expect(await client.status()).toBe(200);
    expect((await client.response).body).toMatchObject({ sizeBytes: undefined });
    await expect(reading.bytes()).rejects.toThrow();
  });

  it('waits for the length', async () => {
    const reading = proxy.send();
    const fill = await proxy.origin.next();
    fill.head({ fields: stored });
    await reading.response;
    const client = proxy.send({ method: 'HEAD' });
    await settled();
    await fill.send(storedBody);
    fill.end();
    expect((await client.response).body).toMatchObject({ sizeBytes: 3000 });
    expect(await client.field('accept-ranges')).toBe('bytes');
    await reading.bytes();
  });

  it('is answered without it after lengthWaitSeconds', async () => {
    const reading = proxy.send();
    const fill = await proxy.origin.next();
    fill.head({ fields: stored });
    await reading.response;
    const client = proxy.send({ method: 'HEAD' });
    await settled();
    proxy.clock.advance(10_000);
    expect((await client.response).body).toMatchObject({ sizeBytes: undefined });
    await fill.send(storedBody);
    fill.end();
    await reading.bytes();
  });
});

describe('a HEAD that the origin answers without a length, under headLength fetch', () => {
  beforeEach(async () => {
    await proxy.close();
    start({ fill: { headLength: 'fetch' } });
  });

  /** Sends a HEAD that the origin answers. Returns its client, and the GET that follows for the length. */
  async function sendHead(fields: Record<string, string> = stored) {
    const client = proxy.send({ method: 'HEAD' });
    (await proxy.origin.next()).head({ framing: 'none', fields });
    const fill = await proxy.origin.next();
    expect(fill.request.method).toBe('GET');
    return { client, fill };
  }

  it('gets the length, and ranges are answered from the fetched body', async () => {
    const { client, fill } = await sendHead();
    fill.head({ fields: stored });
    void fill.send(storedBody);
    fill.end();
    expect((await client.response).body).toMatchObject({ sizeBytes: 3000 });
    expect(await client.field('accept-ranges')).toBe('bytes');
    await settled();
    const part = await reused(proxy, { fields: { range: 'bytes=-10' } });
    expect(await part.field('content-range')).toBe('bytes 2990-2999/3000');
  });

  it('gets the response of the origin where the body cannot be fetched', async () => {
    const { client, fill } = await sendHead();
    fill.fail(new ProxyError('origin_reset'));
    expect(await client.status()).toBe(200);
    expect((await client.response).body).toMatchObject({ sizeBytes: undefined });
  });

  it.each<[string, FakeHead]>([
    ['may not be stored', { fields: { 'cache-control': 'no-store' } }],
    ['is an error', { status: 404, fields: stored }],
    // Ranges are requested without a coding: the length of the coded form would mislead.
    ['has a content coding', { fields: { ...stored, 'content-encoding': 'gzip' } }],
    ['has a length', { fields: { ...stored, 'content-length': '3000' } }],
  ])('is passed on as it is where the response %s', async (_name, head) => {
    await headed(head, {});
    expect(proxy.origin.requests).toBe(1);
  });
});
