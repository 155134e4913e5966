/** Requests that wait for an exchange that another request has started: which of them it serves (RFC 9111 §4). */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import type { FakeExchange } from '../support/origins/fake-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
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

async function store(fields: Record<string, string>) {
  const client = proxy.send();
  (await proxy.origin.next()).respond({ fields }, body);
  await client.bytes();
  await proxy.fillsEnded(1);
}

describe('an origin that fails while several requests wait', () => {
  it('does not deny others the stale response if the first request has no-cache', async () => {
    await store(fresh);
    proxy.clock.advance(200_000);
    const reload = proxy.send({ fields: { 'cache-control': 'no-cache' } });
    const plain = proxy.send();
    (await proxy.origin.next()).fail(new ProxyError('origin_refused'));
    expect(await reload.status()).toBe(502);
    expect(await plain.status()).toBe(200);
    expect(await plain.field('cache-status')).toContain('detail=origin_refused');
    expect(await plain.bytes()).toEqual(Buffer.from(body));
  });

  it('does not give a request with no-cache the stale response, even if the first request gets it', async () => {
    await store(fresh);
    proxy.clock.advance(200_000);
    const plain = proxy.send();
    const reload = proxy.send({ fields: { 'cache-control': 'no-cache' } });
    (await proxy.origin.next()).fail(new ProxyError('origin_refused'));
    expect(await plain.status()).toBe(200);
    expect(await reload.status()).toBe(502);
  });

  it('by a 503 lets a request with no-cache get an answer of its own', async () => {
    await store(fresh);
    proxy.clock.advance(200_000);
    const plain = proxy.send();
    const reload = proxy.send({ fields: { 'cache-control': 'no-cache' } });
    (await proxy.origin.next()).respond({ status: 503 }, new Uint8Array(3));
    expect(await plain.status()).toBe(200);
    (await proxy.origin.next()).respond({ status: 503 }, new Uint8Array(3));
    expect(await reload.status()).toBe(503);
  });
});

describe('an origin that answers a validation with nonsense', () => {
  it.each([304])('such as %i to a request without a condition: the stored response is served stale', async (status) => {
    await store({ 'cache-control': 'max-age=10' });
    proxy.clock.advance(200_000);
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    expect(exchange.request.fields.map(([name]) => name)).not.toContain('if-none-match');
    exchange.respond({ status, fields: { 'cache-control': 'max-age=10' } }, new Uint8Array());
    expect(await client.status()).toBe(200);
    expect(await client.field('cache-status')).toContain('detail=origin_ill_framed');
    expect(exchange.isClosed).toBe(true);
  });
});

describe('a response that each request has to ask for (RFC 9111 §5.2.2.4)', () => {
  it.each(['no-cache', 'max-age=0', 'max-age=0, must-revalidate', 's-maxage=0'])(
    '(%s) is not given to requests that waited for it',
    async (directives) => {
      const clients = ['alice', 'bob', 'carol'].map((name) => proxy.send({ fields: { cookie: name } }));
      const answer = (exchange: FakeExchange, seed: number) =>
        exchange.respond({ fields: { 'cache-control': directives, etag: `"${seed}"` } }, patternBytes(0, 10, seed));
      answer(await proxy.origin.next(), 1);
      // The others do not wait for each other.
      const [second, third] = [await proxy.origin.next(), await proxy.origin.next()];
      answer(second, 2);
      answer(third, 3);
      const bodies = await Promise.all(clients.map((client) => client.bytes()));
      expect(bodies).toEqual([1, 2, 3].map((seed) => Buffer.from(patternBytes(0, 10, seed))));
      await proxy.fillsEnded(3);
    },
  );

  it('is given to requests that waited even if it took longer than its lifetime', async () => {
    const clients = [proxy.send(), proxy.send()];
    const exchange = await proxy.origin.next();
    proxy.clock.advance(5_000);
    exchange.respond({ fields: { 'cache-control': 'max-age=1', etag: '"v1"' } }, body);
    for (const client of clients) expect(await client.bytes()).toEqual(Buffer.from(body));
    expect(proxy.origin.requests).toBe(1);
  });
});

describe('a request with Authorization', () => {
  it('whose response is for it alone lets the others share one exchange', async () => {
    const authorized = proxy.send({ fields: { authorization: 'x' } });
    const others = [proxy.send(), proxy.send(), proxy.send()];
    (await proxy.origin.next()).respond({ fields: fresh }, patternBytes(0, 10, 1));
    expect(await authorized.bytes()).toEqual(Buffer.from(patternBytes(0, 10, 1)));
    (await proxy.origin.next()).respond({ fields: fresh }, body);
    for (const client of others) expect(await client.bytes()).toEqual(Buffer.from(body));
    expect(proxy.origin.requests).toBe(2);
  });
});

describe('HEAD', () => {
  it('ignores a Range (RFC 9110 §14.2)', async () => {
    await store({});
    const client = proxy.send({ method: 'HEAD', fields: { range: 'bytes=0-9' } });
    const exchange = await proxy.origin.next();
    expect(exchange.request.method).toBe('HEAD');
    exchange.head({ framing: 'none' });
    expect(await client.status()).toBe(200);
  });
});

describe('only-if-cached', () => {
  it('gets 504 while a fill runs, and the stored response after it', async () => {
    const reading = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: fresh });
    expect(await proxy.send({ fields: { 'cache-control': 'only-if-cached' } }).status()).toBe(504);
    void exchange.send(body);
    exchange.end();
    await reading.bytes();
    await proxy.fillsEnded(1);
    expect(await proxy.send({ fields: { 'cache-control': 'only-if-cached' } }).status()).toBe(200);
  });
});

describe('a part of a response', () => {
  it('carries no digest of the content of the whole (RFC 9530 §2)', async () => {
    await store({
      ...fresh,
      'content-digest': 'sha-256=:AAAA:',
      'content-md5': 'AAAA',
      'repr-digest': 'sha-256=:BBBB:',
    });
    const digests = async (fields: Record<string, string>) => {
      const client = proxy.send({ fields });
      await client.bytes();
      return [
        await client.field('content-digest'),
        await client.field('content-md5'),
        await client.field('repr-digest'),
      ];
    };
    expect(await digests({})).toEqual(['sha-256=:AAAA:', 'AAAA', 'sha-256=:BBBB:']);
    expect(await digests({ range: 'bytes=0-9' })).toEqual([undefined, undefined, 'sha-256=:BBBB:']);
    expect(await digests({ range: 'bytes=0-9,100-109' })).toEqual([undefined, undefined, 'sha-256=:BBBB:']);
    const relayed = proxy.send({ target: '/private', fields: { range: 'bytes=0-9' } });
    (await proxy.origin.next()).respond(
      { fields: { 'cache-control': 'private', 'content-digest': 'sha-256=:AAAA:' } },
      body,
    );
    expect(await relayed.status()).toBe(206);
    expect(await relayed.field('content-digest')).toBeUndefined();
  });
});
