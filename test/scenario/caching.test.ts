/** Storing, reuse, validation, invalidation: RFC 9111 as a client sees it. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import type { FakeHead } from '../support/origins/fake-origin.ts';
import { createWholeProxy, type Sent, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const body = patternBytes(0, 3000);
const fresh = { 'cache-control': 'max-age=100', etag: '"v1"' };

let proxy: WholeProxy;
beforeEach(() => {
  proxy = createWholeProxy();
});
afterEach(async () => {
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
});

/** Sends a request that the origin answers. Resolves once the response is read and, if it is stored, can be found. */
async function miss(head: FakeHead, sent: Sent = {}, bytes: Uint8Array = body) {
  const fillsBefore = proxy.fillEvents().length;
  const client = proxy.send(sent);
  const exchange = await proxy.origin.next();
  exchange.respond(head, bytes);
  await client.bytes();
  if ((await client.field('cache-status'))?.includes('; stored') === true) await proxy.fillsEnded(fillsBefore + 1);
  return { client, exchange };
}

async function hit(sent: Sent = {}) {
  const before = proxy.origin.requests;
  const client = proxy.send(sent);
  await client.bytes();
  expect(proxy.origin.requests).toBe(before);
  return client;
}

describe('storing and reuse (RFC 9111 §3, §4)', () => {
  it.each<[string, Record<string, string>, Sent]>([
    ['max-age', { 'cache-control': 'max-age=100' }, {}],
    ['s-maxage before max-age', { 'cache-control': 'max-age=0, s-maxage=100' }, {}],
    ['Expires', { expires: 'Thu, 01 Jan 2026 00:01:00 GMT', date: 'Thu, 01 Jan 2026 00:00:00 GMT' }, {}],
    ['Last-Modified (§4.2.2)', { 'last-modified': 'Wed, 01 Jan 2025 00:00:00 GMT' }, {}],
    [
      'public, to a request with Authorization (§3.5)',
      { 'cache-control': 'public, max-age=9' },
      { fields: { authorization: 'x' } },
    ],
    ['private="x-field"', { 'cache-control': 'max-age=9, private="x-field"', 'x-field': '1' }, {}],
  ])('stores and reuses: %s', async (_name, fields, sent) => {
    const { client } = await miss({ fields }, sent);
    expect(await client.field('cache-status')).toBe('rangeway; fwd=uri-miss; fwd-status=200; stored');
    const again = await hit(sent);
    expect(await again.field('cache-status')).toMatch(/^rangeway; hit; ttl=\d+$/);
    expect(await again.field('x-field')).toBeUndefined();
    expect(await again.bytes()).toEqual(Buffer.from(body));
  });

  it.each<[string, Record<string, string>, Sent, string]>([
    ['no-store', { 'cache-control': 'max-age=100, no-store' }, {}, 'no-store'],
    ['private', { 'cache-control': 'max-age=100, private' }, {}, 'private'],
    ['Authorization (§3.5)', { 'cache-control': 'max-age=100' }, { fields: { authorization: 'x' } }, 'authorization'],
    ['Vary: *', { ...fresh, vary: '*' }, {}, 'vary-star'],
    ['a Vary that cannot be parsed', { ...fresh, vary: 'foo bar' }, {}, 'vary-star'],
    ['Set-Cookie without a lifetime', { etag: '"v1"', 'set-cookie': 'a=b' }, {}, 'set-cookie'],
  ])('does not store: %s', async (_name, fields, sent, reason) => {
    const { client } = await miss({ fields }, sent);
    expect(await client.field('cache-status')).toContain(`detail=${reason}`);
    await miss({ fields }, sent);
    expect(proxy.requestEvents().map((event) => event.outcome)).toEqual(['uncacheable', 'uncacheable']);
  });

  it('sends Age on every reuse (§5.1), counted from the Age of the origin', async () => {
    await miss({ fields: { ...fresh, age: '10' } });
    proxy.clock.advance(5_500);
    expect(await (await hit()).field('age')).toBe('15');
  });

  it('asks again when the lifetime is over', async () => {
    await miss({ fields: fresh });
    proxy.clock.advance(99_000);
    await hit();
    proxy.clock.advance(2_000);
    const { client } = await miss({ fields: { ...fresh, etag: '"v2"' } });
    expect(await client.field('cache-status')).toBe('rangeway; fwd=stale; fwd-status=200; stored');
    expect(await (await hit()).field('etag')).toBe('"v2"');
  });

  it('uses the lifetime of the route where the origin gives none', async () => {
    await proxy.close();
    proxy = createWholeProxy({
      route: { cache: { defaultTtlSeconds: 30, rangeReuseSeconds: 0 } },
    });
    await miss({ fields: {} });
    proxy.clock.advance(29_000);
    expect(await (await hit()).field('cache-status')).toBe('rangeway; hit; ttl=1');
  });

  it('stores nothing on a route without a cache', async () => {
    await proxy.close();
    proxy = createWholeProxy({
      route: { cache: { enabled: false, defaultTtlSeconds: 30 } },
    });
    for (const _ of [1, 2]) {
      const { client, exchange } = await miss({ fields: fresh }, { fields: { range: 'bytes=10-19' } });
      expect(exchange.request.fields).toContainEqual(['range', 'bytes=10-19']);
      expect(await client.field('cache-status')).toBe('rangeway; fwd=bypass; fwd-status=200');
      expect(await client.field('content-range')).toBe('bytes 10-19/3000');
      expect(await client.bytes()).toEqual(Buffer.from(patternBytes(10, 20)));
    }
  });

  it('stores final statuses other than 200 with a lifetime, and applies no range to them', async () => {
    await miss({ status: 404, fields: { 'cache-control': 'max-age=10' } });
    const client = await hit({ fields: { range: 'bytes=0-1', 'if-none-match': '*' } });
    expect(await client.status()).toBe(404);
    expect(await client.field('accept-ranges')).toBeUndefined();
    expect(await client.bytes()).toHaveLength(body.length);
  });

  it('keeps targets, authorities and queries apart', async () => {
    await miss({ fields: fresh }, { target: '/a?x=1' });
    for (const sent of [
      { target: '/a' },
      { target: '/a?x=2' },
      { target: '/A?x=1' },
      { target: '/a?x=1', authority: 'b' },
    ]) {
      await miss({ fields: fresh }, sent);
    }
    await hit({ target: '/a?x=1', authority: 'FILES.example:80' });
    // The origin gets each spelling as it was sent, and may tell them apart (RFC 9110 §7.7).
    await miss({ fields: fresh }, { target: '/b/../a?x=1' });
    await miss({ fields: fresh }, { target: '/%61?x=1' });
    await hit({ target: '/%61?x=1' });
  });
});

