/** Stored responses that are known to be outdated: no client gets one without a validation, even while another reads it. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fieldValue } from '../../src/http/fields.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { createSteeredProxy, ended, fetched, reused, settled, storedBody } from '../support/clients/conversation.ts';
import { createRangeOrigin, type RangeOrigin } from '../support/origins/range-origin.ts';
import type { Sent, WholeProxy, WholeProxyOptions } from '../support/proxies/whole-proxy.ts';
import type { SteeredStore } from '../support/stores/steered-store.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const stored = { 'cache-control': 'max-age=100, stale-while-revalidate=1000', etag: '"v1"' };
const reload: Sent = { fields: { 'cache-control': 'no-cache' } };
const first: Sent = { fields: { range: 'bytes=0-99' } };
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

/** A response that makes the stored one outdated, and is not stored itself. */
const replacing = { fields: { 'cache-control': 'no-store' } };

describe('a stored response that is outdated by one that is not stored', () => {
  it.each<[string, Sent, number]>([
    ['a request without conditions', {}, 502],
    ['a request with max-stale', { fields: { 'cache-control': 'max-stale' } }, 502],
    ['a request with stale-if-error', { fields: { 'cache-control': 'stale-if-error=999' } }, 502],
    ['HEAD', { method: 'HEAD' }, 502],
  ])('is not served to %s, fresh or stale', async (_name, sent, status) => {
    await fetched(proxy, { fields: stored });
    await fetched(proxy, replacing, reload);
    for (const ms of [0, 200_000]) {
      proxy.clock.advance(ms);
      const client = proxy.send(sent);
      (await proxy.origin.next()).fail(new ProxyError('origin_reset'));
      expect(await client.status()).toBe(status);
    }
  });

  it('is not served to a request with only-if-cached', async () => {
    await fetched(proxy, { fields: stored });
    await fetched(proxy, replacing, reload);
    const client = await reused(proxy, { fields: { 'cache-control': 'only-if-cached, max-stale' } });
    expect(await client.status()).toBe(504);
  });

  it('is valid again after a 304', async () => {
    await fetched(proxy, { fields: stored });
    await fetched(proxy, replacing, reload);
    const { exchange } = await fetched(proxy, { status: 304, fields: stored }, {}, noBytes);
    expect(fieldValue(exchange.request.fields, 'if-none-match')).toBe('"v1"');
    expect(await (await reused(proxy)).bytes()).toEqual(Buffer.from(storedBody));
  });

  it('can still be read by the clients that are reading it', async () => {
    await fetched(proxy, { fields: stored });
    const reading = proxy.send();
    await reading.readUntil(100);
    await fetched(proxy, replacing, reload);
    expect(await reading.bytes()).toEqual(Buffer.from(storedBody));
  });
});

describe('a partly stored response that is outdated while it is being completed', () => {
  let origin: RangeOrigin;

  /** Stores a part, and starts a reader for which another part is arriving. */
  async function startReading(fields: Record<string, string>) {
    await proxy.close();
    start({ originRanges: 'auto' });
    origin = createRangeOrigin(proxy.origin, { fields });
    const client = proxy.send(first);
    await origin.give();
    await client.bytes();
    await settled();
    const reading = proxy.send({ fields: { range: 'bytes=1024-9999' } });
    const rest = await origin.begin();
    await rest.sendTo(5000);
    await reading.readUntil(100);
    return { reading, rest };
  }

  it('by a response that is not stored, is served to no other client, neither then nor when it is complete', async () => {
    const { reading, rest } = await startReading(stored);
    const reloading = proxy.send({ fields: { ...first.fields, ...reload.fields } });
    (await proxy.origin.next()).respond(replacing, patternBytes(0, 10_000, 2));
    expect(await reloading.bytes()).toEqual(Buffer.from(patternBytes(0, 100, 2)));
    const early = await fetched(proxy, replacing, first, patternBytes(0, 10_000, 2));
    expect(await early.client.bytes()).toEqual(Buffer.from(patternBytes(0, 100, 2)));
    rest.finish();
    expect(await reading.bytes()).toEqual(Buffer.from(patternBytes(1024, 10_000)));
    await settled();
    const late = await fetched(proxy, replacing, first, patternBytes(0, 10_000, 2));
    expect(await late.client.bytes()).toEqual(Buffer.from(patternBytes(0, 100, 2)));
  });

  it('by a HEAD, is joined by no request, even if it has no lifetime', async () => {
    const { reading, rest } = await startReading({ etag: '"v1"' });
    proxy.clock.advance(1);
    const head = proxy.send({ method: 'HEAD', ...reload });
    (await proxy.origin.next()).head({ fields: { etag: '"v2"' }, framing: 'none' });
    await head.response;
    await settled();
    const late = await fetched(proxy, { fields: { etag: '"v2"' } }, first, patternBytes(0, 10_000, 2));
    expect(await late.client.bytes()).toEqual(Buffer.from(patternBytes(0, 100, 2)));
    rest.finish();
    expect(await reading.bytes()).toEqual(Buffer.from(patternBytes(1024, 10_000)));
  });
});

