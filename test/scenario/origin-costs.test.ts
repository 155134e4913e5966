/** What an origin with ranges is asked for when downloaders and players read a file that is not stored: little more than they read. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { expectPart, expectUntil } from '../support/expect-bytes.ts';
import { createRangeOrigin, type RangeOrigin } from '../support/range-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/whole-proxy.ts';

const block = 1024;
/** 256 blocks. */
const size = 256 * block;
const whole = { sizeBytes: size };

let proxy: WholeProxy;
let origin: RangeOrigin;
beforeEach(() => {
  proxy = createWholeProxy({ originRanges: 'auto', fill: { openRanges: 'grow', seekAheadBytes: 8 * block } });
  origin = createRangeOrigin(proxy.origin, whole);
  origin.serve();
});
afterEach(() => proxy.close());

const ask = (range: string) => proxy.send({ fields: { range } });

/** The bytes of all spans that the origin was asked for: what a fast origin sends, whenever the client leaves. */
function askedBytes(): number {
  return origin.asked.reduce((sum, asked) => {
    const [, first = '0', last = String(size - 1)] = /^bytes=(\d+)-(\d*)/.exec(asked) ?? [];
    return sum + Math.min(size, last === '' ? size : Number(last) + 1) - Number(first);
  }, 0);
}

describe('a file that is not stored, at an origin with ranges', () => {
  it('is fetched once for a downloader that looks at it first and then reads eight parts at a time', async () => {
    const look = ask('bytes=1-');
    await look.readUntil(10);
    await look.leave();
    const part = size / 8;
    const starts = Array.from({ length: 8 }, (_, index) => index * part);
    const clients = starts.map((start) => ask(`bytes=${start}-${start + part - 1}`));
    await Promise.all(clients.map((client, index) => expectPart(client, index * part, (index + 1) * part, whole)));
    // A leave that a socket carries is noticed late: the span that was asked for meanwhile is asked for again.
    expect(askedBytes()).toBeLessThanOrEqual(size + 2 * block);
    expect(origin.asked.length).toBeLessThanOrEqual(11);
  });

  it('costs a player that reads the head, the tail and a place in the middle twice that at most, and a block for each seek', async () => {
    const read = 12 * block;
    const head = ask('bytes=0-');
    await expectUntil(head, read);
    await head.leave();
    const tail = ask(`bytes=${size - 3000}-`);
    await expectPart(tail, size - 3000, size, whole);
    const middle = ask('bytes=100000-');
    await middle.readUntil(read);
    await middle.leave();
    expect(askedBytes()).toBeLessThanOrEqual(2 * (read + 3000 + read) + 3 * block);
    expect(origin.asked.at(0)).toBe(`bytes=0-${block - 1}`);
  });

  it('is asked for in spans that grow, each byte once, when one client reads all of it', async () => {
    await expectPart(ask('bytes=0-'), 0, size, whole);
    const [first, second, third, fourth] = origin.asked.map((asked) => asked.replace(/ if .*/, ''));
    expect([first, second, third, fourth]).toEqual([
      'bytes=0-1023',
      'bytes=1024-2047',
      'bytes=2048-4095',
      'bytes=4096-8191',
    ]);
    expect(askedBytes()).toBe(size);
    expect(origin.asked.length).toBeLessThan(40);
  });

  it('is fetched once for a client that comes back to where it was', async () => {
    const first = ask('bytes=0-');
    await expectUntil(first, 20 * block);
    await first.leave();
    await expectPart(ask('bytes=0-'), 0, size, whole);
    expect(askedBytes()).toBeLessThanOrEqual(1.05 * size);
  });

  it('is asked for at once where a client names the end', async () => {
    await expectPart(ask(`bytes=2000-${size - 1000}`), 2000, size - 999, whole);
    expect(origin.asked).toEqual([`bytes=1024-${size - 1}`]);
  });

  it('is asked for the next span before its reader needs it', async () => {
    const client = ask('bytes=0-');
    await client.readUntil(7 * block);
    await expect.poll(() => origin.asked.at(4)).toBe(`bytes=${8 * block}-${16 * block - 1} if "v1"`);
    await client.leave();
  });
});

describe('an origin without ranges', () => {
  it('is asked once all the same', async () => {
    origin.file = { ...origin.file, hasRanges: false };
    const client = ask('bytes=0-');
    expect((await client.bytes()).length).toBe(size);
    expect(origin.asked).toEqual([`bytes=0-${block - 1}`]);
  });
});
