/** A disk that is full or fails: storing goes off with one log line, and on again later; stored entries are still served. */

import { readdir } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { type Store, StoreFault } from '../../src/store/store.ts';
import { bodyFiles, openTestStore } from '../support/stores/disk-store.ts';
import { FailingFileSystem } from '../support/stores/failing-file-system.ts';
import {
  openSampleWriter,
  readKey,
  sampleMetadata,
  storePart,
  storeSample,
  writeBlocks,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const block = 16 * 1024;
const sizeBytes = 4 * block;

async function openOnFailingDisk(maxSizeBytes = 64 * 1024 * 1024) {
  const disk = new FailingFileSystem();
  return { disk, ...(await openTestStore({ fileSystem: disk.fileSystem, maxSizeBytes })) };
}

describe('a disk that cannot be written', () => {
  const faults: readonly [string, string, string][] = [
    ['ENOSPC', 'no_room', 'Storing is off: the disk is full. Requests go on.'],
    ['EDQUOT', 'no_room', 'Storing is off: the disk is full. Requests go on.'],
    ['EIO', 'io', 'Storing is off: the disk cannot be written. Requests go on.'],
    ['EROFS', 'io', 'Storing is off: the disk cannot be written. Requests go on.'],
    ['EMFILE', 'io', 'Storing is off: the disk cannot be written. Requests go on.'],
  ];
  it.each(faults)(
    '(%s) refuses with %s, is logged once, and stored entries are served',
    async (code, reason, message) => {
      const { disk, store, events, dir } = await openOnFailingDisk();
      await storeSample(store, { key: 'kept', sizeBytes, seed: 1 });
      disk.writeFault = code;
      for (let at = 0; at < 5; at += 1) {
        await expect(storeSample(store, { key: `k${at}`, sizeBytes })).rejects.toMatchObject({
          name: 'StoreFault',
          reason,
        });
      }
      expect(events).toMatchObject([{ level: 'warn', message }]);
      expect(await readKey(store, 'kept')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 1)));
      expect(await bodyFiles(dir)).toHaveLength(2);
    },
  );

  it('is tried again after a while, by one writer at a time, and storing goes on again', async () => {
    const { disk, store, events, clock } = await openOnFailingDisk();
    disk.writeFault = 'ENOSPC';
    await expect(storeSample(store, { key: 'k', sizeBytes })).rejects.toMatchObject({ reason: 'no_room' });
    clock.advance(11_000);
    await expect(storeSample(store, { key: 'k', sizeBytes })).rejects.toMatchObject({ reason: 'no_room' });
    await expect(openSampleWriter(store, { key: 'k', sizeBytes: 1 })).rejects.toMatchObject({ reason: 'no_room' });
    expect(events).toHaveLength(1);
    disk.writeFault = undefined;
    await expect(openSampleWriter(store, { key: 'k', sizeBytes })).rejects.toMatchObject({ reason: 'no_room' });
    clock.advance(11_000);
    await storeSample(store, { key: 'k', sizeBytes, seed: 2 });
    await storeSample(store, { key: 'k2', sizeBytes, seed: 3 });
    expect(await readKey(store, 'k')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 2)));
    expect(events.map((event) => event.message)).toEqual([
      'Storing is off: the disk is full. Requests go on.',
      'Storing is on again.',
    ]);
  });

  it('in the middle of a body keeps the written blocks readable, and leaves no file', async () => {
    const { disk, store, dir } = await openOnFailingDisk();
    const writer = await openSampleWriter(store, { key: 'k', sizeBytes });
    for (let index = 0; index < 3; index += 1) {
      await writer.writeBlock(index, patternBytes(index * block, (index + 1) * block));
    }
    disk.writeFault = 'ENOSPC';
    const last = patternBytes(3 * block, 4 * block);
    await expect(writer.writeBlock(3, last)).rejects.toMatchObject({ reason: 'no_room' });
    expect(writer.hasBlock(3)).toBe(false);
    disk.writeFault = undefined;
    expect(Buffer.from(await writer.readBlock(2))).toEqual(Buffer.from(patternBytes(2 * block, 3 * block)));
    await writer[Symbol.asyncDispose]();
    expect(await bodyFiles(dir)).toEqual([]);
  });

  it('at the last block leaves the earlier generation in its place', async () => {
    const { disk, store, dir } = await openOnFailingDisk();
    await storeSample(store, { key: 'k', sizeBytes, seed: 1 });
    const sample = { key: 'k', sizeBytes, seed: 2 };
    const writer = await openSampleWriter(store, sample);
    await writeBlocks(writer, block, sample, [0, 1, 2]);
    disk.writeFault = 'EIO';
    await expect(writeBlocks(writer, block, sample, [3])).rejects.toMatchObject({ reason: 'io' });
    await writer[Symbol.asyncDispose]();
    expect(await readKey(store, 'k')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 1)));
    expect(await bodyFiles(dir)).toHaveLength(2);
  });

  it('in the middle of a part keeps the blocks that were written before for later writers', async () => {
    const { disk, store, clock } = await openOnFailingDisk();
    const sample = { key: 'k', sizeBytes, seed: 1 };
    const entry = await storePart(store, sample, [0]);
    disk.writeFault = 'ENOSPC';
    const writer = await store.resume(entry);
    if (writer === undefined) throw new Error('the part is gone');
    await expect(writeBlocks(writer, block, sample, [2])).rejects.toMatchObject({ reason: 'no_room' });
    expect(Buffer.from(await writer.readBlock(0))).toEqual(Buffer.from(patternBytes(0, block, 1)));
    await writer[Symbol.asyncDispose]();
    disk.writeFault = undefined;
    clock.advance(11_000);
    const second = await store.resume(entry);
    if (second === undefined) throw new Error('the part is gone');
    expect([0, 1, 2, 3].map((index) => second.hasBlock(index))).toEqual([true, false, false, false]);
    await writeBlocks(second, block, sample, [3, 2, 1]);
    await second.commit({ metadata: sampleMetadata(1), sizeBytes });
    await second[Symbol.asyncDispose]();
    expect(await readKey(store, 'k')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 1)));
  });

  it('lets parts be read, and admits one writer now and then', async () => {
    const { disk, store, clock } = await openOnFailingDisk();
    const sample = { key: 'k', sizeBytes, seed: 1 };
    const entry = await storePart(store, sample, [0]);
    disk.writeFault = 'EIO';
    await expect(storeSample(store, { key: 'other', sizeBytes })).rejects.toMatchObject({ reason: 'io' });
    disk.writeFault = undefined;
    const writer = await store.resume(entry);
    if (writer === undefined) throw new Error('the part is gone');
    expect(Buffer.from(await writer.readBlock(0))).toEqual(Buffer.from(patternBytes(0, block, 1)));
    await expect(writeBlocks(writer, block, sample, [1])).rejects.toMatchObject({ reason: 'io' });
    clock.advance(11_000);
    await writeBlocks(writer, block, sample, [1]);
    await writer[Symbol.asyncDispose]();
    await storeSample(store, { key: 'other', sizeBytes });
  });
});

