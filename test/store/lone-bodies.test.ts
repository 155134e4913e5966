/** Bodies of one block in files without a sidecar: their checksums are in their rows, and they are written in one call. */

import { writeFileSync } from 'node:fs';
import { mkdir, truncate, unlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import type { DiskStoreOptions } from '../../src/store/disk/disk-store.ts';
import { flipBit } from '../support/stores/damage.ts';
import { bodyFiles, openTestStore } from '../support/stores/disk-store.ts';
import { FailingFileSystem } from '../support/stores/failing-file-system.ts';
import { createSharedDirectory } from '../support/stores/shared-directory.ts';
import {
  canOpen,
  findFirst,
  openSampleWriter,
  readAll,
  readKey,
  type Sample,
  sampleMetadata,
  storePart,
  storeSample,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const KiB = 1024;
const blockSizeBytes = 256 * KiB;
const lone: Sample = { key: 'k', sizeBytes: 64 * KiB, seed: 3 };

/** The last way falls back to the thread pool because writes in the same tick are too slow. */
const ways: readonly (readonly [name: string, options: Partial<DiskStoreOptions>])[] = [
  ['in the same tick', { quickWrites: { elapsed: () => 0, writeFileSync } }],
  ['by the thread pool', {}],
  ['in the same tick until that is slow', { quickWrites: { elapsed: slowClock(), writeFileSync } }],
];

/** Returns a clock that advances a second with each reading. */
function slowClock(): () => number {
  let now = 0;
  return () => {
    now += 1000;
    return now;
  };
}

function bytesOf({ sizeBytes, seed = 0 }: Sample): Buffer {
  return Buffer.from(patternBytes(0, sizeBytes, seed));
}

/** Returns the only file of bodies in a store; fails where there are others. */
async function onlyBody(dir: string): Promise<string> {
  const [path = '', ...others] = await bodyFiles(dir);
  expect(others).toEqual([]);
  expect(path).toMatch(/\.body$/);
  return path;
}

const files: readonly (readonly [sizeBytes: number, length: 'known' | 'unknown', files: number])[] = [
  [32 * KiB, 'known', 0],
  [32 * KiB + 1, 'known', 1],
  [32 * KiB + 1, 'unknown', 1],
  [64 * KiB, 'known', 1],
  [256 * KiB - 1, 'unknown', 1],
  [256 * KiB, 'known', 1],
  // While the length is unknown, a full block is not held back in memory: the body might go on.
  [256 * KiB, 'unknown', 2],
  [256 * KiB + 1, 'known', 2],
  [256 * KiB + 1, 'unknown', 2],
];

describe.each(ways)('written %s', (_, options) => {
  it.each(files)('%i bytes of %s length are in %i files, and survive a restart', async (sizeBytes, length, count) => {
    const first = await openTestStore({ ...options, blockSizeBytes });
    const sample = { ...lone, sizeBytes };
    await storeSample(first.store, sample, length);
    expect(await bodyFiles(first.dir)).toHaveLength(count);
    expect(await readKey(first.store, 'k')).toEqual(bytesOf(sample));
    await first.store.close();
    const { store, events } = await openTestStore({ ...options, blockSizeBytes, dir: first.dir });
    expect(await readKey(store, 'k')).toEqual(bytesOf(sample));
    expect(await findFirst(store, 'k')).toMatchObject({ isComplete: true });
    // Checked before the removal: the sweep at the start may find a file whose row was just deleted, and logs it.
    expect(events).toEqual([]);
    await store.removeKey('k');
    await expect.poll(() => bodyFiles(first.dir)).toEqual([]);
  });

  it('many at once are all stored, each with its own bytes', async () => {
    const { store, dir } = await openTestStore({ ...options, blockSizeBytes });
    const samples = Array.from({ length: 30 }, (__, at) => ({ ...lone, key: `k${at}`, seed: at }));
    await Promise.all(samples.map((sample) => storeSample(store, sample)));
    for (const sample of samples) expect(await readKey(store, sample.key)).toEqual(bytesOf(sample));
    expect(await bodyFiles(dir)).toHaveLength(30);
  });

  it('a file in the way fails only its own writer, which leaves nothing', async () => {
    const { store, dir } = await openTestStore({ ...options, blockSizeBytes });
    const writer = await openSampleWriter(store, lone);
    await writer.writeBlock(0, bytesOf(lone));
    const shard = join(dir, 'blocks', writer.generation.slice(0, 2));
    await mkdir(shard);
    await writeFile(join(shard, `${writer.generation}.body`), 'in the way');
    const other = { ...lone, key: 'other', seed: 4 };
    const outcomes = await Promise.allSettled([
      writer.commit({ metadata: sampleMetadata(), sizeBytes: lone.sizeBytes }),
      storeSample(store, other),
    ]);
    expect(outcomes).toMatchObject([{ status: 'rejected', reason: { reason: 'io' } }, { status: 'fulfilled' }]);
    await writer[Symbol.asyncDispose]();
    expect(await store.find('k')).toEqual([]);
    expect(await readKey(store, 'other')).toEqual(bytesOf(other));
    expect(await bodyFiles(dir)).toHaveLength(1);
  });
});

describe('damage', () => {
  const damages: readonly (readonly [name: string, damage: (path: string, dir: string) => Promise<void>])[] = [
    ['a flipped bit', (path) => flipBit(path, 40_000)],
    ['a truncated file', (path) => truncate(path, 40_000)],
    ['an empty file', (path) => truncate(path, 0)],
    ['no file', (path) => unlink(path)],
    [
      'a flipped bit in the checksum of the row',
      async (_, dir) => {
        const database = new DatabaseSync(join(dir, 'index.sqlite'));
        database.exec('UPDATE entries SET block_checksum = block_checksum + 16');
        database.close();
      },
    ],
    [
      'a row without its checksum',
      async (_, dir) => {
        const database = new DatabaseSync(join(dir, 'index.sqlite'));
        database.exec('UPDATE entries SET block_checksum = NULL');
        database.close();
      },
    ],
  ];

  it.each(damages)('%s: the entry is dropped, that is logged once, and it can be stored again', async (_, damage) => {
    const first = await openTestStore({ blockSizeBytes });
    await storeSample(first.store, lone);
    const path = await onlyBody(first.dir);
    await first.store.close();
    await damage(path, first.dir);
    const { store, dir, counts, events } = await openTestStore({ blockSizeBytes, dir: first.dir });
    expect(await readKey(store, 'k')).toBeUndefined();
    expect(await store.find('k')).toEqual([]);
    expect(counts.damagedBlocks).toBe(1);
    expect(events).toHaveLength(1);
    await expect.poll(() => bodyFiles(dir)).toEqual([]);
    await storeSample(store, lone);
    expect(await readKey(store, 'k')).toEqual(bytesOf(lone));
  });

  it('to a body that is resumed: it cannot be committed', async () => {
    const { store, dir } = await openTestStore({ blockSizeBytes });
    const entry = await storeSample(store, lone);
    await flipBit(await onlyBody(dir), 5);
    await using writer = await store.resume(entry);
    if (writer === undefined) throw new Error('it cannot be resumed');
    await expect(writer.readBlock(0)).rejects.toMatchObject({ code: 'bytes_gone' });
    await expect(writer.commit({ metadata: entry.metadata, sizeBytes: lone.sizeBytes })).rejects.toMatchObject({
      name: 'StoreFault',
    });
    expect(await store.find('k')).toEqual([]);
  });
});

it('a file without a row, as a sudden end before the commit leaves it, is swept', async () => {
  const first = await openTestStore({ blockSizeBytes });
  await storeSample(first.store, lone);
  const path = await onlyBody(first.dir);
  await first.store.close();
  const orphan = join(dirname(path), `${basename(path).slice(0, 2)}-orphan.body`);
  await writeFile(orphan, bytesOf(lone));
  const { store, dir, events } = await openTestStore({ blockSizeBytes, dir: first.dir });
  await expect.poll(() => events.map(({ detail }) => detail)).toEqual(['1 bodies']);
  expect(await onlyBody(dir)).toBe(path);
  expect(await readKey(store, 'k')).toEqual(bytesOf(lone));
});

it('a full disk costs the new entry, leaves no file of it, and the earlier entry stays', async () => {
  const disk = new FailingFileSystem();
  const { store, dir, events } = await openTestStore({ blockSizeBytes, fileSystem: disk.fileSystem });
  await storeSample(store, { ...lone, seed: 9 });
  disk.writeFault = 'ENOSPC';
  await expect(storeSample(store, lone)).rejects.toMatchObject({ reason: 'no_room' });
  expect(store.readUsage().isWritable).toBe(false);
  expect(await readKey(store, 'k')).toEqual(bytesOf({ ...lone, seed: 9 }));
  await onlyBody(dir);
  expect(events.map(({ level }) => level)).toEqual(['warn']);
});

it('a full disk turns storing off in same-tick writes too', async () => {
  const full = () => {
    throw Object.assign(new Error('ENOSPC: as the test wants it'), { code: 'ENOSPC' });
  };
  const quickWrites = { elapsed: () => 0, writeFileSync: full };
  const { store, dir } = await openTestStore({ blockSizeBytes, quickWrites });
  await expect(storeSample(store, lone)).rejects.toMatchObject({ reason: 'no_room' });
  expect(store.readUsage().isWritable).toBe(false);
  expect(await bodyFiles(dir)).toEqual([]);
});

it('a reader keeps its bytes although the entry is replaced and its file deleted', async () => {
  const { store, dir } = await openTestStore({ blockSizeBytes });
  const reader = await (await storeSample(store, lone)).open();
  const second = { ...lone, seed: 8 };
  await storeSample(store, second);
  await expect.poll(() => bodyFiles(dir)).toHaveLength(1);
  expect(await readAll(reader, lone.sizeBytes, blockSizeBytes)).toEqual(bytesOf(lone));
  reader.close();
  expect(await readKey(store, 'k')).toEqual(bytesOf(second));
});

it('a complete body can be resumed, and committed once more', async () => {
  const { store, dir } = await openTestStore({ blockSizeBytes });
  const entry = await storeSample(store, lone);
  const path = await onlyBody(dir);
  const writer = await store.resume(entry);
  expect(writer?.hasBlock(0)).toBe(true);
  await writer?.commit({ metadata: entry.metadata, sizeBytes: lone.sizeBytes });
  await writer?.[Symbol.asyncDispose]();
  expect(await onlyBody(dir)).toBe(path);
  expect(await readKey(store, 'k')).toEqual(bytesOf(lone));
});

it('a part without any blocks yet has a sidecar', async () => {
  const { store, dir } = await openTestStore({ blockSizeBytes });
  const entry = await storePart(store, lone, []);
  expect(await bodyFiles(dir)).toHaveLength(2);
  await using writer = await store.resume(entry);
  await writer?.writeBlock(0, bytesOf(lone));
  await writer?.commit({ metadata: entry.metadata, sizeBytes: lone.sizeBytes });
  expect(await readKey(store, 'k')).toEqual(bytesOf(lone));
});

it('a store with another block size forgets them and deletes their files', async () => {
  const first = await openTestStore({ blockSizeBytes });
  await storeSample(first.store, lone);
  await first.store.close();
  const { store, dir } = await openTestStore({ blockSizeBytes: 128 * KiB, dir: first.dir });
  expect(await store.find('k')).toEqual([]);
  await expect.poll(() => bodyFiles(dir)).toEqual([]);
});

it('a second process reads what the first has stored, and its removal deletes the file', async () => {
  const shared = await createSharedDirectory();
  const [one, other] = [await shared.open({ blockSizeBytes }), await shared.open({ blockSizeBytes })];
  await storeSample(one.store, lone);
  expect(await readKey(other.store, 'k')).toEqual(bytesOf(lone));
  expect(await canOpen(one.store, 'k')).toBe(true);
  await other.store.removeKey('k');
  expect(await one.store.find('k')).toEqual([]);
  await expect.poll(() => bodyFiles(shared.dir)).toEqual([]);
});