describe('validation (RFC 9111 §4.3)', () => {
  it('asks with the stored validators, and serves the stored bytes after a 304', async () => {
    const lastModified = 'Wed, 01 Jan 2025 00:00:00 GMT';
    await miss({ fields: { ...fresh, 'last-modified': lastModified } });
    proxy.clock.advance(200_000);
    const client = proxy.send({ fields: { range: 'bytes=10-19' } });
    const exchange = await proxy.origin.next();
    expect(exchange.request.fields).toContainEqual(['if-none-match', '"v1"']);
    expect(exchange.request.fields).toContainEqual(['if-modified-since', lastModified]);
    expect(exchange.request.fields.map(([name]) => name)).not.toContain('range');
    exchange.respond(
      { status: 304, fields: { etag: '"v1"', 'cache-control': 'max-age=50', 'x-new': '1' } },
      new Uint8Array(),
    );
    expect(await client.status()).toBe(206);
    expect(await client.field('cache-status')).toBe('rangeway; fwd=stale; fwd-status=304; ttl=50; stored');
    expect(await client.field('x-new')).toBe('1');
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(10, 20)));
    proxy.clock.advance(49_000);
    await hit();
  });

  it('is done once for all requests that wait', async () => {
    await miss({ fields: fresh });
    proxy.clock.advance(200_000);
    const clients = [proxy.send(), proxy.send({ fields: { range: 'bytes=0-9' } }), proxy.send({ method: 'HEAD' })];
    (await proxy.origin.next()).respond({ status: 304, fields: { etag: '"v1"' } }, new Uint8Array());
    expect(await Promise.all(clients.map((client) => client.status()))).toEqual([200, 206, 200]);
    expect(proxy.origin.requests).toBe(2);
  });

  it('updates nothing by a 304 with another strong tag, and asks without condition (§4.3.4)', async () => {
    await miss({ fields: fresh });
    proxy.clock.advance(200_000);
    const client = proxy.send();
    (await proxy.origin.next()).respond({ status: 304, fields: { etag: '"other"' } }, new Uint8Array());
    const second = await proxy.origin.next();
    expect(second.request.fields.map(([name]) => name)).not.toContain('if-none-match');
    second.respond({ fields: { ...fresh, etag: '"v2"' } }, patternBytes(0, 50, 2));
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(0, 50, 2)));
    await proxy.fillsEnded(2);
  });

  it('passes on a 304 to a request without condition only to a client that has that copy (RFC 9110 §15.4.5)', async () => {
    for (const [asked, status] of [
      [{ 'if-none-match': '"v1"' }, 304],
      [{ 'if-none-match': '"v2"' }, 502],
      [{}, 502],
    ] as const) {
      const client = proxy.send({ fields: asked });
      const exchange = await proxy.origin.next();
      expect(exchange.request.fields.map(([name]) => name)).not.toContain('if-none-match');
      exchange.head({ framing: 'none', status: 304, fields: { etag: '"v1"', 'x-new': '1' } });
      expect(await client.status()).toBe(status);
      expect(await client.field('x-new')).toBe(status === 304 ? '1' : undefined);
    }
    await miss({ fields: fresh });
  });

  it('no-cache in the response validates each time', async () => {
    await miss({ fields: { 'cache-control': 'no-cache', etag: '"v1"' } });
    for (const _ of [1, 2]) {
      const client = proxy.send();
      (await proxy.origin.next()).respond({ status: 304, fields: {} }, new Uint8Array());
      expect(await client.bytes()).toEqual(Buffer.from(body));
    }
  });

  it('no-cache in the request validates a fresh response (§5.2.1.4)', async () => {
    await miss({ fields: fresh });
    const client = proxy.send({ fields: { 'cache-control': 'no-cache' } });
    (await proxy.origin.next()).respond({ status: 304, fields: {} }, new Uint8Array());
    expect(await client.field('cache-status')).toMatch(/^rangeway; fwd=request; fwd-status=304/);
  });

  it('only-if-cached gets a stored response or 504 (§5.2.1.7)', async () => {
    const fields = { 'cache-control': 'only-if-cached' };
    expect(await proxy.send({ fields }).status()).toBe(504);
    await miss({ fields: fresh });
    expect(await (await hit({ fields })).status()).toBe(200);
    const unstored = { 'cache-control': 'no-store, only-if-cached' };
    expect(await (await hit({ fields: unstored })).status()).toBe(200);
    proxy.clock.advance(200_000);
    expect(await proxy.send({ fields: unstored }).status()).toBe(504);
  });

  it('no-store in the request keeps its response out of the store', async () => {
    await miss({ fields: fresh }, { fields: { 'cache-control': 'no-store' } });
    await miss({ fields: fresh });
  });
});

