/** Stores that share a directory: each sees the changes of the others, and takes over from one that dies. */

import * as promises from 'node:fs/promises';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Store, StoreChange, StoredEntry } from '../../src/store/store.ts';
import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { turn } from '../support/clocks/turn.ts';
import { overwrite, trashTable } from '../support/stores/damage.ts';
import { bodyFiles, openTestStore } from '../support/stores/disk-store.ts';
import { createSharedDirectory } from '../support/stores/shared-directory.ts';
import { orphanedFiles } from '../support/stores/store-directory.ts';
import {
  blockOf,
  findFirst,
  openSampleWriter,
  pushOut,
  readKey,
  sampleMetadata,
  storePart,
  storeSample,
  storeTagged,
  taggedMetadata,
  writeBlocks,
  writeSample,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const block = 16 * 1024;
const sizeBytes = 3 * block;
const sample = { key: 'k', sizeBytes, seed: 1 };
const tiered = (store: Store) => createTieredStore(createMemoryTier({ maxSizeBytes: 1_000_000 }), store, Date.now);

describe('a change by one store', () => {
  /** The entries and bytes that a store finds, from memory where they are there. */
  interface Seen {
    readonly found: readonly (readonly [mark: string | undefined, isComplete: boolean, isPinned: boolean])[];
    readonly bytes: Buffer | undefined;
  }

  const whole = (seed: number) => Buffer.from(patternBytes(0, sizeBytes, seed));
  const far = Date.now() + 1_000_000_000_000;
  const deeds: readonly [string, (store: Store, entry: StoredEntry) => Promise<unknown>, Seen][] = [
    [
      'a commit',
      (store) => storeSample(store, { ...sample, seed: 2 }),
      { found: [['"2"', true, false]], bytes: whole(2) },
    ],
    [
      'a commit that pins',
      (store) => storeTagged(store, { ...sample, seed: 2 }, [], far),
      {
        found: [
          ['"2"', true, false],
          ['"1"', true, true],
        ],
        bytes: whole(2),
      },
    ],
    [
      'a publication',
      (store) => storePart(store, { ...sample, seed: 2 }, [0]),
      { found: [['"2"', false, false]], bytes: undefined },
    ],
    [
      'other metadata',
      (store, entry) => store.replaceMetadata(entry, sampleMetadata('fresh')),
      { found: [['"fresh"', true, false]], bytes: whole(1) },
    ],
    ['a removal', (store, entry) => store.removeEntry(entry), { found: [], bytes: undefined }],
    ['a removal by key', (store) => store.removeKey('k'), { found: [], bytes: undefined }],
    ['a removal by tag', (store) => store.removeTagged('t'), { found: [], bytes: undefined }],
    ['a removal by prefix', (store) => store.removePrefixed('k'), { found: [], bytes: undefined }],
  ];
  it.each(deeds)('is seen by the other store once it is done: %s', async (_, deed, want) => {
    const directory = await createSharedDirectory();
    const [first, second] = [await directory.open({}, { wrap: tiered }), await directory.open({}, { wrap: tiered })];
    await storeTagged(first.front, sample, ['t']);
    const entry = (await findFirst(first.front, 'k')) as StoredEntry;
    expect(await readKey(second.front, 'k')).toEqual(whole(1));
    expect(second.front.peek('k')).toHaveLength(1);
    await deed(first.front, entry);
    for (const { front } of [first, second]) {
      const entries = front.peek('k') ?? (await front.find('k'));
      const found = entries.map(({ metadata, isComplete, pinnedUntil }) => [
        metadata.fields.find(([name]) => name === 'etag')?.[1],
        isComplete,
        pinnedUntil !== undefined,
      ]);
      expect({ found, bytes: await readKey(front, 'k') }).toEqual(want);
    }
  });

  it.each(deeds)('is not done before the other store knows of it: %s', async (_, deed) => {
    const directory = await createSharedDirectory();
    const [first] = [await directory.open(), await directory.open()];
    const entry = await storeTagged(first.store, sample, ['t']);
    const release = directory.hold();
    let isDone = false;
    const doing = deed(first.store, entry).then(() => {
      isDone = true;
    });
    await expect.poll(() => directory.told.some(({ change }) => change.kind === 'keys')).toBe(true);
    for (let turns = 0; turns < 20; turns += 1) await turn();
    expect(isDone).toBe(false);
    release();
    await doing;
    expect(isDone).toBe(true);
  });

  it('reaches the memory of the other store in few messages when many entries are evicted', async () => {
    const directory = await createSharedDirectory();
    const limits = { maxSizeBytes: 60 * block, lowWaterPercent: 20 };
    const first = await directory.open(limits, { wrap: tiered });
    const second = await directory.open(limits, { wrap: tiered });
    const keys = Array.from({ length: 14 }, (_, at) => `old${at}`);
    for (const key of keys) await storeSample(first.front, { ...sample, key });
    for (const key of keys) for (const { front } of [first, second]) await front.find(key);
    const before = directory.told.length;
    await storeSample(first.front, { key: 'large', sizeBytes: 20 * block });
    await expect.poll(() => first.counts.evictedEntries).toBeGreaterThan(8);
    for (let turns = 0; turns < 20; turns += 1) await turn();
    for (const { front } of [first, second]) {
      const gone = keys.filter((key) => front.peek(key) === undefined);
      expect(gone).toHaveLength(first.counts.evictedEntries);
    }
    expect(directory.told.length - before).toBeLessThan(8);
  });

  it('reaches the writer of the other store, which can no longer commit', async () => {
    const directory = await createSharedDirectory();
    const [first, second] = [await directory.open(), await directory.open()];
    await using writer = await openSampleWriter(second.store, sample);
    await writeSample(writer, block, sample);
    await writer.publish(sampleMetadata(1));
    expect(await first.store.removeKey('k')).toBe(1);
    const commit = writer.commit({ metadata: sampleMetadata(1), sizeBytes });
    await expect(commit).rejects.toMatchObject({ name: 'StoreFault', reason: 'removed' });
    expect(Buffer.from(await writer.readBlock(1))).toEqual(Buffer.from(blockOf(sample, block, 1)));
    await writer[Symbol.asyncDispose]();
    await expect.poll(() => bodyFiles(directory.dir)).toEqual([]);
  });

  it('keeps the writer of the other store from committing even before the message arrives', async () => {
    const directory = await createSharedDirectory();
    const [first, second] = [await directory.open(), await directory.open()];
    await using writer = await openSampleWriter(second.store, sample);
    await writeSample(writer, block, sample);
    await writer.publish(sampleMetadata(1));
    const release = directory.hold();
    const removing = first.store.removeKey('k');
    await expect(writer.commit({ metadata: sampleMetadata(1), sizeBytes })).rejects.toMatchObject({
      reason: 'removed',
    });
    release();
    await removing;
    expect(await second.store.find('k')).toEqual([]);
    expect([...first.events, ...second.events]).toEqual([]);
  });

  it('is not undone by new metadata from a store that has not heard of it', async () => {
    const directory = await createSharedDirectory();
    const [first, second] = [await directory.open(), await directory.open()];
    const entry = await storeSample(first.store, sample);
    const release = directory.hold();
    const pinning = storeTagged(first.store, { ...sample, seed: 2 }, [], far);
    await expect.poll(async () => (await second.store.find('k')).length).toBe(2);
    expect(await second.store.replaceMetadata(entry, taggedMetadata('late', []))).toBeUndefined();
    expect((await second.store.find('k')).map(({ metadata }) => metadata)).toMatchObject([
      taggedMetadata(2, []),
      sampleMetadata(1),
    ]);
    release();
    await pinning;
  });
});

describe('a generation that one store writes', () => {
  it('is not opened for writing by another store until its writer is disposed', async () => {
    const directory = await createSharedDirectory();
    const [first, second] = [await directory.open(), await directory.open()];
    const part = await storePart(first.store, sample, [1]);
    const writer = await first.store.resume(part);
    await expect(second.store.resume(part)).rejects.toMatchObject({ name: 'StoreFault', reason: 'io' });
    await writer?.writeBlock(2, blockOf(sample, block, 2));
    await writer?.[Symbol.asyncDispose]();
    await using next = await second.store.resume(part);
    expect([0, 1, 2].map((index) => next?.hasBlock(index))).toEqual([false, true, true]);
    await expect(first.store.resume(part)).rejects.toMatchObject({ name: 'StoreFault', reason: 'io' });
  });

  it('is taken over with its written blocks when its process has died', async () => {
    const directory = await createSharedDirectory();
    const [first, second] = [await directory.open(), await directory.open()];
    const writer = await openSampleWriter(first.store, sample);
    await writer.publish(sampleMetadata(1));
    const entry = (await findFirst(second.store, 'k')) as StoredEntry;
    // Opened before all blocks were present, and still open later.
    const reader = await entry.open();
    await expect(reader.readBlock(2)).rejects.toMatchObject({ code: 'bytes_gone' });
    await writer.writeBlock(2, blockOf(sample, block, 2));
    directory.cut(first);
    second.store.applyChange({ kind: 'fallen', instances: [first.instance] });
    await using next = await second.store.resume(entry);
    expect([0, 1, 2].map((index) => next?.hasBlock(index))).toEqual([false, false, true]);
    if (next !== undefined) await writeSample(next, block, sample);
    await next?.commit({ metadata: sampleMetadata(1), sizeBytes });
    for (const index of [0, 1, 2]) {
      expect(Buffer.from(await reader.readBlock(index))).toEqual(Buffer.from(blockOf(sample, block, index)));
    }
    reader.close();
    expect(second.events).toEqual([]);
  });

  it('is held again when the same store resumes it, although its release could not be written', async () => {
    const directory = await createSharedDirectory();
    const [first, second] = [await directory.open(), await directory.open()];
    const part = await storePart(first.store, sample, [1]);
    const other = await storePart(first.store, { ...sample, key: 'other' }, [1]);
    const [writer, otherWriter] = [await first.store.resume(part), await first.store.resume(other)];
    const lock = new DatabaseSync(join(directory.dir, 'index.sqlite'));
    onTestFinished(() => lock.close());
    lock.exec('BEGIN IMMEDIATE');
    await writer?.[Symbol.asyncDispose]();
    lock.exec('ROLLBACK');
    await using again = await first.store.resume(part);
    await otherWriter?.[Symbol.asyncDispose]();
    await expect(second.store.resume(part)).rejects.toMatchObject({ name: 'StoreFault', reason: 'io' });
    await again?.writeBlock(2, blockOf(sample, block, 2));
  });

  it('is not held by a store that refuses it as too large', async () => {
    const directory = await createSharedDirectory();
    const [first, second] = [await directory.open(), await directory.open({ maxEntryBytes: 2 * block })];
    const part = await storePart(first.store, sample, [1]);
    await expect(second.store.resume(part)).rejects.toMatchObject({ name: 'StoreFault', reason: 'too_large' });
    await using writer = await first.store.resume(part);
    expect(writer?.hasBlock(1)).toBe(true);
  });

  it('is read by a store that has found a block damaged, once another store has written that again', async () => {
    const directory = await createSharedDirectory();
    const [first, second] = [await directory.open(), await directory.open()];
    const entry = await storeSample(first.store, sample);
    const reader = await entry.open();
    const [body = ''] = await bodyFiles(directory.dir);
    await overwrite(body, block + 100, Buffer.alloc(100, 0xa5));
    await expect(reader.readBlock(1)).rejects.toMatchObject({ code: 'bytes_gone' });
    const [, sums = ''] = await bodyFiles(directory.dir);
    await expect.poll(async () => (await readFile(sums)).readUInt32LE(8)).toBe(0);
    await using writer = await second.store.resume((await findFirst(second.store, 'k')) as StoredEntry);
    await writer?.writeBlock(1, blockOf(sample, block, 1));
    await writer?.commit({ metadata: sampleMetadata(1), sizeBytes });
    expect(Buffer.from(await reader.readBlock(1))).toEqual(Buffer.from(blockOf(sample, block, 1)));
    reader.close();
    expect(await findFirst(first.store, 'k')).toMatchObject({ isComplete: true });
  });

  it('takes room from the other stores until its process has died', async () => {
    const directory = await createSharedDirectory();
    const limits = { maxSizeBytes: 64 * block, maxEntryBytes: 40 * block };
    const [first, second] = [await directory.open(limits), await directory.open(limits)];
    const large = { key: 'large', sizeBytes: 40 * block };
    const writer = await openSampleWriter(first.store, large);
    await writeSample(writer, block, large);
    const storing = () => storeSample(second.store, { ...large, key: 'other' });
    await expect(storing()).rejects.toMatchObject({ name: 'StoreFault', reason: 'no_room' });
    await storeSample(second.store, { key: 'small', sizeBytes: 10 * block });
    directory.cut(first);
    second.store.applyChange({ kind: 'fallen', instances: [first.instance] });
    // Its files count until they are swept.
    await vi.waitFor(storing);
    expect(second.store.readUsage().usedBytes).toBeLessThanOrEqual(limits.maxSizeBytes);
  });

  it('is not made incomplete by another store that reads it before it is whole', async () => {
    const directory = await createSharedDirectory();
    const [first, second] = [await directory.open(), await directory.open()];
    await using writer = await openSampleWriter(first.store, sample);
    await writeBlocks(writer, block, sample, [0]);
    await writer.publish(sampleMetadata(1));
    const reader = await ((await findFirst(second.store, 'k')) as StoredEntry).open();
    await expect(reader.readBlock(1)).rejects.toMatchObject({ code: 'bytes_gone' });
    await writeBlocks(writer, block, sample, [1, 2]);
    await writer.commit({ metadata: sampleMetadata(1), sizeBytes });
    for (const index of [0, 1, 2]) {
      expect(Buffer.from(await reader.readBlock(index))).toEqual(Buffer.from(blockOf(sample, block, index)));
    }
    reader.close();
    for (const { store } of [first, second]) expect(await findFirst(store, 'k')).toMatchObject({ isComplete: true });
  });
});

describe('leftover files', () => {
  it('of a process that has died are swept by its replacement, and none that others are writing', async () => {
    const directory = await createSharedDirectory();
    const [first, second] = [await directory.open(), await directory.open()];
    await using living = await openSampleWriter(first.store, { ...sample, key: 'living' });
    await writeBlocks(living, block, sample, [0, 1, 2]);
    const dead = await openSampleWriter(second.store, { ...sample, key: 'dead' });
    await writeBlocks(dead, block, sample, [0, 1, 2]);
    await storePart(second.store, { ...sample, key: 'part' }, [0]);
    expect(await bodyFiles(directory.dir)).toHaveLength(6);
    directory.cut(second);
    first.store.applyChange({ kind: 'fallen', instances: [second.instance] });
    const third = await directory.open({}, { fallen: [second.instance] });
    await expect.poll(() => bodyFiles(directory.dir)).toHaveLength(4);
    await living.commit({ metadata: sampleMetadata(1), sizeBytes });
    expect(await readKey(third.store, 'living')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 1)));
    expect(await third.store.find('part')).toHaveLength(1);
  });

  it('of a fleet that has died are swept by the first store of the next one, and its reservations are dropped', async () => {
    const directory = await createSharedDirectory();
    const limits = { maxSizeBytes: 64 * block, maxEntryBytes: 40 * block };
    const earlier = await directory.open(limits);
    const writer = await openSampleWriter(earlier.store, { ...sample, sizeBytes: 40 * block });
    await writeBlocks(writer, block, { ...sample, sizeBytes: 40 * block }, Array(40).keys());
    directory.cut(earlier);
    const [first, second] = [await directory.open(limits, { isFirst: true }), await directory.open(limits)];
    await using current = await openSampleWriter(second.store, { ...sample, key: 'current' });
    await writeBlocks(current, block, sample, [0, 1, 2]);
    await expect.poll(() => bodyFiles(directory.dir)).toHaveLength(2);
    await storeSample(first.store, { key: 'large', sizeBytes: 40 * block });
    await current.commit({ metadata: sampleMetadata(1), sizeBytes });
    expect(await readKey(first.store, 'current')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 1)));
  });
});

