/**
 * Responses without an end: live streams that are known by their kind (SHOUTcast, cameras, server-sent events), which are passed on,
 * and those that look like any response of unknown length, which end with their last reader and are joined only while they begin.
 */

import { afterEach, describe, expect, it } from 'vitest';
import { settled } from '../support/clients/conversation.ts';
import type { FakeExchange } from '../support/origins/fake-origin.ts';
import {
  type Client,
  createWholeProxy,
  type WholeProxy,
  type WholeProxyOptions,
} from '../support/proxies/whole-proxy.ts';
import { patternBytes as patternSpan } from '../support/values/pattern-body.ts';

const second = 1000;

/** Bytes of a pattern from an offset on; zeros where they are many, because nothing looks at these. */
function patternBytes(offset: number, count: number, seed = 0): Uint8Array {
  return count > 100_000 ? new Uint8Array(count) : patternSpan(offset, offset + count, seed);
}

/** More than a stream brings in a second. */
const fastBytes = 1_100_000;

let proxy: WholeProxy;
afterEach(() => proxy.close());

function start(options: WholeProxyOptions = {}): void {
  proxy = createWholeProxy({ originRanges: 'auto', ...options });
}

/** Lets time pass, second by second, in which the origin sends `bytesPerSecond`; `from` is the offset of the first byte. */
async function flow(exchange: FakeExchange, from: number, seconds: number, bytesPerSecond: number): Promise<void> {
  for (let passed = 0; passed < seconds; passed += 1) {
    void exchange.send(patternBytes(from + passed * bytesPerSecond, bytesPerSecond));
    await settled();
    proxy.clock.advance(second);
    await settled();
  }
}

async function isAnswered(client: Client): Promise<boolean> {
  return (await Promise.race([client.status(), settled()])) !== undefined;
}

