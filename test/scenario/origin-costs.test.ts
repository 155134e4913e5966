/** Bytes that an origin with ranges gives when downloaders and players read an absent file: little more than they read. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createRangeOrigin, type RangeOrigin, type Transfer } from '../support/origins/range-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { expectPart, expectUntil } from '../support/values/expect-bytes.ts';
import { selectedWire } from '../support/wire/wire.ts';

const block = 1024;
/** 256 blocks. */
const size = 256 * block;
const whole = { sizeBytes: size };
/** Bytes that a seek may cost besides those read. Over a socket a leave is noticed late, after one more block was requested. */
const seekBytes = selectedWire() === undefined ? block : 2 * block;

/** Bytes that are under way at a time: a connection with small buffers. */
const wireBytes = 512;

let proxy: WholeProxy;
let origin: RangeOrigin;
/** Bytes that the origin has sent. */
let sentBytes: number;
beforeEach(() => {
  proxy = createWholeProxy({ originRanges: 'auto', fill: { openRanges: 'grow', seekAheadBytes: 8 * block } });
  origin = createRangeOrigin(proxy.origin, whole);
  sentBytes = 0;
  void serve();
});
afterEach(() => proxy.close());

const ask = (range: string, target = '/file') => proxy.send({ target, fields: { range } });

/** Answers all requests. Each transfer sends further bytes when the last ones were taken. */
async function serve(): Promise<void> {
  for (;;) {
    let end = 0;
    let at = 0;
    const transfer = await origin.begin((honest) => {
      ({ start: at, end } = honest.span);
      return honest;
    });
    void send(transfer, at, end);
  }
}

async function send(transfer: Transfer, start: number, end: number): Promise<void> {
  for (let at = start; at < end; at += wireBytes) {
    sentBytes += Math.min(end, at + wireBytes) - at;
    await transfer.sendTo(Math.min(end, at + wireBytes));
  }
  transfer.finish();
}

/** Shows that the origin gives parts that can be joined. */
async function joinParts(): Promise<void> {
  await expectPart(ask('bytes=0-9', '/other'), 0, 10, whole);
  await expectPart(ask('bytes=9000-9009', '/other'), 9000, 9010, whole);
  sentBytes = 0;
}

const askedSince = (from: number) => origin.asked.slice(from);