describe('leftover files that cannot be removed', () => {
  it('count as used until they are removed', async () => {
    const directory = await createSharedDirectory();
    const limits = { maxSizeBytes: 64 * block, maxEntryBytes: 40 * block };
    const dead = await directory.open(limits);
    const writer = await openSampleWriter(dead.store, { ...sample, sizeBytes: 40 * block });
    await writeBlocks(writer, block, { ...sample, sizeBytes: 40 * block }, Array(40).keys());
    directory.cut(dead);
    const tried: string[] = [];
    const unlink = async (path: string) => {
      tried.push(path);
      throw Object.assign(new Error('not permitted'), { code: 'EACCES' });
    };
    const fileSystem = { ...promises, unlink: unlink as typeof promises.unlink };
    const { store } = await directory.open({ ...limits, fileSystem }, { isFirst: true });
    await expect.poll(() => tried.length).toBeGreaterThanOrEqual(2);
    await expect(storeSample(store, { key: 'large', sizeBytes: 40 * block })).rejects.toMatchObject({
      reason: 'no_room',
    });
  });
});

describe('an index that turns out to be damaged', () => {
  /** Creates a directory whose index is damaged in a place that shows only when it is read. */
  async function damagedDirectory() {
    const directory = await createSharedDirectory();
    const filled = await directory.open();
    for (let at = 0; at < 400; at += 1) await storeSample(filled.store, { key: `k${at}`, sizeBytes: 700 });
    await storeSample(filled.store, { key: 'files', sizeBytes });
    await filled.store.close();
    directory.cut(filled);
    await trashTable(join(directory.dir, 'index.sqlite'), 'entries');
    return directory;
  }

  it('is set aside by the store that finds it, and all go on with the same fresh index', async () => {
    const directory = await damagedDirectory();
    const [first, second] = [await directory.open({}, { isFirst: true }), await directory.open({}, { wrap: tiered })];
    await using writing = await openSampleWriter(second.store, { ...sample, key: 'writing' });
    await writeBlocks(writing, block, sample, [0, 1, 2]);
    await using part = await openSampleWriter(second.store, { ...sample, key: 'part' });
    await writeBlocks(part, block, sample, [0]);
    await part.publish(sampleMetadata(1));
    for (let at = 0; at < 400; at += 1) expect(await first.store.find(`k${at}`)).toEqual([]);
    await expect.poll(() => directory.told.some(({ change }) => change.kind === 'fresh')).toBe(true);
    for (let turns = 0; turns < 20; turns += 1) await turn();
    await writing.commit({ metadata: sampleMetadata(1), sizeBytes });
    await storeSample(first.store, { key: 'new', sizeBytes, seed: 2 });
    await writeBlocks(part, block, sample, [1, 2]);
    await part.commit({ metadata: sampleMetadata(1), sizeBytes });
    for (const [key, seed] of [
      ['writing', 1],
      ['part', 1],
      ['new', 2],
    ] as const) {
      for (const { front } of [first, second])
        expect(await readKey(front, key)).toEqual(Buffer.from(patternBytes(0, sizeBytes, seed)));
    }
    expect(directory.told.filter(({ change }) => change.kind === 'fresh')).toHaveLength(1);
    expect([...first.events, ...second.events].filter(({ level }) => level === 'error')).toHaveLength(1);
    await expect.poll(() => orphanedFiles(directory.dir)).toEqual([]);
    expect(await bodyFiles(directory.dir)).toHaveLength(6);
  });

  it('when a store opens it is set aside, and stores that had it open go on with the fresh index', async () => {
    const directory = await createSharedDirectory();
    const [first] = [await directory.open({}, { wrap: tiered })];
    await storeSample(first.front, sample);
    const path = join(directory.dir, 'index.sqlite');
    const other = new DatabaseSync(path);
    other.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    other.close();
    await overwrite(path, 0, Buffer.alloc(100, 0xa5));
    const second = await directory.open({}, { wrap: tiered });
    await expect.poll(() => directory.told.some(({ change }) => change.kind === 'fresh')).toBe(true);
    await storeSample(second.front, { ...sample, seed: 2 });
    for (const { front } of [first, second]) {
      expect(await readKey(front, 'k')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 2)));
    }
    await first.front.removeKey('k');
    for (const { front } of [first, second]) expect(await front.find('k')).toEqual([]);
    await expect.poll(() => bodyFiles(directory.dir)).toEqual([]);
  });

  it('to two stores at once is set aside once, and the fresh index is not', async () => {
    const directory = await damagedDirectory();
    const [first, second] = [await directory.open({}, { isFirst: true }), await directory.open()];
    const release = directory.hold();
    const findAll = async ({ store }: typeof first) => {
      for (let at = 0; at < 400; at += 1) expect(await store.find(`k${at}`)).toEqual([]);
    };
    await findAll(first);
    const storing = storeSample(first.store, { key: 'kept', sizeBytes: 1 });
    await expect.poll(() => first.store.find('kept')).toHaveLength(1);
    // The other store has not heard of it yet, and finds the damage by itself.
    await findAll(second);
    release();
    await storing;
    for (const { store } of [first, second]) expect(await store.find('kept')).toHaveLength(1);
    expect([...first.events, ...second.events].filter(({ level }) => level === 'error')).toHaveLength(1);
  });
});

