/** Requests that share one exchange with the origin. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { turn } from '../support/clocks/turn.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 10_000;
const whole = patternBytes(0, size);
const fields = { 'cache-control': 'max-age=60', etag: '"v1"', 'content-length': String(size) };

let proxy: WholeProxy;
beforeEach(() => {
  proxy = createWholeProxy();
});
afterEach(() => proxy.close());

describe('a miss that many clients ask for', () => {
  it('is fetched once, and each gets the whole', async () => {
    const clients = Array.from({ length: 50 }, () => proxy.send());
    const exchange = await proxy.origin.next();
    exchange.respond({ fields }, whole);
    for (const client of clients) expect(await client.bytes()).toEqual(Buffer.from(whole));
    expect(proxy.origin.requests).toBe(1);
    expect(await clients[0]?.field('cache-status')).toBe('rangeway; fwd=uri-miss; fwd-status=200; stored');
    expect(await clients[1]?.field('cache-status')).toBe('rangeway; fwd=uri-miss; fwd-status=200; stored; collapsed');
  });

  it('gives each reader its bytes as they arrive, at different offsets at once', async () => {
    const plain = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields });
    const early = proxy.send({ fields: { range: 'bytes=100-199' } });
    const late = proxy.send({ fields: { range: 'bytes=6000-6099' } });
    const several = proxy.send({ fields: { range: 'bytes=6500-6509,10-19' } });
    expect(await plain.status()).toBe(200);
    expect(await late.status()).toBe(206);

    await exchange.send(whole.subarray(0, 150));
    expect(await plain.readUntil(150)).toEqual(Buffer.from(patternBytes(0, 150)));
    expect(await early.readUntil(50)).toEqual(Buffer.from(patternBytes(100, 150)));
    await exchange.send(whole.subarray(150, 7000));
    expect(await early.bytes()).toEqual(Buffer.from(patternBytes(100, 200)));
    expect(await late.bytes()).toEqual(Buffer.from(patternBytes(6000, 6100)));
    expect(Buffer.from(await several.bytes()).includes(Buffer.from(patternBytes(6500, 6510)))).toBe(true);

    // The ranges are complete although the fill still runs.
    expect(proxy.fillEvents()).toEqual([]);
    await exchange.send(whole.subarray(7000));
    exchange.end();
    expect(await plain.bytes()).toEqual(Buffer.from(whole));
    expect(proxy.origin.requests).toBe(1);
  });

  it('asks the origin for the whole, whatever range the first client wanted', async () => {
    const client = proxy.send({
      fields: { range: 'bytes=0-9', 'if-range': '"v1"', 'if-none-match': '"x"', accept: 'video/*' },
    });
    const exchange = await proxy.origin.next();
    const names = exchange.request.fields.map(([name]) => name);
    expect(names).toContain('accept');
    for (const name of ['range', 'if-range', 'if-none-match']) expect(names).not.toContain(name);
    exchange.respond({ fields }, whole);
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(0, 10)));
    await proxy.fillsEnded(1);
    expect(await proxy.send({ fields: { range: 'bytes=-9' } }).bytes()).toEqual(
      Buffer.from(patternBytes(size - 9, size)),
    );
    expect(proxy.origin.requests).toBe(1);
  });

  it('looks into the store again after waiting, for another variant', async () => {
    const english = proxy.send({ fields: { 'accept-language': 'en' } });
    const german = proxy.send({ fields: { 'accept-language': 'de' } });
    const alsoGerman = proxy.send({ fields: { 'accept-language': 'de' } });
    (await proxy.origin.next()).respond({ fields: { ...fields, vary: 'Accept-Language' } }, whole);
    expect(await english.bytes()).toEqual(Buffer.from(whole));
    const second = await proxy.origin.next();
    expect(second.request.fields).toContainEqual(['accept-language', 'de']);
    second.respond({ fields: { ...fields, vary: 'Accept-Language', etag: '"de"' } }, whole);
    expect(await german.field('etag')).toBe('"de"');
    expect(await alsoGerman.field('etag')).toBe('"de"');
    await proxy.fillsEnded(2);
    expect(await proxy.send({ fields: { 'accept-language': 'en' } }).field('etag')).toBe('"v1"');
    expect(await proxy.send({ fields: { 'accept-language': 'de' } }).field('cache-status')).toMatch(/; hit/);
    expect(proxy.origin.requests).toBe(2);
  });

  it('releases the requests that wait when the response may not be shared', async () => {
    const clients = [proxy.send(), proxy.send(), proxy.send()];
    const first = await proxy.origin.next();
    first.respond({ fields: { 'cache-control': 'private', etag: '"1"' } }, patternBytes(0, 10, 1));
    const second = await proxy.origin.next();
    const third = await proxy.origin.next();
    second.respond({ fields: { 'cache-control': 'private', etag: '"2"' } }, patternBytes(0, 10, 2));
    third.respond({ fields: { 'cache-control': 'private', etag: '"3"' } }, patternBytes(0, 10, 3));
    const bodies = await Promise.all(clients.map((client) => client.bytes()));
    expect(bodies).toEqual([1, 2, 3].map((seed) => Buffer.from(patternBytes(0, 10, seed))));

    // Later requests do not wait for each other any more.
    const more = [proxy.send(), proxy.send()];
    const exchanges = [await proxy.origin.next(), await proxy.origin.next()];
    for (const exchange of exchanges) exchange.respond({ fields: { 'cache-control': 'private' } }, whole);
    for (const client of more) expect(await client.bytes()).toHaveLength(size);
  });

  it('fails for all requests that wait when the origin cannot be reached', async () => {
    const clients = [proxy.send(), proxy.send()];
    (await proxy.origin.next()).fail(new ProxyError('origin_refused'));
    for (const client of clients) {
      expect(await client.status()).toBe(502);
      expect(await client.field('proxy-status')).toBe('rangeway; error=connection_refused');
      expect(await client.field('cache-status')).toBeUndefined();
    }
    expect(proxy.origin.requests).toBe(1);
  });
});

describe('a client that leaves', () => {
  it('does not end the fill, which goes on for other readers and into the store', async () => {
    const leaving = proxy.send();
    const staying = proxy.send({ fields: { range: 'bytes=9000-' } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields });
    await exchange.send(whole.subarray(0, 100));
    await leaving.readUntil(100);
    await leaving.leave();
    await exchange.send(whole.subarray(100));
    exchange.end();
    expect(await staying.bytes()).toEqual(Buffer.from(patternBytes(9000, size)));
    await proxy.fillsEnded(1);
    expect(proxy.fillEvents()[0]).toMatchObject({ result: 'stored', bytes: size });
  });

  it('ends a fill without other readers under onAbort stop', async () => {
    await proxy.close();
    proxy = createWholeProxy({ fill: { onAbort: 'stop' } });
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields });
    await exchange.send(whole.subarray(0, 2000));
    await client.readUntil(1);
    await client.leave();
    await proxy.fillsEnded(1);
    expect(exchange.isClosed).toBe(true);
    expect(proxy.fillEvents()[0]).toMatchObject({ result: 'stopped', bytes: 2000 });
    const again = proxy.send();
    (await proxy.origin.next()).respond({ fields }, whole);
    expect(await again.bytes()).toEqual(Buffer.from(whole));
  });

  it('before the head ends the origin request under onAbort stop', async () => {
    await proxy.close();
    proxy = createWholeProxy({ fill: { onAbort: 'stop' } });
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    await client.leave();
    expect(exchange.request.signal.aborted).toBe(true);
    expect(await client.status()).toBe(499);
  });

  it('before the head leaves no unread body behind', async () => {
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    await client.leave();
    exchange.respond({ fields: { 'cache-control': 'no-store' } }, whole);
    await turn();
    expect(exchange.isClosed).toBe(true);
  });
});
