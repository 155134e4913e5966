/** Stale responses served at once and revalidated (RFC 5861 §3): what clients get, and what happens to the stored response. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fieldValue } from '../../src/http/fields.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { createSteeredProxy, ended, fetched, reused, settled, storedBody } from '../support/clients/conversation.ts';
import type { FakeHead } from '../support/origins/fake-origin.ts';
import type { WholeProxy } from '../support/proxies/whole-proxy.ts';
import type { SteeredStore } from '../support/stores/steered-store.ts';
import { noteUnhandled } from '../support/traffic/traffic-unhandled.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const directives = 'max-age=100, stale-while-revalidate=50';
const first = { 'cache-control': directives, etag: '"v1"' };
const second = { 'cache-control': directives, etag: '"v2"' };
const newBody = patternBytes(0, 2500, 2);

let store: SteeredStore;
let proxy: WholeProxy;
let unhandled: readonly unknown[];
beforeEach(async () => {
  unhandled = noteUnhandled();
  ({ store, proxy } = createSteeredProxy());
  await fetched(proxy, { fields: first });
});
afterEach(async () => {
  await ended(proxy, store);
  expect(unhandled).toEqual([]);
});

/** Sends a request that gets the stale response at once. Returns the exchange of the revalidation. */
async function stale(ttl: number) {
  const client = proxy.send();
  expect(await client.field('cache-status')).toBe(`rangeway; hit; ttl=${ttl}`);
  expect(await client.field('etag')).toBe('"v1"');
  expect(await client.bytes()).toEqual(Buffer.from(storedBody));
  return await proxy.origin.next();
}

describe('a response within its stale-while-revalidate window', () => {
  it('is served at once, and revalidated once, however many clients ask for it', async () => {
    proxy.clock.advance(120_000);
    const clients = [proxy.send(), proxy.send({ fields: { range: 'bytes=10-19' } }), proxy.send({ method: 'HEAD' })];
    expect(await Promise.all(clients.map((client) => client.status()))).toEqual([200, 206, 200]);
    for (const client of [...clients, proxy.send()]) {
      expect(await client.field('cache-status')).toBe('rangeway; hit; ttl=-20');
      expect(await client.field('age')).toBe('120');
      await client.bytes();
    }
    expect(
      proxy
        .requestEvents()
        .slice(-4)
        .map(({ outcome }) => outcome),
    ).toEqual(Array(4).fill('stale'));
    expect(proxy.origin.requests).toBe(2);

    const exchange = await proxy.origin.next();
    exchange.respond({ status: 304, fields: { ...first, 'x-new': '1' } }, new Uint8Array());
    await settled();
    const again = await reused(proxy);
    expect(await again.field('cache-status')).toBe('rangeway; hit; ttl=100');
    expect(await again.field('x-new')).toBe('1');
    expect(await again.bytes()).toEqual(Buffer.from(storedBody));
  });

  it.each([
    ['a range', { fields: { range: 'bytes=0-9', 'if-range': '"v1"' } }],
    ['a condition', { fields: { 'if-none-match': '"other"' } }],
    ['HEAD', { method: 'HEAD' }],
  ])('is revalidated as a whole after a request with %s', async (_name, sent) => {
    proxy.clock.advance(120_000);
    await proxy.send(sent).bytes();
    const { request, respond } = await proxy.origin.next();
    expect(request.method).toBe('GET');
    expect(fieldValue(request.fields, 'if-none-match')).toBe('"v1"');
    expect(request.fields.map(([name]) => name)).not.toContain('range');
    expect(request.fields.map(([name]) => name)).not.toContain('if-range');
    respond({ fields: second }, newBody);
    await settled();
    expect(await (await reused(proxy)).bytes()).toEqual(Buffer.from(newBody));
  });

  it('is replaced by a 200, which the next request gets, while a reader of the old response goes on', async () => {
    proxy.clock.advance(120_000);
    const reading = proxy.send();
    expect(await reading.field('etag')).toBe('"v1"');
    (await proxy.origin.next()).respond({ fields: second }, newBody);
    await settled();
    const next = await reused(proxy);
    expect(await next.field('cache-status')).toBe('rangeway; hit; ttl=100');
    expect(await next.bytes()).toEqual(Buffer.from(newBody));
    expect(await reading.bytes()).toEqual(Buffer.from(storedBody));
  });

  it('is served until the new response is complete, without another request', async () => {
    proxy.clock.advance(120_000);
    const exchange = await stale(-20);
    exchange.head({ fields: second });
    await exchange.send(newBody.subarray(0, 2000));
    const meanwhile = await reused(proxy);
    expect(await meanwhile.field('etag')).toBe('"v1"');
    await exchange.send(newBody.subarray(2000));
    exchange.end();
    await settled();
    expect(await (await reused(proxy)).bytes()).toEqual(Buffer.from(newBody));
  });

  it('is not served any more after the window', async () => {
    proxy.clock.advance(149_999);
    (await stale(-50)).fail(new ProxyError('origin_refused'));
    await settled();
    proxy.clock.advance(1);
    const { client } = await fetched(proxy, { fields: second }, {}, newBody);
    expect(await client.field('cache-status')).toBe('rangeway; fwd=stale; fwd-status=200; stored');
    expect(await client.bytes()).toEqual(Buffer.from(newBody));
  });
});

