/** Readers far ahead of a transfer: which get a transfer of their own, which wait, and what happens to transfers that meet. */

import { afterEach, describe, expect, it } from 'vitest';
import { turn } from '../support/clocks/turn.ts';
import { asWhole, createRangeOrigin, type RangeOrigin, type Transfer } from '../support/origins/range-origin.ts';
import {
  type Client,
  createWholeProxy,
  type WholeProxy,
  type WholeProxyOptions,
} from '../support/proxies/whole-proxy.ts';
import { expectPart, expectUntil, expectWhole } from '../support/values/expect-bytes.ts';

/** A hundred blocks of 1024 bytes. */
const size = 102_400;
const whole = { sizeBytes: size };

let proxy: WholeProxy;
let origin: RangeOrigin;
afterEach(async () => {
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
});

/** Starts a client without a range, and its transfer of the whole, of which 1024 bytes have arrived. */
async function begin(options: WholeProxyOptions = {}): Promise<{ plain: Client; first: Transfer }> {
  proxy = createWholeProxy({ originRanges: 'auto', ...options });
  origin = createRangeOrigin(proxy.origin, { sizeBytes: size });
  const plain = proxy.send();
  const first = await origin.begin();
  void first.sendTo(1024);
  await expectUntil(plain, 1024);
  return { plain, first };
}

const seek = (range: string) => proxy.send({ fields: { range } });

async function totalBytes(fills: number): Promise<number> {
  await proxy.fillsEnded(fills);
  return proxy.fillEvents().reduce((sum, { bytes }) => sum + bytes, 0);
}

