/** Pieces of bodies that are read in the same tick: they are right and checked, and the files are closed in time. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Store, StoredEntry } from '../../src/store/store.ts';
import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { CountedFileSystem } from '../support/stores/counted-file-system.ts';
import { flipBit } from '../support/stores/damage.ts';
import { bodyFiles, openTestStore } from '../support/stores/disk-store.ts';
import { FailingFileSystem } from '../support/stores/failing-file-system.ts';
import { SteeredReads } from '../support/stores/quick-reads.ts';
import {
  findFirst,
  readKey,
  sampleMetadata,
  storePart,
  storeSample,
  writeBlocks,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const piece = 8 * 1024;
const block = 4 * piece;
const sizeBytes = 2 * block + piece + 100;
const sample = { key: 'k', sizeBytes, seed: 1 };

/** Opens a store with an entry that was read once, so that the checksums of all its pieces are known. */
async function storeThatWasRead(trustsLateChecks = false) {
  const reads = new SteeredReads();
  const files = new CountedFileSystem(new FailingFileSystem().fileSystem);
  const options = {
    blockSizeBytes: block,
    quickReads: { ...reads.options, trustsLateChecks },
    fileSystem: files.fileSystem,
  };
  const opened = await openTestStore(options);
  await storeSample(opened.store, sample);
  expect(await readKey(opened.store, 'k')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 1)));
  const [body = ''] = await bodyFiles(opened.dir);
  return { ...opened, reads, files, body, entry: await found(opened.store) };
}

async function found(store: Store): Promise<StoredEntry> {
  const entry = await findFirst(store, 'k');
  if (entry === undefined) throw new Error('not stored');
  return entry;
}

const right = (start: number, end: number) => Buffer.from(patternBytes(start, end, 1));
const now = (entry: StoredEntry, start: number, end: number) => {
  const bytes = entry.readNow?.(start, end);
  return bytes && Buffer.from(bytes);
};

describe('bytes that are read in the same tick', () => {
  it('are those of the range, up to the end of the block in which it begins', async () => {
    const { entry } = await storeThatWasRead();
    const places = fc.tuple(fc.nat(sizeBytes - 1), fc.integer({ min: 1, max: sizeBytes }), fc.boolean());
    fc.assert(
      fc.property(places, ([start, length, isGivenBack]) => {
        const end = Math.min(start + length, sizeBytes);
        const bytes = entry.readNow?.(start, end);
        const expected = right(start, Math.min(end, (Math.floor(start / block) + 1) * block));
        expect(expected.equals(bytes ?? Buffer.alloc(0))).toBe(true);
        if (isGivenBack && bytes !== undefined) entry.giveBack?.(bytes);
      }),
    );
  });

  it('cost one read of only the pieces that they are in', async () => {
    const { entry, reads } = await storeThatWasRead();
    const rows: readonly [start: number, end: number, bytes: number][] = [
      [0, 1, piece],
      [piece - 1, piece + 1, 2 * piece],
      [block + 5, block + piece, piece],
      [2 * block + piece + 99, sizeBytes, 100],
    ];
    for (const [start, end, bytes] of rows) {
      const before = { count: reads.count, bytes: reads.bytes };
      expect(now(entry, start, end)).toEqual(right(start, end));
      expect({ count: reads.count, bytes: reads.bytes }).toEqual({
        count: before.count + 1,
        bytes: before.bytes + bytes,
      });
    }
  });

  it('are none past the end, of an absent block, or of an entry that is not open', async () => {
    const { store, entry, reads } = await storeThatWasRead();
    expect(now(entry, sizeBytes, sizeBytes + 1)).toBeUndefined();
    const part = await storePart(store, { ...sample, key: 'part' }, [1]);
    const reader = await part.open();
    await reader.readBlock(1);
    expect(now(part, block, block + 1)).toEqual(right(block, block + 1));
    expect(now(part, 0, 1)).toBeUndefined();
    reader.close();
    const again = await openTestStore({ blockSizeBytes: block, quickReads: reads.options });
    await storeSample(again.store, sample);
    await again.store.close();
    const { store: later } = await openTestStore({ dir: again.dir, blockSizeBytes: block, quickReads: reads.options });
    expect(now(await found(later), 0, 1)).toBeUndefined();
  });

  it('are checked with their whole block the first time, and by pieces from then on', async () => {
    const { dir, reads, store: earlier } = await storeThatWasRead();
    await earlier.close();
    const { store, events } = await openTestStore({ dir, blockSizeBytes: block, quickReads: reads.options });
    const entry = await found(store);
    const reader = await entry.open();
    const [body = ''] = await bodyFiles(dir);
    const rows: readonly [start: number, end: number, bytes: number][] = [
      [block - 10, block + 10, block],
      [10, 20, piece],
      [2 * block + piece + 99, sizeBytes, piece + 100],
      [2 * block + piece + 99, sizeBytes, 100],
    ];
    for (const [start, end, bytes] of rows) {
      const before = reads.bytes;
      expect(now(entry, start, end)).toEqual(right(start, Math.min(end, (Math.floor(start / block) + 1) * block)));
      expect(reads.bytes - before).toBe(bytes);
    }
    await flipBit(body, block + piece + 77);
    expect(now(entry, block, block + 10)).toBeUndefined();
    expect(events).toEqual([]);
    await expect(reader.readBlock(1)).rejects.toMatchObject({ code: 'bytes_gone' });
    expect(now(entry, block, block + 10)).toBeUndefined();
    reader.close();
  });

  it('are available as soon as their block is written', async () => {
    const { store } = await storeThatWasRead();
    const part = await storePart(store, { ...sample, key: 'part' }, [1]);
    await using writer = await store.resume(part);
    if (writer !== undefined) await writeBlocks(writer, block, sample, [0]);
    expect(now(part, 10, 20)).toEqual(right(10, 20));
    expect(now(part, 2 * block, 2 * block + 1)).toBeUndefined();
  });
});