it('uses in one store spare an entry when another store evicts', async () => {
  const directory = await createSharedDirectory();
  const limits = { maxSizeBytes: 64 * block };
  const [first, second] = [await directory.open(limits), await directory.open(limits)];
  const used = await storeSample(first.store, { ...sample, key: 'used' });
  await storeSample(first.store, { ...sample, key: 'idle' });
  const inSecond = (await findFirst(second.store, 'used')) as StoredEntry;
  for (let at = 0; at < 30; at += 1) {
    inSecond.peekBlock(0);
    await storeSample(first.store, { key: `other${at}`, sizeBytes: 4 * block });
  }
  expect(await second.store.find('idle')).toEqual([]);
  expect(await second.store.find('used')).toMatchObject([{ generation: used.generation }]);
});

it('two stores that evict at the same time stay within the size', async () => {
  const directory = await createSharedDirectory();
  const limits = { maxSizeBytes: 64 * block };
  const stores = [await directory.open(limits), await directory.open(limits)];
  await Promise.all(stores.map(({ store, instance }) => pushOut(store, 4 * block, instance)));
  for (const { store } of stores) {
    expect(store.readUsage().usedBytes).toBeLessThanOrEqual(limits.maxSizeBytes);
    expect(store.readUsage().entryCount).toBeGreaterThan(5);
  }
  expect(stores.flatMap(({ events }) => events)).toEqual([]);
});

