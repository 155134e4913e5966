/** Stored entries read from the disk: the cost of a range, and what a reader that leaves early leaves behind. */

import { describe, expect, it } from 'vitest';
import type { Span } from '../../src/bytes/span.ts';
import type { Representation } from '../../src/cache/answer.ts';
import { ByteBudget } from '../../src/cache/read/read-ahead.ts';
import { createStoredRepresentation } from '../../src/cache/read/stored-representation.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { type DiskStoreInTest, openTestStore } from '../support/stores/disk-store.ts';
import { FailingFileSystem } from '../support/stores/failing-file-system.ts';
import { SteeredReads } from '../support/stores/quick-reads.ts';
import { findFirst, storePart, storeSample } from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const block = 64 * 1024;
const signal = new AbortController().signal;

async function openOnDisk(): Promise<
  DiskStoreInTest & { readonly disk: FailingFileSystem; readonly budget: ByteBudget }
> {
  const disk = new FailingFileSystem();
  const opened = await openTestStore({
    fileSystem: disk.fileSystem,
    blockSizeBytes: block,
    maxSizeBytes: Number.MAX_SAFE_INTEGER,
  });
  return { ...opened, disk, budget: new ByteBudget(64 * block) };
}

async function readSpan(representation: Representation, span: Span): Promise<Buffer> {
  const reader = await representation.open([span], signal);
  const chunks: Uint8Array[] = [];
  for (let offset = span.start; offset < span.end; offset += chunks.at(-1)?.length ?? 0) {
    chunks.push(reader.peek(offset, span.end) ?? (await reader.read(offset, span.end)) ?? new Uint8Array());
  }
  reader.close();
  return Buffer.concat(chunks);
}

/** Damaged bytes are not replaced. */
const mend = () => Promise.reject(new ProxyError('bytes_gone'));

describe('a range within one block', () => {
  const rangeBytes = 1000;
  const places: readonly [string, number, number][] = [
    ['at the start of 16 blocks', 16, 0],
    ['at the end of 16 blocks', 16, 15],
    ['at the start of 40 000 blocks', 40_000, 0],
    ['in the middle of 40 000 blocks', 40_000, 20_000],
    ['at the end of 40 000 blocks', 40_000, 39_999],
  ];
  it.each(places)('%s costs two opened files, two reads, and little more than its block', async (_, count, index) => {
    const { store, disk, budget } = await openOnDisk();
    // The last block makes the files as long as those of a complete entry.
    const entry = await storePart(store, { key: 'k', sizeBytes: count * block, seed: 1 }, new Set([index, count - 1]));
    const start = index * block + 10;
    const span = { start, end: start + rangeBytes };
    const representation = createStoredRepresentation(entry, { blockSizeBytes: block, budget }, mend);
    expect(await readSpan(representation, span)).toEqual(Buffer.from(patternBytes(start, span.end, 1)));
    expect(disk).toMatchObject({ opens: 2, reads: 2 });
    expect(disk.bytesRead).toBeLessThanOrEqual(block + 4096);
  });

  it('of a large entry that is already open costs one more read', async () => {
    const { store, disk, budget } = await openOnDisk();
    const entry = await storePart(store, { key: 'k', sizeBytes: 40_000 * block, seed: 1 }, [30_000, 30_001, 39_999]);
    const representation = createStoredRepresentation(entry, { blockSizeBytes: block, budget }, mend);
    const other = await representation.open([{ start: 30_000 * block, end: 30_000 * block + 1 }], signal);
    await readSpan(representation, { start: 30_001 * block, end: 30_001 * block + 1 });
    other.close();
    expect(disk).toMatchObject({ opens: 2, reads: 3 });
  });
});