describe('a reader ahead of a transfer', () => {
  it.each([
    ['bytes=1100-1200', 2048],
    ['bytes=3072-3100', 2048],
    ['bytes=6000-6100', 8192],
    ['bytes=9216-9300', 8192],
  ])('that wants %s, at most %i bytes ahead, waits', async (range, seekAheadBytes) => {
    const { first, plain } = await begin({ fill: { seekAheadBytes } });
    const near = seek(range);
    await turn();
    expect(proxy.origin.untaken).toBe(0);
    first.finish();
    const [start = 0, last = 0] = range.slice(6).split('-').map(Number);
    await expectPart(near, start, last + 1, whole);
    await expectWhole(plain, whole);
    expect(origin.asked).toEqual(['whole']);
  });

  it.each([
    ['bytes=3073-3100', 2048, 'bytes=3072-4095 if "v1"'],
    ['bytes=9217-9300', 8192, 'bytes=9216-10239 if "v1"'],
    ['bytes=1025-1030', 0, 'bytes=1024-2047 if "v1"'],
    ['bytes=50000-', 8192, 'bytes=49152- if "v1"'],
    ['bytes=-1', 8192, 'bytes=101376- if "v1"'],
  ])('that wants %s, more than %i bytes ahead, gets its own transfer: %s', async (range, seekAheadBytes, asked) => {
    const { first, plain } = await begin({ fill: { seekAheadBytes } });
    const far = seek(range);
    await origin.give();
    expect(await far.status()).toBe(206);
    const contentRange = await far.field('content-range');
    const [, start, last] = /bytes (\d+)-(\d+)/.exec(contentRange ?? '') ?? [];
    await expectPart(far, Number(start), Number(last) + 1, whole);
    expect(origin.asked).toEqual(['whole', asked]);
    first.finish();
    await expectWhole(plain, whole);
  });

  it('asks once, where it is not known whether the origin has ranges, for several readers', async () => {
    const { first, plain } = await begin({ fill: { seekAheadBytes: 2048 } });
    const far = [20_000, 40_000, 60_000].map((start) => seek(`bytes=${start}-${start + 99}`));
    const answer = await origin.take((reply) => asWhole(reply, size));
    await turn();
    expect(proxy.origin.untaken).toBe(0);
    answer();
    await turn();
    expect(proxy.origin.untaken).toBe(0);
    first.finish();
    for (const [at, client] of far.entries())
      await expectPart(client, 20_000 * (at + 1), 20_000 * (at + 1) + 100, whole);
    await expectWhole(plain, whole);
    expect(origin.asked).toEqual(['whole', 'bytes=19456-20479 if "v1"']);
  });

  it('gets its own transfer as soon as the answer to another shows that the origin has ranges', async () => {
    const { first, plain } = await begin({ fill: { seekAheadBytes: 2048 } });
    const far = [20_000, 40_000].map((start) => seek(`bytes=${start}-${start + 99}`));
    const answer = await origin.take();
    await turn();
    expect(proxy.origin.untaken).toBe(0);
    const second = expectPart(far[1] ?? expect.fail(), 40_000, 40_100, whole);
    const transfer = answer();
    await origin.give();
    await second;
    transfer.finish();
    await expectPart(far[0] ?? expect.fail(), 20_000, 20_100, whole);
    expect(origin.asked).toEqual(['whole', 'bytes=19456-20479 if "v1"', 'bytes=39936-40959 if "v1"']);
    first.finish();
    await expectWhole(plain, whole);
  });

  it('waits where the measured speed brings the bytes in time, and does not where it is too slow', async () => {
    // 1024 bytes in the first 100 ms: some 10 for each ms, 10,240 in a second.
    const { first, plain } = await begin({ fill: { seekAheadBytes: 2048, seekAheadMs: 1000 } });
    proxy.clock.advance(100);
    const near = seek('bytes=11000-11100');
    await turn();
    expect(proxy.origin.untaken).toBe(0);
    const far = seek('bytes=20000-20100');
    await origin.give();
    await expectPart(far, 20_000, 20_101, whole);
    // Ten times slower now.
    proxy.clock.advance(900);
    const slow = seek('bytes=5000-5100');
    await origin.give();
    await expectPart(slow, 5000, 5101, whole);
    expect(origin.asked).toEqual(['whole', 'bytes=19456-20479 if "v1"', 'bytes=4096-5119 if "v1"']);
    first.finish();
    await expectPart(near, 11_000, 11_101, whole);
    await expectWhole(plain, whole);
  });

  it('gets a transfer of its own after all when the transfer that it waits for stalls', async () => {
    const { first, plain } = await begin({ fill: { seekAheadBytes: 2048, seekAheadMs: 1000 } });
    proxy.clock.advance(100);
    const near = seek('bytes=11000-11100');
    const reading = near.bytes();
    await turn();
    expect(proxy.origin.untaken).toBe(0);
    proxy.clock.advance(1000);
    await origin.give();
    await reading;
    await expectPart(near, 11_000, 11_101, whole);
    expect(origin.asked).toEqual(['whole', 'bytes=10240-11263 if "v1"']);
    first.finish();
    await expectWhole(plain, whole);
  });

  it('waits where another reader has a transfer near by', async () => {
    const { first, plain } = await begin();
    const far = seek('bytes=50000-');
    const second = await origin.begin();
    void second.sendTo(50_100);
    await far.readUntil(100);
    const companions = [seek('bytes=50050-50149'), seek('bytes=51000-51999')];
    await turn();
    expect(proxy.origin.untaken).toBe(0);
    second.finish();
    await expectPart(companions[0] ?? expect.fail(), 50_050, 50_150, whole);
    await expectPart(companions[1] ?? expect.fail(), 51_000, 52_000, whole);
    first.finish();
    await expectWhole(plain, whole);
  });

  it('waits for the other transfer where its own fails', async () => {
    const { first, plain } = await begin();
    const far = seek('bytes=50000-');
    (await origin.begin()).cutAt(49_152);
    await proxy.fillsEnded(1);
    first.finish();
    await expectPart(far, 50_000, size, whole);
    await expectWhole(plain, whole);
    expect(origin.asked).toHaveLength(2);
  });
});