describe('an absent file at an origin with ranges', () => {
  it('is fetched once for a downloader that probes it first and then reads eight parts at a time', async () => {
    const look = ask('bytes=1-');
    await look.readUntil(10);
    await look.leave();
    const part = size / 8;
    const starts = Array.from({ length: 8 }, (_, index) => index * part);
    const clients = starts.map((start) => ask(`bytes=${start}-${start + part - 1}`));
    await Promise.all(clients.map((client, index) => expectPart(client, index * part, (index + 1) * part, whole)));
    // Over a socket a leave is noticed late: the span that was requested meanwhile is requested again.
    expect(sentBytes).toBeLessThanOrEqual(size + 2 * block);
    expect(origin.asked.length).toBeLessThanOrEqual(11);
  });

  it.each([
    ['12 blocks at a time', 12 * block, false],
    ['100 bytes at a time', 100, false],
    ['a fifth of it at a time', size / 5, false],
    ['12 blocks at a time', 12 * block, true],
    ['100 bytes at a time', 100, true],
    ['a fifth of it at a time', size / 5, true],
  ])(
    'costs a player that reads the head, the tail and places in between, %s, the bytes read and a block per seek (parts joined before: %s)',
    async (_name, readBytes, isJoined) => {
      if (isJoined) await joinParts();
      const before = origin.asked.length;
      const starts = [0, size - 3000, 100_000, 30_000, 200_000];
      const read = new Set<number>();
      for (const start of starts) {
        const end = Math.min(size, start + readBytes);
        const client = ask(`bytes=${start}-`);
        await client.readUntil(end - start);
        await client.leave();
        for (let byte = start; byte < end; byte += 1) read.add(byte);
      }
      expect(sentBytes).toBeLessThanOrEqual(1.05 * read.size + starts.length * (seekBytes + 2 * wireBytes));
      expect(askedSince(before).at(0)).toBe(isJoined ? `bytes=0-${block - 1}` : 'bytes=0-');
    },
  );

  it('is requested once, and each byte sent once, when one client reads all of it', async () => {
    await expectPart(ask('bytes=0-'), 0, size, whole);
    expect(origin.asked).toEqual(['bytes=0-']);
    expect(sentBytes).toBe(size);
  });

  it('is requested in growing spans, each byte once, when parts have been joined', async () => {
    await joinParts();
    await expectPart(ask('bytes=0-'), 0, size, whole);
    const sizes = askedSince(2).map((asked) => {
      const [, first, last] = /^bytes=(\d+)-(\d+)/.exec(asked) ?? [];
      return (Number(last) + 1 - Number(first)) / block;
    });
    expect(sizes.slice(0, 4)).toEqual([1, 1, 1, 1]);
    expect(sizes.at(-2)).toBeGreaterThan(8);
    expect(sentBytes).toBe(size);
    expect(askedSince(2).length).toBeLessThan(90);
  });

  it('is requested in longer spans where the origin answers slowly', async () => {
    await proxy.close();
    proxy = createWholeProxy({ originRanges: 'always', fill: { openRanges: 'grow', seekAheadBytes: 8 * block } });
    origin = createRangeOrigin(proxy.origin, whole);
    const reading = expectPart(ask('bytes=0-'), 0, size, whole);
    let takenBytes = 0;
    while (takenBytes < size) {
      const answer = await origin.take((honest) => {
        takenBytes += honest.span.end - honest.span.start;
        return honest;
      });
      proxy.clock.advance(50);
      answer().finish();
    }
    await reading;
    expect(takenBytes).toBe(size);
    expect(origin.asked.length).toBeLessThan(45);
  });

  it('is fetched once for a client that leaves and then reads it again', async () => {
    const first = ask('bytes=0-');
    await expectUntil(first, 20 * block);
    await first.leave();
    await expectPart(ask('bytes=0-'), 0, size, whole);
    expect(sentBytes).toBeLessThanOrEqual(1.05 * size);
  });

  it('is asked for no byte twice by a browser that seeks: it drops each request and asks again some milliseconds later', async () => {
    await proxy.close();
    proxy = createWholeProxy({
      originRanges: 'always',
      fill: { openRanges: 'grow', seekAheadBytes: 8 * block, returnMs: 500 },
    });
    origin = createRangeOrigin(proxy.origin, whole);
    void serve();
    const last = size - 1;
    // As Chromium reads a film whose index is at its start, with seeks to three quarters, a tenth, the end and the middle.
    const seeks: readonly (readonly [first: number, last: number | undefined, readBytes: number])[] = [
      [0, undefined, 20 * block],
      [192 * block, last, 1000],
      [192 * block, last, 3 * block],
      [20 * block + 300, 192 * block - 1, 700],
      [20 * block + 300, 192 * block - 1, 10 * block],
      [195 * block, last, 100],
      [248 * block + 5, last, size - 248 * block - 5],
      [128 * block + 9, 192 * block - 1, 100],
      [128 * block + 9, 192 * block - 1, 64 * block - 9],
    ];
    const read = new Set<number>();
    for (const [first, end, readBytes] of seeks) {
      const client = ask(`bytes=${first}-${end ?? ''}`);
      await client.readUntil(readBytes);
      await client.leave();
      for (let byte = first; byte < first + readBytes; byte += 1) read.add(byte);
      proxy.clock.advance(10);
    }
    const starts = origin.asked.map((asked) => /^bytes=(\d+)-/.exec(asked)?.[1]);
    expect(new Set(starts).size).toBe(starts.length);
    const seekCount = new Set(seeks.map(([first]) => first)).size;
    expect(sentBytes).toBeLessThanOrEqual(1.05 * read.size + seekCount * (seekBytes + 2 * wireBytes));
  });

  it('is requested at once for a range with an explicit end', async () => {
    await expectPart(ask(`bytes=2000-${size - 1000}`), 2000, size - 999, whole);
    expect(origin.asked).toEqual([`bytes=1024-${size - 1}`]);
  });
});

describe('an origin without ranges', () => {
  it('is asked once all the same', async () => {
    origin.file = { ...origin.file, hasRanges: false };
    const client = ask('bytes=0-');
    expect((await client.bytes()).length).toBe(size);
    expect(origin.asked).toEqual(['bytes=0-']);
  });
});