describe('a background revalidation that fails', () => {
  it.each<[string, ProxyError | number]>([
    ['no connection', new ProxyError('origin_refused')],
    ['a connection that is cut', new ProxyError('origin_reset')],
    ['no answer', new ProxyError('origin_timeout')],
    ...[500, 502, 503, 504].map((status): [string, number] => [`a ${status}`, status]),
  ])('by %s keeps the old response, and the next request asks again', async (_name, failure) => {
    proxy.clock.advance(120_000);
    for (const ttl of [-20, -21]) {
      const exchange = await stale(ttl);
      if (failure instanceof ProxyError) exchange.fail(failure);
      else exchange.respond({ status: failure, fields: { 'cache-control': 'max-age=9' } }, new Uint8Array(5));
      await settled();
      proxy.clock.advance(1000);
    }
    expect(proxy.origin.requests).toBe(3);
  });

  it('by a body that breaks off keeps the old response', async () => {
    proxy.clock.advance(120_000);
    const exchange = await stale(-20);
    exchange.head({ fields: { ...second, 'content-length': '2500' } });
    await exchange.send(newBody.subarray(0, 500));
    exchange.fail(new ProxyError('origin_reset'));
    await settled();
    (await stale(-20)).respond({ fields: second }, newBody);
    await settled();
    expect(await (await reused(proxy)).bytes()).toEqual(Buffer.from(newBody));
  });

  it.each<[string, FakeHead]>([
    ['a 401', { status: 401 }],
    ['a 403', { status: 403 }],
    ['a 429', { status: 429 }],
  ])('by %s, which concerns only its client, keeps the old response', async (_name, head) => {
    proxy.clock.advance(120_000);
    (await stale(-20)).respond(head, new Uint8Array(5));
    await settled();
    (await stale(-20)).fail(new ProxyError('origin_refused'));
  });
});

describe('a background revalidation that brings a response that may not be shared', () => {
  it.each<[string, FakeHead]>([
    ['no-store', { fields: { 'cache-control': 'no-store' } }],
    ['private', { fields: { 'cache-control': 'private, max-age=9' } }],
    ['Vary: *', { fields: { ...second, vary: '*' } }],
    ['a 404', { status: 404 }],
    ['a redirection without a lifetime', { status: 302, fields: { location: '/login' } }],
  ])('(%s) has the old response validated before use, even if the origin fails', async (_name, head) => {
    proxy.clock.advance(120_000);
    const exchange = await stale(-20);
    exchange.head(head);
    await settled();
    expect(exchange.isClosed).toBe(true);

    const next = proxy.send();
    const asked = await proxy.origin.next();
    expect(fieldValue(asked.request.fields, 'if-none-match')).toBe('"v1"');
    asked.fail(new ProxyError('origin_refused'));
    expect(await next.status()).toBe(502);
    const last = proxy.send();
    (await proxy.origin.next()).respond({ status: 304, fields: first }, new Uint8Array());
    expect(await last.bytes()).toEqual(Buffer.from(storedBody));
    expect(await (await reused(proxy)).field('cache-status')).toBe('rangeway; hit; ttl=100');
  });

  it('(200 to a request with Authorization) leaves the old response as it is', async () => {
    proxy.clock.advance(120_000);
    const client = proxy.send({ fields: { authorization: 'x' } });
    expect(await client.bytes()).toEqual(Buffer.from(storedBody));
    const exchange = await proxy.origin.next();
    exchange.head({ fields: second });
    await settled();
    expect(exchange.isClosed).toBe(true);
    (await stale(-20)).respond({ status: 304, fields: first }, new Uint8Array());
  });

  it('(a 304 with no-store) removes the old one', async () => {
    proxy.clock.advance(120_000);
    (await stale(-20)).respond({ status: 304, fields: { 'cache-control': 'no-store' } }, new Uint8Array());
    const again = await proxy.origin.next();
    expect(again.request.fields.map(([name]) => name)).not.toContain('if-none-match');
    again.respond({ fields: { 'cache-control': 'no-store' } }, newBody);
    await settled();
    await fetched(proxy, { fields: { 'cache-control': 'no-store' } });
  });
});