describe('a damaged piece', () => {
  it('is not returned, and its whole block is lost once that is read', async () => {
    const { store, entry, body, events } = await storeThatWasRead();
    await flipBit(body, piece + 77);
    expect(now(entry, 0, 10)).toEqual(right(0, 10));
    expect(now(entry, piece, piece + 10)).toBeUndefined();
    expect(now(entry, piece - 1, piece + 1)).toBeUndefined();
    expect(events).toEqual([]);
    const reader = await entry.open();
    await expect(reader.readBlock(0)).rejects.toMatchObject({ code: 'bytes_gone' });
    expect(now(entry, 0, 10)).toBeUndefined();
    expect(now(entry, block, block + 10)).toEqual(right(block, block + 10));
    expect(events).toHaveLength(1);
    expect(await found(store)).toMatchObject({ isComplete: false });
    reader.close();
    await using writer = await store.resume(await found(store));
    await writer?.writeBlock(0, patternBytes(0, block, 1));
    await writer?.commit({ metadata: sampleMetadata(1), sizeBytes });
    expect(now(await found(store), piece, piece + 10)).toEqual(right(piece, piece + 10));
  });

  it('is detected, whichever bit is flipped', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(sizeBytes - 1), fc.nat(7), async (at, bit) => {
        const { store, entry, body } = await storeThatWasRead();
        await flipBit(body, at, bit);
        expect(now(entry, at, at + 1)).toBeUndefined();
        await store.close();
      }),
      { numRuns: 10 },
    );
  });

  it('is detected in a part too', async () => {
    const { store, dir, body: earlier } = await storeThatWasRead();
    const part = await storePart(store, { ...sample, key: 'part' }, [0, 1]);
    const body = (await bodyFiles(dir)).find((path) => path.endsWith('.body') && path !== earlier) ?? '';
    await flipBit(body, block - 1, 3);
    expect(now(part, block - 10, block)).toBeUndefined();
    expect(now(part, 0, 10)).toEqual(right(0, 10));
  });
});