describe('transfers that meet', () => {
  it('merge: the earlier one ends where the later one began, and no byte is fetched twice', async () => {
    const { first, plain } = await begin();
    const far = seek('bytes=50000-');
    const second = await origin.begin();
    const reading = Promise.all([plain.bytes(), far.bytes()]);
    void second.sendTo(60_000);
    void first.sendTo(49_152);
    await proxy.fillsEnded(1);
    expect(first.exchange.isClosed).toBe(true);
    second.finish();
    await reading;
    await expectWhole(plain, whole);
    await expectPart(far, 50_000, size, whole);
    expect(await totalBytes(2)).toBe(size);
    expect(proxy.fillEvents().map(({ result }) => result)).toEqual(['kept', 'stored']);
    const { requests } = proxy.origin;
    await expectWhole(proxy.send(), whole);
    expect(proxy.origin.requests).toBe(requests);
  });

  it('merge even when the later one has ended', async () => {
    const { first, plain } = await begin();
    const far = seek('bytes=50000-');
    await origin.give();
    await expectPart(far, 50_000, size, whole);
    const reading = plain.bytes();
    void first.sendTo(49_152);
    await reading;
    await expectWhole(plain, whole);
    expect(first.exchange.isClosed).toBe(true);
    expect(await totalBytes(2)).toBe(size);
  });

  it('do not stop for a few stored blocks, because another request would cost more', async () => {
    const { first, plain } = await begin({ fill: { seekAheadBytes: 4096 } });
    const far = seek('bytes=50000-50100');
    await origin.give();
    await expectPart(far, 50_000, 50_101, whole);
    first.finish();
    await expectWhole(plain, whole);
    expect(origin.asked).toEqual(['whole', 'bytes=49152-50175 if "v1"']);
    expect(await totalBytes(2)).toBe(size + 1024);
  });

  it('stop before a long stored run, and go on behind it where a reader wants the bytes', async () => {
    const { first, plain } = await begin({ fill: { seekAheadBytes: 4096 } });
    const far = seek('bytes=50000-59999');
    await origin.give();
    await expectPart(far, 50_000, 60_000, whole);
    const reading = plain.bytes();
    void first.sendTo(49_152);
    await proxy.fillsEnded(2);
    expect(first.exchange.isClosed).toBe(true);
    await origin.give();
    await reading;
    await expectWhole(plain, whole);
    expect(origin.asked).toEqual(['whole', 'bytes=49152-60415 if "v1"', 'bytes=60416- if "v1"']);
    expect(await totalBytes(3)).toBe(size);
  });

  it('end where the next transfer has begun', async () => {
    const { first, plain } = await begin({ fill: { seekAheadBytes: 4096 } });
    const last = seek('bytes=80000-');
    const third = await origin.begin();
    const middle = seek('bytes=50000-');
    const reading = Promise.all([plain.bytes(), last.bytes(), middle.bytes()]);
    const second = await origin.begin();
    expect(origin.asked.slice(1)).toEqual(['bytes=79872- if "v1"', 'bytes=49152-79871 if "v1"']);
    third.finish();
    second.finish();
    void first.sendTo(49_152);
    await reading;
    await expectPart(middle, 50_000, size, whole);
    await expectWhole(plain, whole);
    expect(await totalBytes(3)).toBe(size);
  });
});

describe('a reader far ahead at a legacy origin', () => {
  it('asks for a part, drops the whole that it gets, and waits for the running transfer', async () => {
    const { first, plain } = await begin();
    origin.file = { ...origin.file, hasRanges: false };
    const far = seek('bytes=50000-50099');
    const second = await origin.begin();
    await turn();
    expect(second.exchange.isClosed).toBe(true);
    first.finish();
    await expectPart(far, 50_000, 50_100, whole);
    await expectWhole(plain, whole);
    expect(await totalBytes(2)).toBe(size);
    // No other part is requested: the origin is known to have no ranges.
    expect(origin.asked).toEqual(['whole', 'bytes=49152-50175 if "v1"']);
  });

  it('does not end the running transfer before the requested bytes have arrived', async () => {
    const { first, plain } = await begin();
    origin.file = { ...origin.file, hasRanges: false };
    const far = seek('bytes=50000-');
    const answerFar = await origin.take();
    void first.sendTo(60_000);
    await plain.readUntil(60_000);
    const second = answerFar();
    first.finish();
    await expectWhole(plain, whole);
    await expectPart(far, 50_000, size, whole);
    expect(second.exchange.isClosed).toBe(true);
    expect(await totalBytes(2)).toBe(size);
  });

  it('gets its head when the whole begins to arrive instead of the part, and its bytes later', async () => {
    const { first, plain } = await begin();
    origin.file = { ...origin.file, hasRanges: false };
    const far = seek('bytes=50000-50099');
    const answerFar = await origin.take();
    first.cutAt(1024);
    await proxy.fillsEnded(1);
    const second = answerFar();
    void second.sendTo(1);
    expect(await far.status()).toBe(206);
    second.finish();
    await expectPart(far, 50_000, 50_100, whole);
    await plain.leave();
  });

  it.each<[string, WholeProxyOptions, Record<string, string>]>([
    ['known as such', { originRanges: 'never' }, { etag: '"v1"' }],
    ['without a strong validator', { originRanges: 'auto' }, { etag: 'W/"v1"' }],
  ])('%s waits', async (_name, options, validator) => {
    proxy = createWholeProxy(options);
    const fields = { 'cache-control': 'max-age=60', ...validator };
    origin = createRangeOrigin(proxy.origin, { sizeBytes: size, fields });
    const plain = proxy.send();
    const first = await origin.begin();
    const far = [seek('bytes=50000-50099'), seek('bytes=-100')];
    await turn();
    expect(proxy.origin.untaken).toBe(0);
    first.finish();
    await expectPart(far[0] ?? expect.fail(), 50_000, 50_100, whole);
    await expectPart(far[1] ?? expect.fail(), size - 100, size, whole);
    await expectWhole(plain, whole);
    expect(origin.asked).toEqual(['whole']);
  });
});