it('a disk that is full again and again is logged once in ten minutes', async () => {
  const { disk, store, events, clock } = await openOnFailingDisk();
  const fail = async () => {
    disk.writeFault = 'ENOSPC';
    await expect(storeSample(store, { key: 'k', sizeBytes })).rejects.toMatchObject({ reason: 'no_room' });
    disk.writeFault = undefined;
    clock.advance(11_000);
    await storeSample(store, { key: 'k', sizeBytes });
  };
  for (let at = 0; at < 20; at += 1) await fail();
  expect(events).toHaveLength(2);
  clock.advance(600_000);
  await fail();
  expect(events.map((event) => event.level)).toEqual(['warn', 'info', 'warn', 'info']);
});

describe('a disk that has less room than the store may use', () => {
  it('evicts the least used entries, so that storing goes on', async () => {
    const { disk, store, events, clock } = await openOnFailingDisk();
    for (let at = 0; at < 10; at += 1) await storeSample(store, { key: `k${at}`, sizeBytes });
    disk.writeFault = 'ENOSPC';
    disk.freeBytes = 0;
    await expect(storeSample(store, { key: 'new', sizeBytes })).rejects.toMatchObject({ reason: 'no_room' });
    disk.writeFault = undefined;
    clock.advance(11_000);
    await storeSample(store, { key: 'new', sizeBytes, seed: 5 });
    expect(await readKey(store, 'new')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 5)));
    expect(await store.find('k0')).toEqual([]);
    expect(await store.find('k9')).toHaveLength(1);
    expect(events.map((event) => event.level)).toEqual(['warn', 'info']);
  });

  it('stores more again when the disk has more room', async () => {
    const { disk, store, clock } = await openOnFailingDisk();
    await storeSample(store, { key: 'k', sizeBytes });
    disk.writeFault = 'ENOSPC';
    disk.freeBytes = 0;
    await expect(storeSample(store, { key: 'new', sizeBytes })).rejects.toMatchObject({ reason: 'no_room' });
    disk.writeFault = undefined;
    disk.freeBytes = undefined;
    clock.advance(11_000);
    for (let at = 0; at < 10; at += 1) await storeSample(store, { key: `k${at}`, sizeBytes });
    expect(await store.find('k')).toHaveLength(1);
    expect(await store.find('k0')).toHaveLength(1);
  });
});