describe('where checks of the last minute are trusted', () => {
  it('a piece that was checked is not checked again for half a minute, and is after a minute', async () => {
    const { entry, body, reads } = await storeThatWasRead(true);
    // The read of the whole only noted the trace. This first read by pieces notes its piece as checked.
    expect(now(entry, 0, 10)).toEqual(right(0, 10));
    await flipBit(body, 5);
    const damaged = right(0, 10);
    damaged[5] = (damaged[5] ?? 0) ^ 1;
    for (let passed = 0; passed < 29_000; passed += 900) {
      expect(now(entry, 0, 10)).toEqual(damaged);
      reads.pass(900);
    }
    reads.pass(31_000);
    expect(now(entry, 0, 10)).toBeUndefined();
    expect(now(entry, piece, piece + 10)).toEqual(right(piece, piece + 10));
  });

  it('an unchecked piece is checked, with all pieces of the same read', async () => {
    const { entry, body } = await storeThatWasRead(true);
    expect(now(entry, 0, 10)).toEqual(right(0, 10));
    await flipBit(body, piece + 5);
    expect(now(entry, 0, piece + 10)).toBeUndefined();
    // Damage in one read makes all pieces of the block need a check again; this one passes it.
    expect(now(entry, 0, 10)).toEqual(right(0, 10));
  });

  it('no check is trusted in a file that was changed while it was closed', async () => {
    const { entry, body, reads } = await storeThatWasRead(true);
    expect(now(entry, 0, 10)).toEqual(right(0, 10));
    reads.pass(10_000);
    reads.pass(10_000);
    await expect.poll(() => now(entry, 0, 10)).toBeUndefined();
    await flipBit(body, 5);
    const reader = await entry.open();
    expect(now(entry, 0, 10)).toBeUndefined();
    reader.close();
  });
});

describe('reads that fail or are slow', () => {
  it('are left to the thread pool', async () => {
    const { store, entry, reads } = await storeThatWasRead();
    reads.isBroken = true;
    expect(now(entry, 0, 10)).toBeUndefined();
    expect(await readKey(store, 'k')).toEqual(right(0, sizeBytes));
    reads.isBroken = false;
    expect(now(entry, 0, 10)).toEqual(right(0, 10));
  });

  it('are not tried again for a while', async () => {
    const { entry, reads } = await storeThatWasRead();
    reads.readMs = 65;
    reads.diskReads = 1;
    expect(now(entry, 0, 10)).toEqual(right(0, 10));
    expect(now(entry, 0, 10)).toBeUndefined();
    reads.pass(1000);
    expect(now(entry, 0, 10)).toBeUndefined();
    reads.pass(1500);
    expect(now(entry, 0, 10)).toEqual(right(0, 10));
  });

  it('count for little where nothing came from a disk', async () => {
    const { entry, reads } = await storeThatWasRead();
    reads.readMs = 5;
    const made = () =>
      Array.from({ length: 100 }, () => now(entry, 0, 10)).filter((bytes) => bytes !== undefined).length;
    // The first read learns the number of reads from a disk so far.
    expect(made()).toBeGreaterThan(30);
    reads.pass(3900);
    reads.diskReads = 1;
    reads.readMs = 50;
    now(entry, 0, 10);
    expect(now(entry, 0, 10)).toBeUndefined();
  });
});

