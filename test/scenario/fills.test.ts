/** Fills that fail, and fills without a length, a validator or a lifetime. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 10_000;
const whole = patternBytes(0, size);
const fields = { 'cache-control': 'max-age=60', etag: '"v1"' };

let proxy: WholeProxy;
beforeEach(() => {
  proxy = createWholeProxy();
});
afterEach(() => proxy.close());

describe('a fill that breaks off', () => {
  it.each([0, 1, 1023, 1024, 5000, 9999])(
    'after %i bytes cuts off its readers, and is never stored as complete',
    async (count) => {
      const plain = proxy.send();
      const ahead = proxy.send({ fields: { range: 'bytes=-5' } });
      const exchange = await proxy.origin.next();
      exchange.head({ fields: { ...fields, 'content-length': String(size) } });
      expect(await plain.status()).toBe(200);
      expect(await ahead.status()).toBe(206);
      if (count > 0) await exchange.send(whole.subarray(0, count));
      expect(await plain.readUntil(count)).toEqual(Buffer.from(patternBytes(0, count)));
      exchange.fail(new ProxyError('origin_reset'));
      await expect(plain.bytes()).rejects.toMatchObject({ code: 'origin_reset' });
      await expect(ahead.bytes()).rejects.toMatchObject({ code: 'origin_reset' });
      await proxy.fillsEnded(1);
      expect(proxy.fillEvents()[0]).toMatchObject({ result: 'failed', bytes: count, error: 'origin_reset' });

      const again = proxy.send().bytes();
      (await proxy.origin.next()).respond({ fields }, whole);
      expect(await again).toEqual(Buffer.from(whole));
    },
  );

  it('before its Content-Length is never stored as complete', async () => {
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...fields, 'content-length': String(size) } });
    await exchange.send(whole.subarray(0, 9000));
    exchange.end();
    await expect(client.bytes()).rejects.toMatchObject({ code: 'origin_body_short' });
    await proxy.fillsEnded(1);
    const again = proxy.send({ fields: { range: 'bytes=9990-' } });
    (await proxy.origin.next()).respond({ fields }, whole);
    expect(await again.bytes()).toEqual(Buffer.from(patternBytes(9990, size)));
  });

  it('after its Content-Length gives only as many bytes as that', async () => {
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...fields, 'content-length': '10' } });
    void exchange.send(whole.subarray(0, 36));
    exchange.end();
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(0, 10)));
    await proxy.fillsEnded(1);
    expect(await proxy.send().bytes()).toEqual(Buffer.from(patternBytes(0, 10)));
  });

  it('gives a range that has arrived before that', async () => {
    const client = proxy.send({ fields: { range: 'bytes=0-99' } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...fields, 'content-length': String(size) } });
    await exchange.send(whole.subarray(0, 100));
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(0, 100)));
    exchange.fail(new ProxyError('origin_reset'));
    await proxy.fillsEnded(1);
  });
});

describe('a body of unknown length', () => {
  it('is served for a range with an explicit end as soon as its bytes are there (RFC 9110 §14.4)', async () => {
    const client = proxy.send({ fields: { range: 'bytes=10-19' } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields });
    await exchange.send(whole.subarray(0, 15));
    await exchange.send(whole.subarray(15, 20));
    expect(await client.status()).toBe(206);
    expect(await client.field('content-range')).toBe('bytes 10-19/*');
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(10, 20)));
  });

  it('is served for other ranges once its length is known', async () => {
    const ranges = ['bytes=9000-', 'bytes=-10', 'bytes=0-9,100-109', 'bytes=9990-20000', 'bytes=20000-20001'];
    const clients = ranges.map((range) => proxy.send({ fields: { range } }));
    const exchange = await proxy.origin.next();
    exchange.head({ fields });
    await exchange.send(whole);
    exchange.end();
    const contentRanges = await Promise.all(clients.map((client) => client.field('content-range')));
    expect(contentRanges).toEqual([
      `bytes 9000-9999/${size}`,
      `bytes 9990-9999/${size}`,
      undefined,
      `bytes 9990-9999/${size}`,
      `bytes */${size}`,
    ]);
    expect(await Promise.all(clients.map((client) => client.status()))).toEqual([206, 206, 206, 206, 416]);
  });

  it('lets `bytes=0-` wait for the length for a while, then is sent whole as it comes', async () => {
    const patient = proxy.send({ fields: { range: 'bytes=0-' } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields });
    await exchange.send(whole.subarray(0, 100));
    await expect.poll(() => proxy.clock.pending).toBe(1);
    proxy.clock.advance(10_000);
    expect(await patient.status()).toBe(200);
    expect(await patient.readUntil(100)).toEqual(Buffer.from(patternBytes(0, 100)));

    const lucky = proxy.send({ fields: { range: 'bytes=0-' } });
    await expect.poll(() => proxy.clock.pending).toBe(1);
    await exchange.send(whole.subarray(100));
    exchange.end();
    expect(await lucky.field('content-range')).toBe(`bytes 0-9999/${size}`);
    expect(await patient.bytes()).toEqual(Buffer.from(whole));
    expect(proxy.clock.pending).toBe(0);
  });

  it('is streamed without a length to a request without a range', async () => {
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields });
    await exchange.send(whole.subarray(0, 10));
    expect((await client.response).body).toMatchObject({ kind: 'stream', sizeBytes: undefined });
    await exchange.send(whole.subarray(10));
    exchange.end();
    expect(await client.bytes()).toEqual(Buffer.from(whole));
  });

  it('fails a waiting range when the fill breaks off', async () => {
    const client = proxy.send({ fields: { range: 'bytes=-10' } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields });
    await exchange.send(whole.subarray(0, 10));
    exchange.fail(new ProxyError('origin_body_short'));
    expect(await client.status()).toBe(502);
    expect(await client.field('proxy-status')).toBe('rangeway; error=http_response_incomplete');
  });

  it('that ends with its connection is relayed, not stored, under closeDelimited relay', async () => {
    await proxy.close();
    proxy = createWholeProxy({ route: { closeDelimited: 'relay' } });
    for (const seed of [1, 2]) {
      const client = proxy.send({ fields: { range: 'bytes=0-9' } });
      const exchange = await proxy.origin.next();
      exchange.head({ fields, framing: 'close' });
      void exchange.send(patternBytes(0, 100, seed));
      exchange.end();
      expect(await client.status()).toBe(200);
      expect(await client.bytes()).toEqual(Buffer.from(patternBytes(0, 100, seed)));
    }
    expect(proxy.fillEvents()).toEqual([]);
  });

  it('that ends with its connection in order is stored, and ranges are served before and after (RFC 9112 §8)', async () => {
    const early = proxy.send({ fields: { range: 'bytes=0-9' } });
    const client = proxy.send({ fields: { range: 'bytes=-10' } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields, framing: 'close' });
    void exchange.send(whole);
    exchange.end();
    expect(await client.field('content-range')).toBe(`bytes 9990-9999/${size}`);
    expect(await early.field('content-range')).toMatch(/^bytes 0-9\/(?:\*|10000)$/);
    await proxy.fillsEnded(1);
    const later = proxy.send({ fields: { range: 'bytes=500-' } });
    expect(await later.bytes()).toEqual(Buffer.from(patternBytes(500, size)));
    expect(proxy.origin.requests).toBe(1);
  });

  it.each(['origin_reset', 'origin_timeout', 'origin_tls_truncated'] as const)(
    'that ends with its connection by %s is not stored, and its readers are cut off',
    async (code) => {
      const client = proxy.send();
      const exchange = await proxy.origin.next();
      exchange.head({ fields, framing: 'close' });
      await exchange.send(whole);
      expect(await client.readUntil(size)).toEqual(Buffer.from(whole));
      exchange.fail(new ProxyError(code));
      await expect(client.bytes()).rejects.toMatchObject({ code });
      await proxy.fillsEnded(1);
      expect(proxy.fillEvents()[0]).toMatchObject({ result: 'failed', error: code });
      const again = proxy.send();
      (await proxy.origin.next()).respond({ fields }, whole);
      expect(await again.bytes()).toEqual(Buffer.from(whole));
    },
  );
});

describe('a response without validators', () => {
  const bare = { 'content-type': 'text/csv' };

  async function fill(body: Uint8Array, range?: string) {
    const ended = proxy.fillEvents().length + 1;
    const client = proxy.send(range === undefined ? {} : { fields: { range } });
    const exchange = await proxy.origin.next();
    expect(exchange.request.fields.map(([name]) => name)).not.toContain('if-none-match');
    exchange.respond({ fields: bare }, body);
    await client.bytes();
    await proxy.fillsEnded(ended);
    return await client.field('etag');
  }

  it('gets a strong tag made by Rangeway, on which ranges can rely', async () => {
    const tag = await fill(whole);
    expect(tag).toMatch(/^"rw-[\w-]+"$/);
    const client = proxy.send({ fields: { range: 'bytes=10-19', 'if-range': tag ?? '' } });
    expect(await client.status()).toBe(206);
    expect(await client.field('etag')).toBe(tag);
  });

  it('and without a lifetime is fetched again for requests without a range, and reused for ranges for a minute', async () => {
    await fill(whole);
    proxy.clock.advance(59_000);
    for (const range of ['bytes=0-9', 'bytes=5000-', 'bytes=-1']) {
      expect(await proxy.send({ fields: { range } }).status()).toBe(206);
    }
    expect(proxy.origin.requests).toBe(1);
    await fill(whole);
    expect(proxy.origin.requests).toBe(2);
    proxy.clock.advance(61_000);
    await fill(whole, 'bytes=0-9');
    expect(proxy.origin.requests).toBe(3);
  });

  it('keeps generation and tag when a refetch brings the same bytes', async () => {
    const tag = await fill(whole);
    await fill(whole);
    expect(proxy.fillEvents().map((event) => event.result)).toEqual(['stored', 'same']);
    const client = proxy.send({ fields: { range: 'bytes=0-9', 'if-range': tag ?? '' } });
    expect(await client.status()).toBe(206);
    expect(await client.field('etag')).toBe(tag);
  });

  it('gets a new tag when a refetch brings other bytes', async () => {
    const tag = await fill(whole);
    await fill(patternBytes(0, size, 2));
    const client = proxy.send({ fields: { range: 'bytes=0-9', 'if-range': tag ?? '' } });
    expect(await client.status()).toBe(200);
    expect(await client.field('etag')).not.toBe(tag);
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(0, size, 2)));
  });

  it('is fetched once for all clients that ask while it arrives', async () => {
    const first = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...bare, 'content-length': String(size) } });
    await exchange.send(whole.subarray(0, 10));
    await first.readUntil(10);
    const later = [proxy.send(), proxy.send({ fields: { range: 'bytes=9000-' } })];
    await exchange.send(whole.subarray(10));
    exchange.end();
    for (const client of later) await client.bytes();
    expect(proxy.origin.requests).toBe(1);
  });
});

describe('an origin that clients with cookies ask', () => {
  it('is asked once per client where it gives no lifetime, and no client gets the response of another', async () => {
    const clients = ['a', 'b', undefined].map((cookie) =>
      proxy.send(cookie === undefined ? {} : { fields: { cookie } }),
    );
    for (const _ of clients) {
      const exchange = await proxy.origin.next();
      const cookie = exchange.request.fields.find(([name]) => name === 'cookie')?.[1] ?? 'none';
      exchange.respond({}, Buffer.from(`for ${cookie}`));
    }
    const bodies = await Promise.all(clients.map(async (client) => String(await client.bytes())));
    expect(bodies).toEqual(['for a', 'for b', 'for none']);
    await proxy.fillsEnded(3);
    const range = proxy.send({ fields: { cookie: 'b', range: 'bytes=4-' } });
    expect(String(await range.bytes())).toBe('b');
    expect(proxy.origin.requests).toBe(3);
  });

  it('is asked once for all clients where it gives a lifetime', async () => {
    const clients = ['a', 'b'].map((cookie) => proxy.send({ fields: { cookie } }));
    (await proxy.origin.next()).respond({ fields: { 'cache-control': 'max-age=9' } }, whole);
    for (const client of clients) expect(await client.bytes()).toHaveLength(size);
    expect(proxy.origin.requests).toBe(1);
  });
});

describe('a body that the store cannot take', () => {
  it('is relayed where it is larger than an entry may be, and ranges are cut from it', async () => {
    await proxy.close();
    proxy = createWholeProxy({ maxSizeBytes: 64 * 1024 });
    const large = patternBytes(0, 200_000);
    const client = proxy.send({ fields: { range: 'bytes=100000-100009' } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...fields, 'content-length': String(large.length) } });
    void exchange.send(large);
    exchange.end();
    expect(await client.status()).toBe(206);
    expect(await client.field('content-range')).toBe('bytes 100000-100009/200000');
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(100_000, 100_010)));
    expect(exchange.isClosed).toBe(true);
  });

  it('is relayed for the rest where it outgrows the store, at the speed of its readers', async () => {
    await proxy.close();
    proxy = createWholeProxy({ maxSizeBytes: 64 * 1024 });
    const large = patternBytes(0, 500_000);
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields });
    let sent = 0;
    const sending = (async () => {
      for (; sent < large.length; sent += 1000) await exchange.send(large.subarray(sent, sent + 1000));
      exchange.end();
    })();
    await client.readUntil(300_000);
    expect(sent).toBeLessThan(320_000);
    expect(await client.bytes()).toEqual(Buffer.from(large));
    await sending;
    await proxy.fillsEnded(1);
    expect(proxy.fillEvents()[0]).toMatchObject({ result: 'relayed', bytes: 500_000 });
  });

  it('ends when its last reader leaves', async () => {
    await proxy.close();
    proxy = createWholeProxy({ maxSizeBytes: 64 * 1024 });
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields });
    void exchange.send(patternBytes(0, 500_000));
    await client.readUntil(200_000);
    await client.leave();
    await proxy.fillsEnded(1);
    expect(exchange.isClosed).toBe(true);
    expect(proxy.fillEvents()[0]).toMatchObject({ result: 'stopped' });
  });
});
