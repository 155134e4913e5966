/** Bodies of one block in a file: when they are in memory, and how they are otherwise read in the same tick. */

import { describe, expect, it } from 'vitest';
import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { flipBit } from '../support/stores/damage.ts';
import { bodyFiles, openTestStore } from '../support/stores/disk-store.ts';
import { SteeredReads } from '../support/stores/quick-reads.ts';
import { findFirst, openSampleWriter, sampleMetadata, storeSample } from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const KiB = 1024;
const block = 256 * KiB;
const lone = { key: 'k', sizeBytes: 64 * KiB, seed: 3 };
const right = (start: number, end: number) => Buffer.from(patternBytes(start, end, lone.seed));
/** Checks that bytes are those from `start` up to `end`, without a slow diff of the bytes in a failure. */
const areRight = (bytes: Uint8Array | undefined, start: number, end: number) =>
  bytes !== undefined && right(start, end).equals(bytes);

/** Opens a disk store with a body of one block, and a memory tier in front of it. */
async function storeWithLone() {
  const reads = new SteeredReads();
  const opened = await openTestStore({ blockSizeBytes: block, quickReads: reads.options });
  const store = createTieredStore(createMemoryTier({ maxSizeBytes: 16 * block }), opened.store, () => 0);
  const entry = await storeSample(store, lone);
  const [body = ''] = await bodyFiles(opened.dir);
  return { ...opened, below: opened.store, store, reads, entry, body };
}

describe('memory, after a body was written, has', () => {
  it.each<[name: string, sizeBytes: number, isKept: boolean]>([
    ['a small body, which is in its row', 32 * KiB, true],
    ['no body of one block', 32 * KiB + 1, false],
    ['no body of a whole block', block, false],
    ['the blocks of a longer body', block + 1, true],
  ])('%s', async (_name, size, isKept) => {
    const { store } = await storeWithLone();
    const entry = await storeSample(store, { ...lone, key: 'other', sizeBytes: size });
    expect(entry.peekBlock(0) !== undefined).toBe(isKept);
  });

  it('a body of one block until its writer is disposed', async () => {
    const { store } = await storeWithLone();
    await using writer = await openSampleWriter(store, { ...lone, key: 'other' });
    await writer.writeBlock(0, right(0, lone.sizeBytes));
    expect(areRight(writer.peekBlock(0), 0, lone.sizeBytes)).toBe(true);
    await writer.commit({ metadata: sampleMetadata(), sizeBytes: lone.sizeBytes });
    expect(areRight(writer.peekBlock(0), 0, lone.sizeBytes)).toBe(true);
  });
});

describe('a body of one block that is not in memory', () => {
  it('is read as a whole, and is in memory from then on', async () => {
    const { entry, reads } = await storeWithLone();
    expect(areRight(entry.readNow?.(5, 70_000), 5, lone.sizeBytes)).toBe(true);
    expect([reads.count, reads.bytes]).toEqual([1, lone.sizeBytes]);
    expect(areRight(entry.peekBlock(0), 0, lone.sizeBytes)).toBe(true);
  });

  it('is read in a process that has not written it', async () => {
    const { store, dir, reads } = await storeWithLone();
    await store.close();
    const later = await openTestStore({ dir, blockSizeBytes: block, quickReads: reads.options });
    const entry = await findFirst(later.store, 'k');
    expect(areRight(entry?.readBlockNow?.(0), 0, lone.sizeBytes)).toBe(true);
  });

  it('is not read as a whole while a reader has its file open', async () => {
    const { below, reads } = await storeWithLone();
    const entry = await findFirst(below, 'k');
    const reader = await entry?.open();
    expect([entry?.readBlockNow?.(0), reads.count]).toEqual([undefined, 0]);
    expect(areRight(entry?.readNow?.(1, 2), 1, 2)).toBe(true);
    reader?.close();
  });

  it('is not read in the same tick after slow reads', async () => {
    const { below, reads } = await storeWithLone();
    reads.readMs = 65;
    reads.diskReads = 1;
    const entry = await findFirst(below, 'k');
    expect(entry?.readBlockNow?.(0)).toBeDefined();
    expect(entry?.readBlockNow?.(0)).toBeUndefined();
  });

  it.each<[name: string, index: number]>([
    ['before the first one', -1],
    ['after the only one', 1],
  ])('has no block %s', async (_name, index) => {
    const { below } = await storeWithLone();
    expect((await findFirst(below, 'k'))?.readBlockNow?.(index)).toBeUndefined();
  });

  it('is not returned where reads fail', async () => {
    const { entry, reads } = await storeWithLone();
    reads.isBroken = true;
    expect(entry.readNow?.(0, 10)).toBeUndefined();
    expect(entry.peekBlock(0)).toBeUndefined();
  });

  it('is not read after its removal, though its file may still exist', async () => {
    const { below, reads } = await storeWithLone();
    const entry = await findFirst(below, 'k');
    if (entry !== undefined) await below.removeEntry(entry);
    expect([entry?.readBlockNow?.(0), reads.count]).toEqual([undefined, 0]);
  });

  it('is not returned when it is damaged, which the next reader reports', async () => {
    const { store, entry, body, events } = await storeWithLone();
    await flipBit(body, 70);
    expect([entry.readNow?.(0, 10), entry.peekBlock(0), events]).toEqual([undefined, undefined, []]);
    const reader = await entry.open();
    await expect(reader.readBlock(0)).rejects.toMatchObject({ code: 'bytes_gone' });
    reader.close();
    expect(events).toHaveLength(1);
    expect(await findFirst(store, 'k')).toBeUndefined();
  });

  it('keeps its buffer: later reads use another', async () => {
    const { store, entry } = await storeWithLone();
    const bytes = entry.readNow?.(0, lone.sizeBytes);
    if (bytes !== undefined) entry.giveBack?.(bytes);
    const other = await storeSample(store, { ...lone, key: 'other', seed: 9 });
    other.readNow?.(0, lone.sizeBytes);
    expect(areRight(bytes, 0, lone.sizeBytes)).toBe(true);
    expect(areRight(entry.peekBlock(0), 0, lone.sizeBytes)).toBe(true);
  });
});