it('a change of unknown entries is heeded without harm, also by a closed store', async () => {
  const directory = await createSharedDirectory();
  const { front } = await directory.open({}, { wrap: tiered });
  await storeSample(front, sample);
  const changes: readonly StoreChange[] = [
    { kind: 'keys', keys: ['k', 'none'] },
    { kind: 'generations', generations: ['none'] },
    { kind: 'lost', generations: ['none'] },
    { kind: 'fresh' },
    { kind: 'evicting' },
    { kind: 'fallen', instances: ['none'] },
  ];
  for (const change of changes) front.applyChange(change);
  expect(await readKey(front, 'k')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 1)));
  await front.close();
  for (const change of changes) front.applyChange(change);
});

it('a directory can be used by one store, then shared, then by one store again', async () => {
  const alone = await openTestStore();
  await storeSample(alone.store, sample);
  await alone.store.close();
  const directory = await createSharedDirectory();
  const shared = await directory.open({ dir: alone.dir });
  expect(await readKey(shared.store, 'k')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 1)));
  await storeSample(shared.store, { ...sample, key: 'shared' });
  await shared.store.close();
  const again = await openTestStore({ dir: alone.dir });
  expect(await readKey(again.store, 'shared')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 1)));
  expect((await readdir(alone.dir)).sort()).toEqual([
    'blocks',
    'index.sqlite',
    'index.sqlite-wal',
    'members.lock',
    'owner.lock',
  ]);
});

it('a part that another store removes while it is opened for writing does not turn storing off', async () => {
  const directory = await createSharedDirectory();
  const [first, second] = [await directory.open(), await directory.open()];
  const part = await storePart(first.store, sample, [1]);
  const release = directory.hold();
  const removing = first.store.removeKey('k');
  await expect.poll(() => bodyFiles(directory.dir)).toEqual([]);
  const writer = await second.store.resume(part).catch((error) => {
    expect(error).toMatchObject({ name: 'StoreFault' });
    return undefined;
  });
  await writer?.writeBlock(0, blockOf(sample, block, 0)).catch((error) => {
    expect(error).toMatchObject({ name: 'StoreFault', reason: 'removed' });
  });
  release();
  await removing;
  await storeSample(second.store, { ...sample, key: 'other' });
  await writer?.[Symbol.asyncDispose]();
  expect([...first.events, ...second.events]).toEqual([]);
});