describe('files that stay open', () => {
  const changes: readonly [string, (store: Store, entry: StoredEntry) => Promise<unknown>][] = [
    ['removed', (store, entry) => store.removeEntry(entry)],
    ['removed with its key', (store) => store.removeKey('k')],
    ['replaced', (store) => storeSample(store, { ...sample, sizeBytes: 10, seed: 2 })],
    [
      'removed by another process',
      async (store, { generation }) => store.applyChange({ kind: 'generations', generations: [generation] }),
    ],
  ];
  it.each(changes)('are closed when the entry is %s', async (_, change) => {
    const { store, entry, files } = await storeThatWasRead();
    expect(files.open).toHaveLength(1);
    await change(store, entry);
    await expect.poll(() => files.open).toEqual([]);
    expect(now(entry, 0, 10)).toBeUndefined();
  });

  it('are closed when they were idle for a while, and no timer is left then', async () => {
    const { entry, files, reads } = await storeThatWasRead();
    for (let at = 0; at < 5; at += 1) {
      expect(now(entry, 0, 10)).toEqual(right(0, 10));
      reads.pass(10_000);
    }
    expect({ open: files.open.length, isWaiting: reads.isWaiting }).toEqual({ open: 1, isWaiting: true });
    reads.pass(10_000);
    await expect.poll(() => files.open).toEqual([]);
    expect(reads.isWaiting).toBe(false);
    expect(now(entry, 0, 10)).toBeUndefined();
  });

  it('need not be read as a whole once they are opened again: the checksums of their pieces are still known', async () => {
    const { entry, files, reads } = await storeThatWasRead();
    reads.pass(10_000);
    reads.pass(10_000);
    await expect.poll(() => files.open).toEqual([]);
    const reader = await entry.open();
    expect(now(entry, block, block + 10)).toEqual(right(block, block + 10));
    reader.close();
  });

  it('are closed with the store', async () => {
    const { store, files, reads } = await storeThatWasRead();
    await store.close();
    expect({ open: files.open, isWaiting: reads.isWaiting }).toEqual({ open: [], isWaiting: false });
  });

  it('are at most 128, the last used ones', async () => {
    const { store, entry, files } = await storeThatWasRead();
    for (let at = 0; at < 150; at += 1) {
      await storeSample(store, { key: `k${at}`, sizeBytes: block + 1, seed: at });
      expect(now(entry, 0, 10)).toEqual(right(0, 10));
    }
    await expect.poll(() => files.open.length).toBe(128);
  });
});

describe('with a memory tier in front', () => {
  /** Puts a tier with room for about this many blocks in front of the store. */
  async function tiered(blocks: number) {
    const opened = await storeThatWasRead();
    const memory = createMemoryTier({ maxSizeBytes: blocks * block });
    return { ...opened, memory, store: createTieredStore(memory, opened.store, () => 0) };
  }

  /** Reads a piece of the first block this many times, and waits for the work in the background that this begins. */
  async function readOften(entry: StoredEntry, times: number): Promise<void> {
    for (let at = 0; at < times; at += 1) expect(now(entry, 10, 20)).toEqual(right(10, 20));
    await expect.poll(async () => (await entry.readPresence()).size).toBe(3);
  }

  it('a block is kept in memory once one of its pieces is read again, where there is room', async () => {
    const { store, memory } = await tiered(64);
    const entry = await found(store);
    await readOften(entry, 1);
    expect(memory.blockCount).toBe(0);
    await readOften(entry, 1);
    await expect.poll(() => entry.peekBlock(0)?.length).toBe(block);
  });

  it('a block that is wanted again and again is kept although others have to leave', async () => {
    const { store, memory } = await tiered(2);
    const entry = await found(store);
    const reader = await entry.open();
    for (const index of [1, 2]) await reader.readBlock(index);
    reader.close();
    await readOften(entry, 3);
    expect(memory.hasRoomFor(block)).toBe(false);
    expect(memory.block(entry.generation, 0)).toBeUndefined();
    await readOften(entry, 6);
    await expect.poll(() => entry.peekBlock(0)?.length).toBe(block);
  });

  it('a single reader pushes nothing out of memory', async () => {
    for (const [blocks, slow] of [
      [2, false],
      [2, true],
      [64, true],
    ] as const) {
      const { store, memory, reads } = await tiered(blocks);
      const entry = await found(store);
      const kept = patternBytes(0, block, 9);
      memory.keepBlock('other', 0, kept);
      if (slow) Object.assign(reads, { readMs: 65, diskReads: 1 });
      const reader = await entry.open();
      for (const offset of [0, block, 2 * block]) {
        const bytes = reader.readNow?.(offset, sizeBytes) ?? (await reader.readBlock(offset / block));
        expect(Buffer.from(bytes)).toEqual(right(offset, Math.min(offset + block, sizeBytes)));
      }
      reader.close();
      expect(memory.block('other', 0)).toBe(kept);
    }
  });

  it('ranges all over a body push nothing out of memory', async () => {
    const { store } = await tiered(2);
    const entry = await found(store);
    const reader = await entry.open();
    await reader.readBlock(2);
    reader.close();
    expect(entry.peekBlock(2)).toBeDefined();
    for (let at = 0; at < 200; at += 1) now(entry, (at % 8) * piece, (at % 8) * piece + 10);
    expect(entry.peekBlock(2)).toBeDefined();
  });
});