const kinds: readonly (readonly [name: string, fields: Record<string, string>])[] = [
  ['a SHOUTcast station', { 'content-type': 'audio/mpeg', 'icy-name': 'One', 'icy-br': '128' }],
  ['an Icecast station with an invented length', { 'content-length': '2147483647', 'ice-audio-info': 'bitrate=128' }],
  ['a live transcode with an invented length', { 'content-type': 'video/mp4', 'content-length': '2147483647' }],
  ['a camera', { 'content-type': 'multipart/x-mixed-replace; boundary=frame' }],
  ['server-sent events', { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' }],
];

describe.each(kinds)('%s', (_, fields) => {
  it.each(['bytes=0-', 'bytes=5000-', 'bytes=0-1', 'bytes=0-1073741822', 'bytes=-100', 'bytes=0-1,9-', undefined])(
    'is passed on from its live point at once, whatever the range (%s)',
    async (range) => {
      start();
      const client = proxy.send({ fields: range === undefined ? {} : { range } });
      const exchange = await proxy.origin.next();
      exchange.head({ fields });
      void exchange.send(patternBytes(0, 10));
      expect(await client.status()).toBe(200);
      expect(await client.field('accept-ranges')).toBeUndefined();
      expect(await client.field('content-range')).toBeUndefined();
      expect(await client.field('cache-status')).toContain('detail=stream');
      expect(await client.readUntil(10)).toEqual(Buffer.from(patternBytes(0, 10)));
      await client.leave();
      await settled();
      expect(exchange.isClosed).toBe(true);
    },
  );

  it('is not shared: each client has a transfer of its own, also those that waited for the head', async () => {
    start();
    const clients = [proxy.send(), proxy.send({ fields: { 'icy-metadata': '1' } })];
    (await proxy.origin.next()).head({ fields });
    (await proxy.origin.next()).head({ fields });
    for (const client of clients) expect(await client.status()).toBe(200);
    const third = proxy.send({ fields: { range: 'bytes=0-' } });
    const exchange = await proxy.origin.next();
    expect(exchange.request.fields).toContainEqual(['range', 'bytes=0-']);
    exchange.head({ fields });
    expect(await third.status()).toBe(200);
    await Promise.all([...clients, third].map((client) => client.leave()));
  });
});

describe('a stored response with blocks of metadata in its audio', () => {
  it('is only for requests with the same Icy-MetaData', async () => {
    start();
    const fields = { 'cache-control': 'max-age=60', 'icy-metaint': '16000' };
    const body = patternBytes(0, 100);
    for (const sent of [{ 'icy-metadata': '1' }, {}]) {
      const client = proxy.send({ fields: sent });
      (await proxy.origin.next()).respond({ fields }, body);
      await client.bytes();
      await settled();
      const again = proxy.send({ fields: sent });
      expect(await again.field('cache-status')).toContain('hit');
    }
  });
});

/** A stream that tells nothing of its kind. */
const untold = { 'content-type': 'audio/mpeg' };

describe('a body whose length is not known soon', () => {
  it.each([
    ['bytes=0-', 2],
    ['bytes=5000-', 5],
    ['bytes=-100', 5],
    ['bytes=0-1073741822', 5],
    ['bytes=0-1,9-', 5],
  ] as const)('is sent from its start where it comes as slowly as a stream: %s after %i s', async (range, seconds) => {
    start();
    const client = proxy.send({ fields: { range } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: untold });
    await flow(exchange, 0, seconds - 1, 40_000);
    expect(await isAnswered(client)).toBe(false);
    await flow(exchange, 40_000 * (seconds - 1), 1, 40_000);
    expect(await client.status()).toBe(200);
    expect(await client.field('content-length')).toBeUndefined();
    expect((await client.readUntil(50_000)).subarray(0, 50_000)).toEqual(Buffer.from(patternBytes(0, 50_000)));
    await client.leave();
  });

  it('is waited for while it comes faster than that, for as long as lengthWaitSeconds', async () => {
    start({ maxSizeBytes: 2 ** 32, blockSizeBytes: 256 * 1024 });
    const [inTime, tooLate] = ['/a', '/b'].map((target) => proxy.send({ target, fields: { range: 'bytes=0-' } }));
    const [a, b] = [await proxy.origin.next(), await proxy.origin.next()];
    for (const exchange of [a, b]) exchange.head({ fields: untold });
    for (let passed = 0; passed < 9; passed += 1) {
      for (const exchange of [a, b]) void exchange.send(patternBytes(passed * fastBytes, fastBytes));
      await settled();
      proxy.clock.advance(second);
      await settled();
    }
    expect(await isAnswered(inTime as Client)).toBe(false);
    a.end();
    expect(await inTime?.status()).toBe(206);
    expect(await inTime?.field('content-range')).toBe(`bytes 0-${9 * fastBytes - 1}/${9 * fastBytes}`);
    await flow(b, 9 * fastBytes, 1, fastBytes);
    expect(await tooLate?.status()).toBe(200);
    await tooLate?.leave();
  });

  it('is waited for by a range in its middle for six times as long', async () => {
    start({ maxSizeBytes: 2 ** 32, blockSizeBytes: 256 * 1024 });
    const client = proxy.send({ fields: { range: `bytes=${25 * fastBytes}-${25 * fastBytes + 9}` } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: untold });
    await flow(exchange, 0, 26, fastBytes);
    expect(await client.status()).toBe(206);
    expect(await client.field('content-range')).toBe(`bytes ${25 * fastBytes}-${25 * fastBytes + 9}/*`);
    expect(await client.bytes()).toHaveLength(10);
    exchange.end();
  });

  it('is waited for by a range of its first two bytes, because players ask for the length like this', async () => {
    start();
    const [file, stream] = ['/file', '/stream'].map((target) => proxy.send({ target, fields: { range: 'bytes=0-1' } }));
    const exchanges = [await proxy.origin.next(), await proxy.origin.next()] as const;
    for (const exchange of exchanges) exchange.head({ fields: untold });
    for (const exchange of exchanges) void exchange.send(patternBytes(0, 3000));
    await settled();
    expect(await isAnswered(file as Client)).toBe(false);
    exchanges[0].end();
    expect(await file?.field('content-range')).toBe('bytes 0-1/3000');
    proxy.clock.advance(2 * second);
    expect(await stream?.field('content-range')).toBe('bytes 0-1/*');
    expect(await stream?.bytes()).toEqual(Buffer.from(patternBytes(0, 2)));
    exchanges[1].end();
  });

  it('is sent from a byte on, as it comes about, where the client asks for live content (RFC 8673)', async () => {
    start();
    const client = proxy.send({ fields: { range: 'bytes=1000-9007199254740991' } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: untold });
    void exchange.send(patternBytes(0, 1000));
    await settled();
    expect(await isAnswered(client)).toBe(false);
    void exchange.send(patternBytes(1000, 100));
    expect(await client.status()).toBe(206);
    expect(await client.field('content-range')).toBe('bytes 1000-9007199254740991/*');
    expect(await client.field('content-length')).toBeUndefined();
    expect(await client.readUntil(100)).toEqual(Buffer.from(patternBytes(1000, 100)));
    void exchange.send(patternBytes(1100, 900));
    exchange.end();
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(1000, 1000)));
    await settled();
    const later = proxy.send({ fields: { range: 'bytes=1000-9007199254740991' } });
    expect(await later.field('content-range')).toBe('bytes 1000-1999/2000');
  });
});