describe('an origin that fails (RFC 9111 §4.2.4)', () => {
  it.each([
    ['cannot be reached', new ProxyError('origin_refused'), 'detail=origin_refused'],
    ['answers 503', 503, 'fwd-status=503'],
  ])('%s: the stored response is served stale', async (_name, failure, status) => {
    await miss({ fields: fresh });
    proxy.clock.advance(150_000);
    const client = proxy.send({ fields: { range: 'bytes=0-9' } });
    const exchange = await proxy.origin.next();
    if (failure instanceof ProxyError) exchange.fail(failure);
    else exchange.respond({ status: failure }, new Uint8Array(5));
    expect(await client.status()).toBe(206);
    expect(await client.field('cache-status')).toContain(status);
    expect(await client.field('cache-status')).toContain('ttl=-50');
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(0, 10)));
    expect(proxy.requestEvents().at(-1)?.outcome).toBe('stale');
  });

  it.each(['must-revalidate', 'proxy-revalidate', 's-maxage=100', 'no-cache'])('not under %s', async (directive) => {
    await miss({ fields: { 'cache-control': `max-age=100, ${directive}`, etag: '"v1"' } });
    proxy.clock.advance(150_000);
    const client = proxy.send();
    (await proxy.origin.next()).fail(new ProxyError('origin_timeout'));
    expect(await client.status()).toBe(504);
    expect(JSON.parse(String(await client.bytes()))).toMatchObject({ status: 504, title: 'Gateway Timeout' });
  });
});

describe('Vary (RFC 9111 §4.1)', () => {
  it('keeps a variant for each value', async () => {
    const head = (language: string) => ({
      fields: { ...fresh, vary: 'Accept-Language', 'content-language': language },
    });
    await miss(head('en'), { fields: { 'accept-language': 'en' } });
    const { client } = await miss(head('de'), { fields: { 'accept-language': 'de' } });
    expect(await client.field('cache-status')).toMatch(/fwd=vary-miss/);
    expect(await (await hit({ fields: { 'accept-language': 'en' } })).field('content-language')).toBe('en');
    expect(await (await hit({ fields: { 'accept-language': 'de' } })).field('content-language')).toBe('de');
    await miss(head('none'), {});
  });
});

