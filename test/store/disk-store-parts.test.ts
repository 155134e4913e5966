/** Parts (incomplete entries) in the disk store: their room, their files, and what a restart keeps. */

import * as promises from 'node:fs/promises';
import { cp, rm, stat } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import type { EntryWriter, Store, StoredEntry } from '../../src/store/store.ts';
import { overwrite } from '../support/stores/damage.ts';
import { bodyFiles, openTestStore, temporaryDirectory } from '../support/stores/disk-store.ts';
import { FailingFileSystem } from '../support/stores/failing-file-system.ts';
import {
  blockOf,
  canOpen,
  findFirst,
  openSampleWriter,
  readKey,
  sampleMetadata,
  storePart,
  storeSample,
  writeBlocks,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const block = 16 * 1024;
const sample = { key: 'k', sizeBytes: 64 * block - 5, seed: 3 };
const { sizeBytes } = sample;
const whole = Buffer.from(patternBytes(0, sizeBytes, 3));

async function resumed(store: Store, entry: StoredEntry | undefined): Promise<EntryWriter> {
  const writer = entry === undefined ? undefined : await store.resume(entry);
  if (writer === undefined) throw new Error('the part cannot be resumed');
  return writer;
}

/** Returns the space that the body files of a store take on the disk, in bytes. */
async function takenBytes(dir: string): Promise<number> {
  const stats = await Promise.all((await bodyFiles(dir)).map((path) => stat(path)));
  return stats.reduce((sum, { blocks }) => sum + 512 * blocks, 0);
}

/** Returns the bytes that the index of a closed store counts for all its entries. */
function countedBytes(dir: string): number {
  const database = new DatabaseSync(join(dir, 'index.sqlite'));
  const { allocated_bytes: bytes } = { ...database.prepare('SELECT allocated_bytes FROM room').get() };
  database.close();
  return Number(bytes);
}

it('writes the checksum of a block only after all bytes of the block', async () => {
  const writes: string[] = [];
  const fileSystem = {
    ...promises,
    open: async (...[path, ...how]: Parameters<typeof promises.open>) => {
      const handle = await promises.open(path, ...how);
      const write = handle.write.bind(handle) as (...values: unknown[]) => Promise<unknown>;
      const observed = async (...values: unknown[]) => {
        const result = await write(...values);
        writes.push(extname(String(path)));
        return result;
      };
      return Object.assign(handle, { write: observed as typeof handle.write });
    },
  };
  const { store } = await openTestStore({ fileSystem });
  await storePart(store, sample, [5, 9]);
  expect(writes).toEqual(['.body', '.sums', '.body', '.sums']);
});

describe('a part, after a restart,', () => {
  it('still has its blocks, and accepts the others', async () => {
    const first = await openTestStore();
    const writer = await openSampleWriter(first.store, sample);
    await writeBlocks(writer, block, sample, [63, 7]);
    await writer.publish(sampleMetadata(3));
    await writeBlocks(writer, block, sample, [8, 40]);
    await first.store.close();
    const { store, events } = await openTestStore({ dir: first.dir });
    const second = await resumed(store, await findFirst(store, 'k'));
    const there = Array.from({ length: 64 }, (_, index) => index).filter((index) => second.hasBlock(index));
    expect(there).toEqual([7, 8, 40, 63]);
    await writeBlocks(second, block, sample, Array(64).keys());
    await second.commit({ metadata: sampleMetadata(3), sizeBytes });
    await store.close();
    expect(events).toEqual([]);
    const third = await openTestStore({ dir: first.dir });
    expect(await findFirst(third.store, 'k')).toMatchObject({ isComplete: true });
    expect(await readKey(third.store, 'k')).toEqual(whole);
  });

  it('can be completed even if its body is small, and its files are removed with it', async () => {
    const small = { ...sample, sizeBytes: block + 9 };
    const { store: first, dir } = await openTestStore();
    await storePart(first, small, [1]);
    expect(await bodyFiles(dir)).toHaveLength(2);
    await first.close();
    const { store } = await openTestStore({ dir });
    const writer = await resumed(store, await findFirst(store, 'k'));
    await writeBlocks(writer, block, small, [0]);
    await writer.commit({ metadata: sampleMetadata(3), sizeBytes: small.sizeBytes });
    await writer[Symbol.asyncDispose]();
    expect(await readKey(store, 'k')).toEqual(Buffer.from(patternBytes(0, small.sizeBytes, 3)));
    await store.removeKey('k');
    await expect.poll(() => bodyFiles(dir)).toEqual([]);
  });
});

describe('the room that is counted', () => {
  it('is that of the blocks that are present', async () => {
    const { store, dir } = await openTestStore();
    for (let at = 0; at < 8; at += 1) await storePart(store, { ...sample, key: `k${at}` }, [at, 63 - at]);
    await store.close();
    const taken = await takenBytes(dir);
    expect(taken).toBeLessThan(8 * 4 * block);
    expect(countedBytes(dir)).toBeGreaterThanOrEqual(taken);
    expect(countedBytes(dir)).toBeLessThan(taken + 8 * 2 * 4096);
  });

  it('grows with a part, and not when its metadata is replaced', async () => {
    const { store, dir } = await openTestStore();
    const entry = await storePart(store, sample, [0]);
    await store.replaceMetadata(entry, sampleMetadata('x'.repeat(1000)));
    const writer = await resumed(store, entry);
    await writeBlocks(writer, block, sample, Array(32).keys());
    await store.close();
    expect(countedBytes(dir)).toBeGreaterThanOrEqual(await takenBytes(dir));
    expect(countedBytes(dir)).toBeLessThan((await takenBytes(dir)) + 4 * 4096);
  });

  it('covers the written blocks even after a sudden end of the process', async () => {
    const { store, dir } = await openTestStore();
    const large = { ...sample, sizeBytes: 30 * 1024 * 1024 };
    const writer = await openSampleWriter(store, large);
    await writer.publish(sampleMetadata(3));
    await writeBlocks(writer, block, large, Array(1600).keys());
    // The copy has what a sudden end would leave.
    const copy = await temporaryDirectory();
    await cp(dir, copy, { recursive: true });
    await writer[Symbol.asyncDispose]();
    await (await openTestStore({ dir: copy })).store.close();
    const taken = await takenBytes(copy);
    expect(taken).toBeGreaterThan(16 * 1024 * 1024);
    expect(countedBytes(copy)).toBeGreaterThanOrEqual(taken);
    // The row counts a step ahead of the files.
    expect(countedBytes(copy)).toBeLessThanOrEqual(taken + 64 * 1024 * 1024 * (1 / 256) + 64 * 1024);
  });

  it('stays within the size of the store, however many entries are parts', async () => {
    const maxSizeBytes = 4 * 1024 * 1024;
    const { store, dir } = await openTestStore({ maxSizeBytes });
    for (let at = 0; at < 60; at += 1) {
      const part = { ...sample, key: `k${at % 40}`, seed: at };
      const writer = await resumed(store, await storePart(store, part, [at, 3]));
      await writeBlocks(writer, block, part, Array(at % 30).keys());
      await writer[Symbol.asyncDispose]();
      expect(await canOpen(store, part.key)).toBe(true);
      if (at % 3 === 0) await storeSample(store, { key: `whole${at}`, sizeBytes: 20 * block });
    }
    await store.close();
    expect(await takenBytes(dir)).toBeLessThanOrEqual(maxSizeBytes);
    expect(countedBytes(dir)).toBeLessThanOrEqual(maxSizeBytes);
    expect(countedBytes(dir)).toBeGreaterThanOrEqual(await takenBytes(dir));
  });
});

describe('the files of a part', () => {
  it('are removed with it, even while it has a writer', async () => {
    const { store, dir } = await openTestStore();
    const writer = await resumed(store, await storePart(store, sample, [1]));
    await store.removeKey('k');
    await expect.poll(() => bodyFiles(dir)).toEqual([]);
    await writeBlocks(writer, block, sample, [1, 2]);
    expect(Buffer.from(await writer.readBlock(2))).toEqual(Buffer.from(blockOf(sample, block, 2)));
    await writer[Symbol.asyncDispose]();
    expect(await bodyFiles(dir)).toEqual([]);
  });

  it('are not swept when the index is lost, and its writer commits them to the new one', async () => {
    const { store, dir, events } = await lostIndex();
    const writer = await resumed(store, await findFirst(store, 'k'));
    await trashIndex(dir);
    for (let at = 0; at < 400; at += 1) expect(await readKey(store, `other${at}`)).toBeUndefined();
    expect(events.filter((event) => event.level === 'error')).toHaveLength(1);
    expect(await store.find('k')).toEqual([]);
    await writeBlocks(writer, block, sample, Array(64).keys());
    await writer.commit({ metadata: sampleMetadata(3), sizeBytes });
    await writer[Symbol.asyncDispose]();
    expect(await readKey(store, 'k')).toEqual(whole);
  });

  it('are opened once for all readers and writers', async () => {
    const disk = new FailingFileSystem();
    const { store } = await openTestStore({ fileSystem: disk.fileSystem });
    const writer = await openSampleWriter(store, sample);
    await writer.publish(sampleMetadata(3));
    const entry = (await findFirst(store, 'k')) as StoredEntry;
    const readers = await Promise.all([entry.open(), entry.open()]);
    expect(disk.opens).toBe(0);
    await writer[Symbol.asyncDispose]();
    const second = await resumed(store, entry);
    expect(disk.opens).toBe(0);
    for (const reader of readers) reader.close();
    await writeBlocks(second, block, sample, [4]);
    expect(Buffer.from(await second.readBlock(4))).toEqual(Buffer.from(blockOf(sample, block, 4)));
    await second[Symbol.asyncDispose]();
  });

  const losses: readonly [string, number][] = [
    ['the body', 0],
    ['the sidecar', 1],
  ];
  it.each(losses)('are needed: without %s it cannot be resumed, and is dropped', async (_, at) => {
    const { store, dir, events } = await openTestStore();
    const entry = await storePart(store, sample, [1]);
    await rm((await bodyFiles(dir))[at] ?? '');
    expect(await store.resume(entry)).toBeUndefined();
    expect(await store.find('k')).toEqual([]);
    expect(events).toMatchObject([{ level: 'warn' }]);
  });

  it('are kept when they cannot be opened for lack of descriptors', async () => {
    const disk = new FailingFileSystem();
    const { store, events } = await openTestStore({ fileSystem: disk.fileSystem });
    const entry = await storePart(store, sample, [1]);
    disk.openFault = 'EMFILE';
    await expect(store.resume(entry)).rejects.toMatchObject({ name: 'StoreFault', reason: 'io' });
    disk.openFault = undefined;
    await (await resumed(store, entry))[Symbol.asyncDispose]();
    expect(events).toMatchObject([{ level: 'warn', detail: expect.stringContaining('EMFILE') }]);
  });
});

/** Opens a store with many entries, one of them a part, whose index has not been read yet. */
async function lostIndex() {
  const { store, dir } = await openTestStore();
  for (let at = 0; at < 400; at += 1) await storeSample(store, { key: `other${at}`, sizeBytes: 700 });
  await storePart(store, sample, [1]);
  await store.close();
  return await openTestStore({ dir });
}

/** Overwrites an index except for its first page. */
async function trashIndex(dir: string): Promise<void> {
  const path = join(dir, 'index.sqlite');
  await overwrite(path, 4096, Buffer.alloc((await stat(path)).size - 4096, 0xa5));
}
