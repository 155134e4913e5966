/** Reading ahead in partly stored entries, and in bodies that are still arriving. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { turn } from '../support/clocks/turn.ts';
import { createRangeOrigin, type RangeOrigin } from '../support/origins/range-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { createReadingStore, type ReadingStore } from '../support/stores/reading-store.ts';
import { createSteeredStore, type SteeredStore } from '../support/stores/steered-store.ts';
import { expectPart, expectUntil, expectWhole } from '../support/values/expect-bytes.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

/** Blocks have 1024 bytes: ten of them, the last with 784. */
const block = 1024;
const size = 10_000;

let steered: SteeredStore;
let store: ReadingStore;
let proxy: WholeProxy;
let origin: RangeOrigin;

function open(readAheadBytes = 64 * block): void {
  steered = createSteeredStore();
  store = createReadingStore(steered);
  proxy = createWholeProxy({ originRanges: 'auto', readAheadBytes, createStore: () => store });
  origin = createRangeOrigin(proxy.origin, { sizeBytes: size });
}

beforeEach(() => open());
afterEach(async () => {
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
  expect(steered.held).toBe(0);
});

const ranged = (range: string) => proxy.send({ fields: { range } });

/** Stores the blocks of each range. */
async function present(...ranges: readonly string[]): Promise<void> {
  for (const range of ranges) {
    const ended = proxy.fillEvents().length + 1;
    const client = ranged(range);
    await origin.give();
    await client.bytes();
    await proxy.fillsEnded(ended);
  }
  await turn();
  store.takeReads();
}

describe('a reader of a partly stored entry', () => {
  it('has the next block read while one is sent, up to the first absent block', async () => {
    await present('bytes=0-3071', 'bytes=4096-6143');
    const client = proxy.send();
    await expectUntil(client, 1);
    expect(store.takeReads()).toEqual([0, 1]);
    await expectUntil(client, 1025);
    expect(store.takeReads()).toEqual([2]);
    await expectUntil(client, 2049);
    expect(store.takeReads()).toEqual([]);
    const absent = await origin.begin();
    void absent.sendTo(3500);
    await expectUntil(client, 3073);
    expect(store.takeReads()).toEqual([4]);
    absent.finish();
    const last = origin.give();
    await expectWhole(client);
    await last;
    expect(store.takeReads().filter((index) => index === 4 || index === 5)).toEqual([5]);
    expect(origin.asked.slice(2)).toEqual(['bytes=3072-4095 if "v1"', 'bytes=6144- if "v1"']);
  });

  it('has no block read between its ranges', async () => {
    await present('bytes=0-5119');
    const client = ranged('bytes=0-1024,3072-3200,9000-9100');
    const last = origin.give();
    await client.bytes();
    await last;
    expect(store.takeReads().filter((index) => index < 5)).toEqual([0, 1, 3]);
  });

  it('gets a block from the origin, once, that turns out to be lost when it is read ahead', async () => {
    await present('bytes=0-4095');
    const client = proxy.send();
    await client.status();
    steered.loseBlock(1);
    await expectUntil(client, 1);
    expect(store.takeReads()).toEqual([0, 1]);
    await turn();
    const reading = client.bytes();
    await origin.give();
    await origin.give();
    await reading;
    await expectWhole(client);
    expect(origin.asked.slice(1)).toEqual(['bytes=1024-2047 if "v1"', 'bytes=4096- if "v1"']);
  });

  it('gets a block from the origin that turns out to be lost while the reader waits for it', async () => {
    await present('bytes=0-4095');
    const client = proxy.send();
    await expectUntil(client, 1);
    const release = store.holdReads();
    steered.loseBlock(2);
    await expectUntil(client, 1025);
    const reading = client.bytes();
    release();
    await origin.give();
    await origin.give();
    await reading;
    await expectWhole(client);
    expect(origin.asked.slice(1)).toEqual(['bytes=2048-3071 if "v1"', 'bytes=4096- if "v1"']);
  });

  it('that leaves gives its budget back once its blocks have been read, and holds nothing', async () => {
    await proxy.close();
    open(block);
    await present('bytes=0-4095');
    const leaving = proxy.send();
    await expectUntil(leaving, 1);
    const release = store.holdReads();
    await expectUntil(leaving, 1025);
    expect(store.takeReads()).toEqual([0, 1, 2]);
    await leaving.leave();
    await turn();
    expect(steered.held).toBe(0);
    const others = [proxy.send(), proxy.send()] as const;
    const pieces = others.map((other) => other.readUntil(1));
    await turn();
    expect(store.takeReads()).toEqual([0, 0]);
    release();
    await Promise.all(pieces);
    await turn();
    expect(store.takeReads()).toEqual([1]);
    origin.serve();
    await Promise.all(others.map((other) => expectWhole(other)));
  });
});

describe('a late reader of a body that is still arriving', () => {
  it('has its stored blocks read ahead, although the length is not known', async () => {
    const first = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { 'cache-control': 'max-age=60', etag: '"v1"' } });
    const whole = patternBytes(0, size);
    void exchange.send(whole.subarray(0, 3500));
    await expectUntil(first, 3500);
    store.takeReads();
    const late = proxy.send();
    await expectUntil(late, 1);
    expect(store.takeReads()).toEqual([0, 1]);
    await expectUntil(late, 3500);
    expect(store.takeReads()).toEqual([2]);
    void exchange.send(whole.subarray(3500));
    exchange.end();
    await Promise.all([expectWhole(first), expectWhole(late)]);
    const part = ranged('bytes=100-1100');
    await expectPart(part, 100, 1101);
  });
});