describe('a partly stored response that is outdated while it is being opened', () => {
  it('is known to be outdated once its readers read it', async () => {
    await proxy.close();
    start({ originRanges: 'auto' });
    const origin = createRangeOrigin(proxy.origin, { fields: stored });
    const client = proxy.send(first);
    await origin.give();
    await client.bytes();
    await settled();
    const reloading = proxy.send({ fields: { ...first.fields, ...reload.fields } });
    const exchange = await proxy.origin.next();
    const resumed = store.hold('resume');
    const reading = proxy.send({ fields: { range: 'bytes=1024-2047' } });
    await resumed.reached;
    // The entry is found before it is outdated, and is opened afterwards.
    const { find } = store;
    const found = Promise.withResolvers<void>();
    store.find = async (key) => {
      store.find = find;
      const entries = await find(key);
      await found.promise;
      return entries;
    };
    resumed.release();
    await settled();
    exchange.respond(replacing, patternBytes(0, 10_000, 2));
    await reloading.bytes();
    await settled();
    found.resolve();
    // It stays outdated until the origin confirms that it is current.
    const rest = await proxy.origin.next();
    const late = await fetched(proxy, replacing, first, patternBytes(0, 10_000, 2));
    expect(await late.client.bytes()).toEqual(Buffer.from(patternBytes(0, 100, 2)));
    const span = { 'content-range': 'bytes 1024-2047/10000' };
    rest.respond({ status: 206, fields: { ...stored, ...span } }, patternBytes(1024, 2048));
    expect(await reading.bytes()).toEqual(Buffer.from(patternBytes(1024, 2048)));
  });
});

describe('a fragment (RFC 9111 §3.3)', () => {
  const weak = { 'cache-control': 'max-age=100', etag: 'W/"v1"', 'content-range': 'bytes 9995-9999/10000' };
  const tail: Sent = { fields: { range: 'bytes=-5' } };

  beforeEach(async () => {
    await proxy.close();
    start({ originRanges: 'auto' });
  });

  it('is not kept when it was invalidated while it was passed on (§4.4)', async () => {
    const client = proxy.send(tail);
    const exchange = await proxy.origin.next();
    exchange.head({ status: 206, fields: { ...weak, 'content-length': '5' } });
    expect(await client.status()).toBe(206);
    await fetched(proxy, { status: 204 }, { method: 'PUT' }, noBytes);
    void exchange.send(patternBytes(9995, 10_000));
    exchange.end();
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(9995, 10_000)));
    await settled();
    const { client: again } = await fetched(proxy, { status: 206, fields: weak }, tail, patternBytes(9995, 10_000, 2));
    expect(await again.bytes()).toEqual(Buffer.from(patternBytes(9995, 10_000, 2)));
    await reused(proxy, tail);
  });

  it('is not kept when one of its groups was invalidated while it was passed on (RFC 9875 §3)', async () => {
    const client = proxy.send(tail);
    const exchange = await proxy.origin.next();
    exchange.head({ status: 206, fields: { ...weak, 'content-length': '5', 'cache-groups': '"g"' } });
    expect(await client.status()).toBe(206);
    const clearing = { status: 204, fields: { 'cache-group-invalidation': '"g"' } };
    await fetched(proxy, clearing, { method: 'PUT', target: '/other' }, noBytes);
    void exchange.send(patternBytes(9995, 10_000));
    exchange.end();
    await client.bytes();
    await settled();
    await fetched(proxy, { status: 206, fields: weak }, tail, patternBytes(9995, 10_000));
  });

  it.each([
    ['another tag', { etag: 'W/"v2"', 'content-length': '10000' }],
    ['another length', { etag: 'W/"v1"', 'content-length': '9999' }],
  ])('is not served after a HEAD with %s (§4.3.5)', async (_name, fields) => {
    await fetched(proxy, { status: 206, fields: weak }, tail, patternBytes(9995, 10_000));
    await reused(proxy, tail);
    proxy.clock.advance(1000);
    await fetched(proxy, { fields, framing: 'none' }, { method: 'HEAD' }, noBytes);
    await fetched(proxy, { status: 206, fields: weak }, tail, patternBytes(9995, 10_000));
  });

  it('does not keep the server from stopping while its client does not read', async () => {
    const client = proxy.send(tail);
    (await proxy.origin.next()).head({ status: 206, fields: { ...weak, 'content-length': '5' } });
    expect(await client.status()).toBe(206);
    await proxy.closeCache();
    await client.leave();
  });
});