describe('methods', () => {
  it('HEAD is answered from a stored GET, and passed on otherwise', async () => {
    const first = proxy.send({ method: 'HEAD' });
    const exchange = await proxy.origin.next();
    expect(exchange.request.method).toBe('HEAD');
    exchange.head({ fields: { ...fresh, 'content-length': '3000' }, framing: 'none' });
    expect((await first.response).body).toMatchObject({ sizeBytes: 3000 });
    await miss({ fields: fresh });
    const client = await hit({ method: 'HEAD' });
    expect((await client.response).body).toMatchObject({ sizeBytes: 3000 });
  });

  it.each(['POST', 'PUT', 'DELETE', 'PATCH', 'M-SEARCH'])('%s is passed on and invalidates (§4.4)', async (method) => {
    await miss({ fields: fresh });
    await miss({ fields: fresh }, { target: '/other' });
    await miss({ fields: fresh }, { target: '/third' });
    const { client } = await miss({ status: 201, fields: { location: '/other' } }, { method });
    expect(await client.status()).toBe(201);
    expect(await client.field('cache-status')).toBe('rangeway; fwd=method; fwd-status=201');
    await miss({ fields: fresh });
    await miss({ fields: fresh }, { target: '/other' });
    await hit({ target: '/third' });
  });

  it('an unsafe request that fails invalidates nothing', async () => {
    await miss({ fields: fresh });
    await miss({ status: 500 }, { method: 'POST' });
    await hit();
  });

  it('invalidation keeps a running fill out of the store', async () => {
    const reading = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...fresh, 'content-length': '3000' } });
    await exchange.send(body.subarray(0, 1500));
    await miss({ status: 204 }, { method: 'PUT' }, new Uint8Array());
    void exchange.send(body.subarray(1500));
    exchange.end();
    expect(await reading.bytes()).toEqual(Buffer.from(body));
    await proxy.fillsEnded(1);
    await miss({ fields: { ...fresh, etag: '"v2"' } });
  });
});

describe('forwarding', () => {
  it('tells the origin the address of the client, and drops the forwarding fields that clients send', async () => {
    const { exchange, client } = await miss(
      { fields: { ...fresh, connection: 'x-hop', 'x-hop': '1', 'alt-svc': 'h3=":443"', 'keep-alive': 'timeout=5' } },
      {
        fields: {
          'x-forwarded-for': '1.2.3.4',
          forwarded: 'for=1.2.3.4',
          connection: 'x-secret',
          'x-secret': '1',
          te: 'trailers',
        },
      },
    );
    const sent = Object.fromEntries(exchange.request.fields);
    expect(sent).toEqual({
      host: 'origin.example',
      via: '1.1 rangeway-test',
      'cdn-loop': 'rangeway-test',
      forwarded: 'for=192.0.2.7;host=files.example;proto=http',
      'x-forwarded-for': '192.0.2.7',
      'x-forwarded-host': 'files.example',
      'x-forwarded-port': '80',
      'x-forwarded-proto': 'http',
      'x-real-ip': '192.0.2.7',
    });
    expect(await client.field('via')).toBe('1.1 rangeway-test');
    for (const name of ['x-hop', 'connection', 'keep-alive', 'alt-svc'])
      expect(await client.field(name)).toBeUndefined();
  });

  it('refuses a loop with 508', async () => {
    const client = proxy.send({ fields: { via: '1.1 other, 1.1 rangeway-test' } });
    expect(await client.status()).toBe(508);
    expect(proxy.origin.requests).toBe(0);
  });

  it('passes interim responses on to the client of the request', async () => {
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.request.onInterim?.({ status: 103, fields: [['link', '</a.css>; rel=preload']] });
    exchange.respond({ fields: fresh }, body);
    await client.bytes();
    expect(client.interim).toMatchObject([{ status: 103 }]);
    await proxy.fillsEnded(1);
    expect((await hit()).interim).toEqual([]);
  });

  it('keeps the Host under host keep', async () => {
    await proxy.close();
    proxy = createWholeProxy({ route: { host: 'keep' } });
    const { exchange } = await miss({ fields: fresh });
    expect(exchange.request.fields).toContainEqual(['host', 'files.example']);
  });

  it('answers 404 where there is no route', async () => {
    await proxy.close();
    proxy = createWholeProxy({ route: { match: { hosts: ['other.example'], pathPrefix: '/' } } });
    const client = proxy.send();
    expect(await client.status()).toBe(404);
    await client.bytes();
    expect(proxy.requestEvents()).toMatchObject([{ status: 404, error: 'no_route', route: undefined }]);
  });
});