describe('a body in the page cache', () => {
  const sizeBytes = 8 * block + 5;

  it('is read into one buffer, without the thread pool, where the reader gives the buffer back', async () => {
    const reads = new SteeredReads();
    const disk = new FailingFileSystem();
    const { store } = await openTestStore({
      fileSystem: disk.fileSystem,
      blockSizeBytes: block,
      quickReads: reads.options,
    });
    const entry = await storeSample(store, { key: 'k', sizeBytes, seed: 1 });
    const budget = new ByteBudget(64 * block);
    const representation = createStoredRepresentation(entry, { blockSizeBytes: block, budget }, mend);
    const span = { start: 7, end: sizeBytes };
    const reader = await representation.open([span], signal);
    const buffers = new Set<ArrayBufferLike>();
    for (let offset = span.start; offset < span.end; ) {
      const bytes = reader.peek(offset, span.end);
      if (bytes === undefined) throw new Error('not there');
      expect(bytes.length).toBeGreaterThan(0);
      expect(Buffer.from(bytes)).toEqual(Buffer.from(patternBytes(offset, offset + bytes.length, 1)));
      offset += bytes.length;
      if (bytes.length === block) buffers.add(bytes.buffer);
      reader.giveBack?.(bytes);
    }
    expect([buffers.size, reads.count, budget.takenBytes]).toEqual([1, 9, 0]);
    const { reads: poolReads } = disk;
    expect(await readSpan(representation, span)).toEqual(Buffer.from(patternBytes(7, sizeBytes, 1)));
    expect(disk.reads).toBe(poolReads);
    reader.close();
    expect(reader.peek(0, 10)).toBeUndefined();
  });

  it('is read by the thread pool while the disk is slow, and in the same tick again once it is not', async () => {
    const reads = new SteeredReads();
    const { store } = await openTestStore({ blockSizeBytes: block, quickReads: reads.options });
    const entry = await storeSample(store, { key: 'k', sizeBytes, seed: 1 });
    const budget = new ByteBudget(64 * block);
    const representation = createStoredRepresentation(entry, { blockSizeBytes: block, budget }, mend);
    Object.assign(reads, { readMs: 65, diskReads: 1 });
    const span = { start: 0, end: sizeBytes };
    expect(await readSpan(representation, span)).toEqual(Buffer.from(patternBytes(0, sizeBytes, 1)));
    expect([reads.count, budget.takenBytes]).toEqual([1, 0]);
    reads.readMs = 0;
    reads.pass(10_000);
    expect(await readSpan(representation, span)).toEqual(Buffer.from(patternBytes(0, sizeBytes, 1)));
    expect(reads.count).toBe(1 + 9);
  });
});

describe('reading ahead', () => {
  const sizeBytes = 8 * block + 5;
  const sample = { key: 'k', sizeBytes, seed: 1 };

  it('reads every block once for many simultaneous readers, and nothing past the span', async () => {
    const { store: below, disk, budget, clock } = await openOnDisk();
    await storeSample(below, sample);
    const memory = createMemoryTier({ maxSizeBytes: 64 * block });
    const store = createTieredStore(memory, below, () => clock.now());
    const entry = await findFirst(store, 'k');
    if (entry === undefined) throw new Error('not stored');
    const representation = createStoredRepresentation(entry, { blockSizeBytes: block, budget }, mend);
    const span = { start: block + 7, end: 6 * block + 1 };
    const bodies = await Promise.all(Array.from({ length: 10 }, () => readSpan(representation, span)));
    for (const body of bodies) expect(body).toEqual(Buffer.from(patternBytes(span.start, span.end, 1)));
    // The blocks 1 to 6, and the sidecar.
    expect(disk.reads).toBe(6 + 1);
    expect(budget.takenBytes).toBe(0);
  });

  it('loses nothing and holds nothing when its reader closes before it ends', async () => {
    const { store, disk, budget, events } = await openOnDisk();
    const entry = await storeSample(store, sample);
    const representation = createStoredRepresentation(entry, { blockSizeBytes: block, budget }, mend);
    const reader = await representation.open([{ start: 0, end: block }], signal);
    const { promise, resolve } = Promise.withResolvers<void>();
    disk.readGate = promise;
    reader.peek(0, sizeBytes);
    expect(budget.takenBytes).toBe(block);
    reader.close();
    await expect(reader.read(block, sizeBytes)).rejects.toMatchObject({ code: 'client_gone' });
    const again = readSpan(representation, { start: 0, end: sizeBytes });
    resolve();
    expect(await again).toEqual(Buffer.from(patternBytes(0, sizeBytes, 1)));
    expect(budget.takenBytes).toBe(0);
    expect(events).toEqual([]);
    expect(await findFirst(store, 'k')).toMatchObject({ isComplete: true });
  });

  it('does not report damage to a reader that stops before the damaged block', async () => {
    const { store, disk, budget } = await openOnDisk();
    const entry = await storeSample(store, sample);
    const representation = createStoredRepresentation(entry, { blockSizeBytes: block, budget }, mend);
    const reader = await representation.open([{ start: 0, end: block }], signal);
    disk.readFault = 'EIO';
    expect(reader.peek(0, sizeBytes)).toHaveLength(block);
    await expect.poll(() => budget.takenBytes).toBe(0);
    expect(reader.peek(0, block)).toHaveLength(block);
    await expect(reader.read(block, sizeBytes)).rejects.toMatchObject({ code: 'bytes_gone' });
    reader.close();
  });
});