/** Begins a transfer whose only client leaves after its first byte. */
async function leave(fields: Record<string, string>, sent: Record<string, string> = {}): Promise<FakeExchange> {
  const client = proxy.send({ fields: sent });
  const exchange = await proxy.origin.next();
  exchange.head({ fields });
  void exchange.send(patternBytes(0, 1000));
  await client.readUntil(1);
  await client.leave();
  await settled();
  return exchange;
}

describe('a transfer that nobody reads', () => {
  it('ends after ten seconds where its length is not known and it is no faster than a stream', async () => {
    start();
    const exchange = await leave(untold);
    await flow(exchange, 1000, 9, 40_000);
    expect(exchange.isClosed).toBe(false);
    await flow(exchange, 1000 + 9 * 40_000, 1, 40_000);
    expect(exchange.isClosed).toBe(true);
    await settled();
    expect(proxy.fillEvents()).toMatchObject([{ result: 'stopped', error: 'client_gone' }]);
  });

  it('ends after a minute where its length is not known, however fast it is', async () => {
    start({ maxSizeBytes: 2 ** 32, blockSizeBytes: 256 * 1024 });
    const exchange = await leave(untold);
    await flow(exchange, 1000, 59, fastBytes);
    expect(exchange.isClosed).toBe(false);
    await flow(exchange, 1000 + 59 * fastBytes, 1, fastBytes);
    expect(exchange.isClosed).toBe(true);
  });

  it('is stored where it ends before that', async () => {
    start();
    const exchange = await leave(untold);
    await flow(exchange, 1000, 9, 1000);
    exchange.end();
    await settled();
    expect(proxy.fillEvents()).toMatchObject([{ result: 'stored' }]);
    expect(proxy.clock.pending).toBe(0);
  });

  it('ends where its length is invented: the rest would take longer than an hour', async () => {
    start({ maxSizeBytes: 2 ** 32 });
    const exchange = await leave({ ...untold, 'content-length': '2147483647' });
    await flow(exchange, 1000, 10, 40_000);
    expect(exchange.isClosed).toBe(true);
  });

  it('goes on where the rest of a known length comes in time', async () => {
    start();
    const exchange = await leave({ ...untold, 'content-length': '1000000' });
    await flow(exchange, 1000, 60, 1000);
    expect(exchange.isClosed).toBe(false);
    exchange.end();
  });

  it('does not end while it has a reader again', async () => {
    start();
    const exchange = await leave({ ...untold, 'cache-control': 'max-age=100' });
    await flow(exchange, 1000, 5, 1000);
    const again = proxy.send();
    await again.readUntil(1);
    await flow(exchange, 6000, 30, 1000);
    expect(exchange.isClosed).toBe(false);
    await again.leave();
    await flow(exchange, 36_000, 20, 1000);
    expect(exchange.isClosed).toBe(true);
  });

  it('ends, too, where its clients asked for a few bytes only', async () => {
    start();
    const client = proxy.send({ fields: { range: 'bytes=10-19' } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: untold });
    void exchange.send(patternBytes(0, 1000));
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(10, 10)));
    await flow(exchange, 1000, 11, 40_000);
    expect(exchange.isClosed).toBe(true);
  });
});

describe('a response without any freshness', () => {
  it.each([{}, { range: 'bytes=0-' }])('is joined for five seconds after its head (%j)', async (fields) => {
    start();
    const first = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: untold });
    void exchange.send(patternBytes(0, 1000));
    await first.readUntil(1);
    proxy.clock.advance(5 * second - 1);
    const joined = proxy.send({ fields });
    await settled();
    expect(proxy.origin.requests).toBe(1);
    proxy.clock.advance(1);
    const third = proxy.send({ fields });
    const other = await proxy.origin.next();
    other.head({ fields: untold });
    void other.send(patternBytes(0, 10, 7));
    other.end();
    if ('range' in fields) proxy.clock.advance(2 * second);
    expect(await third.bytes()).toEqual(Buffer.from(patternBytes(0, 10, 7)));
    exchange.end();
    for (const client of [first, joined]) expect(await client.bytes()).toEqual(Buffer.from(patternBytes(0, 1000)));
  });

  it('is joined later by a client that wants bytes of its middle', async () => {
    start();
    const first = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: untold });
    void exchange.send(patternBytes(0, 1000));
    await first.readUntil(1);
    proxy.clock.advance(20 * second);
    const part = proxy.send({ fields: { range: 'bytes=500-509' } });
    expect(await part.bytes()).toEqual(Buffer.from(patternBytes(500, 10)));
    expect(proxy.origin.requests).toBe(1);
    exchange.end();
    await first.bytes();
  });
});
