/** Responses to POST that answer a later GET (RFC 9110 §9.3.3), while clients leave, origins fail and other requests invalidate. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fieldValue } from '../../src/http/fields.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { createSteeredProxy, ended, fetched, reused, settled, storedBody } from '../support/clients/conversation.ts';
import type { Sent, WholeProxy, WholeProxyOptions } from '../support/proxies/whole-proxy.ts';
import type { SteeredStore } from '../support/stores/steered-store.ts';
import { noteUnhandled } from '../support/traffic/traffic-unhandled.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const post: Sent = { method: 'POST' };
const own = { 'cache-control': 'max-age=100', 'content-location': '/file' };
const named = { ...own, etag: '"v1"' };
const noBytes = new Uint8Array();

let store: SteeredStore;
let proxy: WholeProxy;
let unhandled: readonly unknown[];
const start = (options: WholeProxyOptions = {}) => {
  ({ store, proxy } = createSteeredProxy(options));
};
beforeEach(() => {
  unhandled = noteUnhandled();
  start();
});
afterEach(async () => {
  await ended(proxy, store);
  expect(unhandled).toEqual([]);
});

describe('a response to POST with a lifetime and its own Content-Location', () => {
  it.each([['/file'], ['http://files.example/file'], ['//files.example:80/file'], ['file'], ['./x/../file'], ['']])(
    '(%s) answers GET, HEAD and ranges, and no POST',
    async (location) => {
      const { client } = await fetched(proxy, { fields: { ...own, 'content-location': location } }, post);
      expect(await client.status()).toBe(200);
      expect(await client.field('cache-status')).toBe('rangeway; fwd=method; fwd-status=200; stored');
      expect(await (await reused(proxy)).bytes()).toEqual(Buffer.from(storedBody));
      expect((await (await reused(proxy, { method: 'HEAD' })).response).body).toMatchObject({ sizeBytes: 3000 });
      const range = await reused(proxy, { fields: { range: 'bytes=1000-1999' } });
      expect(await range.bytes()).toEqual(Buffer.from(patternBytes(1000, 2000)));
      await fetched(proxy, { status: 204 }, post, noBytes);
    },
  );

  it.each<[string, Record<string, string>, Sent, number]>([
    ['another target', { ...own, 'content-location': '/other' }, {}, 200],
    ['another spelling', { ...own, 'content-location': '/%66ile' }, {}, 200],
    ['another query', { ...own, 'content-location': '/file?1' }, {}, 200],
    ['another authority', { ...own, 'content-location': 'http://other.example/file' }, {}, 200],
    ['another scheme', { ...own, 'content-location': 'https://files.example/file' }, {}, 200],
    ['two locations', { ...own, 'content-location': '/file, /file' }, {}, 200],
    ['no Content-Location', { 'cache-control': 'max-age=100' }, {}, 200],
    ['no lifetime', { 'content-location': '/file', 'last-modified': 'Wed, 01 Jan 2025 00:00:00 GMT' }, {}, 200],
    ['private', { ...own, 'cache-control': 'private, max-age=100' }, {}, 200],
    ['no-store', { ...own, 'cache-control': 'no-store, max-age=100' }, {}, 200],
    ['Vary: *', { ...own, vary: '*' }, {}, 200],
    ['no-store in the request', own, { fields: { 'cache-control': 'no-store' } }, 200],
    ['Authorization', own, { fields: { authorization: 'x' } }, 200],
    ['a 201', own, {}, 201],
    ['a 404', own, {}, 404],
    ['a 500', own, {}, 500],
    ['another method', own, { method: 'PUT' }, 200],
    ['an override of the method', own, { fields: { 'x-http-method-override': 'DELETE' } }, 200],
  ])('(%s) is passed on and not stored, and a later GET asks the origin', async (_name, fields, sent, status) => {
    const { client } = await fetched(proxy, { status, fields }, { ...post, ...sent });
    expect(await client.bytes()).toEqual(Buffer.from(storedBody));
    const again = await fetched(proxy, { fields: named });
    expect(await again.client.field('cache-status')).toBe('rangeway; fwd=uri-miss; fwd-status=200; stored');
    await reused(proxy);
  });

  it('replaces the stored responses of all variants', async () => {
    await fetched(proxy, { fields: { ...named, vary: 'Accept-Language' } }, { fields: { 'accept-language': 'de' } });
    await fetched(proxy, { fields: named });
    await fetched(proxy, { fields: { ...named, etag: '"v2"' } }, post, patternBytes(0, 50, 2));
    for (const language of ['de', 'en']) {
      const client = await reused(proxy, { fields: { 'accept-language': language } });
      expect(await client.bytes()).toEqual(Buffer.from(patternBytes(0, 50, 2)));
    }
  });

  it('is selected by its Vary, except for fields that describe the content of the POST', async () => {
    const sent = { 'accept-language': 'de', 'content-type': 'text/plain' };
    const vary = { ...named, vary: 'Accept-Language, Content-Type' };
    await fetched(proxy, { fields: vary }, { ...post, fields: sent });
    await reused(proxy, { fields: { 'accept-language': 'de' } });
    await fetched(proxy, { fields: vary }, { fields: { 'accept-language': 'en' } });
  });

  it('has its conditions evaluated by the origin alone', async () => {
    const fields = { 'if-match': '"v0"', 'if-none-match': '"v1"', range: 'bytes=0-9' };
    const { client, exchange } = await fetched(proxy, { fields: named }, { ...post, fields });
    for (const field of Object.entries(fields)) expect(exchange.request.fields).toContainEqual(field);
    expect(await client.status()).toBe(200);
    expect(await client.bytes()).toEqual(Buffer.from(storedBody));
    expect(await (await reused(proxy)).bytes()).toEqual(Buffer.from(storedBody));
  });

  it('is shared by a GET that comes while it arrives', async () => {
    const posting = proxy.send(post);
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...named, 'content-length': '3000' } });
    await exchange.send(storedBody.subarray(0, 1500));
    const getting = proxy.send({ fields: { range: 'bytes=1000-2999' } });
    void exchange.send(storedBody.subarray(1500));
    exchange.end();
    expect(await posting.bytes()).toEqual(Buffer.from(storedBody));
    expect(await getting.bytes()).toEqual(Buffer.from(patternBytes(1000, 3000)));
    expect(await getting.field('age')).toBe('0');
    expect(proxy.origin.requests).toBe(1);
  });
});

describe('an interrupted response to POST', () => {
  it('is stored when its client leaves midway', async () => {
    const client = proxy.send(post);
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...named, 'content-length': '3000' } });
    await exchange.send(storedBody.subarray(0, 1500));
    await client.readUntil(1000);
    await client.leave();
    void exchange.send(storedBody.subarray(1500));
    exchange.end();
    await settled();
    expect(await (await reused(proxy)).bytes()).toEqual(Buffer.from(storedBody));
  });

  it('goes on for a GET that shares it when its own client leaves', async () => {
    await proxy.close();
    start({ fill: { onAbort: 'stop' } });
    const posting = proxy.send(post);
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...own, 'content-length': '3000' } });
    await exchange.send(storedBody.subarray(0, 1500));
    const getting = proxy.send();
    await getting.readUntil(1000);
    await posting.leave();
    void exchange.send(storedBody.subarray(1500));
    exchange.end();
    expect(await getting.bytes()).toEqual(Buffer.from(storedBody));
    expect(proxy.origin.requests).toBe(1);
  });

  it('ends with its client under onAbort stop', async () => {
    await proxy.close();
    start({ fill: { onAbort: 'stop' } });
    const client = proxy.send(post);
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...own, 'content-length': '3000' } });
    await exchange.send(storedBody.subarray(0, 1500));
    await client.readUntil(1000);
    await client.leave();
    await settled();
    expect(exchange.isClosed).toBe(true);
    await fetched(proxy, { fields: named });
  });

  it('is aborted when its client leaves before it arrives', async () => {
    const client = proxy.send(post);
    const exchange = await proxy.origin.next();
    await client.leave();
    expect(exchange.request.signal.aborted).toBe(true);
  });

  it.each([0, 3])('is cut off where it breaks off, and not stored (%i attempts)', async (resumeAttempts) => {
    await proxy.close();
    start({ fill: { resumeAttempts } });
    const client = proxy.send(post);
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...own, 'content-length': '3000' } });
    await exchange.send(storedBody.subarray(0, 1500));
    exchange.fail(new ProxyError('origin_reset'));
    await expect(client.bytes()).rejects.toMatchObject({ code: 'origin_reset' });
    await settled();
    expect(proxy.origin.requests).toBe(1);
    await fetched(proxy, { fields: named });
  });
});

describe('a response to POST, while other requests change the target (RFC 9111 §4.4),', () => {
  it('is not stored when another request has invalidated the target since the POST was sent', async () => {
    const posting = proxy.send(post);
    const exchange = await proxy.origin.next();
    await fetched(proxy, { status: 204 }, { method: 'PUT' }, noBytes);
    exchange.respond({ fields: named }, storedBody);
    expect(await posting.bytes()).toEqual(Buffer.from(storedBody));
    await settled();
    await fetched(proxy, { fields: { ...named, etag: '"v2"' } });
  });

  it('is not stored when one of its groups was invalidated since the POST was sent (RFC 9875 §3)', async () => {
    const posting = proxy.send(post);
    const exchange = await proxy.origin.next();
    const fields = { 'cache-group-invalidation': '"g"' };
    await fetched(proxy, { status: 204, fields }, { method: 'PUT', target: '/other' }, noBytes);
    exchange.respond({ fields: { ...named, 'cache-groups': '"g"' } }, storedBody);
    await posting.bytes();
    await settled();
    await fetched(proxy, { fields: { ...named, etag: '"v2"' } });
  });

  it('keeps the response to an earlier GET out of the store', async () => {
    const getting = proxy.send();
    const older = await proxy.origin.next();
    await fetched(proxy, { fields: { ...named, etag: '"v2"' } }, post, patternBytes(0, 50, 2));
    older.respond({ fields: named }, storedBody);
    expect(await getting.bytes()).toEqual(Buffer.from(storedBody));
    await settled();
    expect(await (await reused(proxy)).field('etag')).toBe('"v2"');
  });

  it('does not make a GET wait for the POST', async () => {
    const posting = proxy.send(post);
    const exchange = await proxy.origin.next();
    const { client } = await fetched(proxy, { fields: named });
    expect(fieldValue((await client.response).fields, 'etag')).toBe('"v1"');
    exchange.respond({ status: 204 }, noBytes);
    await posting.response;
  });
});