describe('a disk that other programs have filled', () => {
  it('is not filled to the last byte: old entries are evicted for new ones', async () => {
    const { disk, store, events } = await openOnFailingDisk();
    for (let at = 0; at < 10; at += 1) await storeSample(store, { key: `k${at}`, sizeBytes });
    disk.freeBytes = 32 * 1024 * 1024;
    // The free space is measured only now and then.
    for (let at = 0; at < 300; at += 1) await storeSample(store, { key: `new${at}`, sizeBytes, seed: at });
    const kept: number[] = [];
    for (let at = 0; at < 300; at += 1) if ((await readKey(store, `new${at}`)) !== undefined) kept.push(at);
    expect(await store.find('k0')).toEqual([]);
    expect(kept).toContain(299);
    expect(kept).not.toContain(0);
    expect(events).toEqual([]);
  });
});

describe('a disk that cannot be read', () => {
  it('costs the entry, and is logged once', async () => {
    const { disk, store, events } = await openOnFailingDisk();
    await storeSample(store, { key: 'k', sizeBytes, seed: 1 });
    disk.readFault = 'EIO';
    expect(await readKey(store, 'k')).toBeUndefined();
    expect(await readKey(store, 'k')).toBeUndefined();
    expect(await store.find('k')).toEqual([]);
    expect(events).toMatchObject([{ level: 'warn', detail: expect.stringContaining('EIO') }]);
  });
});

describe('a body that cannot be opened now', () => {
  it.each(['EMFILE', 'ENFILE', 'ENOMEM', 'EACCES', 'EPERM'])(
    'because of %s is not lost, and is logged at warn once',
    async (code) => {
      const { disk, store, events } = await openOnFailingDisk();
      await storeSample(store, { key: 'k', sizeBytes, seed: 1 });
      disk.openFault = code;
      for (let at = 0; at < 3; at += 1) expect(await readKey(store, 'k')).toBeUndefined();
      disk.openFault = undefined;
      expect(await readKey(store, 'k')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 1)));
      const detail = expect.stringContaining(code);
      expect(events).toMatchObject(['warn', 'debug', 'debug'].map((level) => ({ level, detail })));
    },
  );
});

describe('open files', () => {
  it('are shared by the readers of one generation', async () => {
    const { disk, store } = await openOnFailingDisk();
    const entry = await storeSample(store, { key: 'k', sizeBytes });
    const readers = await Promise.all(Array.from({ length: 50 }, () => entry.open()));
    expect(disk.opens).toBe(2);
    for (const reader of readers.slice(1)) reader.close();
    await readers[0]?.readBlock(3);
    readers[0]?.close();
    (await entry.open()).close();
    expect(disk.opens).toBe(4);
  });

  it('are closed again, whatever happens', async ({ skip }) => {
    const descriptors = async () => (await readdir('/proc/self/fd').catch(() => skip('no /proc here'))).length;
    const { disk, store, clock } = await openOnFailingDisk(2 * 1024 * 1024);
    await storeSample(store, { key: 'warm', sizeBytes, seed: 1 });
    const before = await descriptors();
    for (let at = 0; at < 40; at += 1) {
      const entry = await storeSample(store, { key: `k${at}`, sizeBytes, seed: at });
      const readers = await Promise.all([entry.open(), entry.open(), entry.open()]);
      if (at % 2 === 0) await store.removeEntry(entry);
      if (at % 3 === 0) disk.writeFault = 'ENOSPC';
      if (at % 3 === 0) await expect(storeSample(store, { key: 'f', sizeBytes })).rejects.toThrow(StoreFault);
      disk.writeFault = undefined;
      clock.advance(11_000);
      await Promise.all(readers.map((reader) => reader.readBlock(1)));
      for (const reader of readers) reader.close();
      const abandoned = await openSampleWriter(store, { key: 'a', sizeBytes });
      for (let index = 0; index < 3; index += 1) {
        await abandoned.writeBlock(index, patternBytes(index * block, (index + 1) * block));
      }
      await abandoned[Symbol.asyncDispose]();
      await addToPart(store, at % 4, at % 5 === 0);
      await entry.open().then(
        (reader) => reader.close(),
        () => {},
      );
    }
    // Files that were still closing at the first count have closed by now.
    await expect.poll(descriptors).toBeLessThanOrEqual(before);
    await store.close();
    expect(await descriptors()).toBeLessThan(before);
  });
});

/** Stores a part of one block and writes block 0; removes the part between the two if `isRemoved`. */
async function addToPart(store: Store, index: number, isRemoved: boolean): Promise<void> {
  const writer = await store.resume(await storePart(store, { key: 'p', sizeBytes }, [index]));
  if (isRemoved) await store.removeKey('p');
  await writer?.writeBlock(0, patternBytes(0, block));
  await writer?.[Symbol.asyncDispose]();
}
