/** Damage to body files costs the damaged blocks and one log line; never a wrong byte, never the other blocks. */

import { execFileSync } from 'node:child_process';
import { readSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readFileInto } from '../../src/setup/store.ts';
import { monotonicClock } from '../../src/setup/system.ts';
import type { Store } from '../../src/store/store.ts';
import { flipBit } from '../support/stores/damage.ts';
import { bodyFiles, openTestStore, temporaryDirectory } from '../support/stores/disk-store.ts';
import {
  blockOf,
  findFirst,
  readAll,
  readKey,
  sampleMetadata,
  storePart,
  storeSample,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const block = 16 * 1024;
const sizeBytes = 4 * block + 100;
const sample = { key: 'k', sizeBytes, seed: 1 };
const bytes = Buffer.from(patternBytes(0, sizeBytes, 1));

/** Opens a store with one entry in files; returns the paths of these too. */
async function storeWithFiles() {
  const opened = await openTestStore();
  await storeSample(opened.store, { key: 'k', sizeBytes, seed: 1 });
  const [body = '', sums = ''] = await bodyFiles(opened.dir);
  return { ...opened, body, sums };
}

/** Returns the names of all files in the directories of bodies. */
async function namesIn(dir: string): Promise<string[]> {
  const entries = await readdir(join(dir, 'blocks'), { recursive: true });
  return entries.filter((name) => name.includes('.'));
}

/** Reads blocks until one is refused, and checks those before it. Returns its index, or undefined where none is refused. */
async function firstRefusedBlock(store: Store): Promise<number | undefined> {
  const entry = await findFirst(store, 'k');
  const reader = await entry?.open();
  for (let index = 0; index * block < sizeBytes; index += 1) {
    try {
      const read = await reader?.readBlock(index);
      expect(Buffer.from(read ?? [])).toEqual(bytes.subarray(index * block, (index + 1) * block));
    } catch (error) {
      expect(error).toMatchObject({ code: 'bytes_gone' });
      reader?.close();
      return index;
    }
  }
  reader?.close();
  return undefined;
}

/** Reads each block, and writes those that are absent; returns the indexes of the written blocks. */
async function repair(store: Store): Promise<number[]> {
  const entry = await findFirst(store, 'k');
  if (entry === undefined) throw new Error('the entry is gone');
  expect(entry.isComplete).toBe(false);
  await using writer = await store.resume(entry);
  const rewritten: number[] = [];
  for (let index = 0; index * block < sizeBytes; index += 1) {
    const read = await writer?.readBlock(index).catch(() => undefined);
    expect(writer?.hasBlock(index)).toBe(read !== undefined);
    if (read !== undefined) continue;
    rewritten.push(index);
    await writer?.writeBlock(index, blockOf(sample, block, index));
  }
  await writer?.commit({ metadata: sampleMetadata(1), sizeBytes });
  return rewritten;
}

describe('a damaged body', () => {
  type Files = Awaited<ReturnType<typeof storeWithFiles>>;
  const damages: readonly [string, number, (files: Files) => Promise<unknown>][] = [
    ['a bit of the first block flipped', 0, ({ body }) => flipBit(body, 0)],
    ['a bit within the third block flipped', 2, ({ body }) => flipBit(body, 2 * block + 77, 5)],
    ['the last bit flipped', 4, ({ body }) => flipBit(body, sizeBytes - 1, 7)],
    ['the body cut by one byte', 4, ({ body }) => truncate(body, sizeBytes - 1)],
    ['the body cut to nothing', 0, ({ body }) => truncate(body, 0)],
    ['two blocks exchanged', 0, ({ body }) => exchangeBlocks(body)],
    ["a bit of a block's length in the sidecar flipped", 1, ({ sums }) => flipBit(sums, 8, 3)],
    ["the top bit of a block's length in the sidecar flipped", 1, ({ sums }) => flipBit(sums, 11, 7)],
    ['a bit of a checksum flipped', 3, ({ sums }) => flipBit(sums, 3 * 8 + 4)],
    ['the sidecar cut within the last record', 4, ({ sums }) => truncate(sums, 4 * 8 + 5)],
    ['the sidecar cut to nothing', 0, ({ sums }) => truncate(sums, 0)],
  ];
  it.each(damages)('%s: block %i is refused, and only damaged blocks are written again', async (_, refused, damage) => {
    const files = await storeWithFiles();
    await damage(files);
    expect(await firstRefusedBlock(files.store)).toBe(refused);
    expect(files.events).toMatchObject([{ level: 'warn', message: expect.stringContaining('damaged') }]);
    const rewritten = await repair(files.store);
    expect(rewritten).toContain(refused);
    expect(await readKey(files.store, 'k')).toEqual(bytes);
    expect(await findFirst(files.store, 'k')).toMatchObject({ isComplete: true });
    await files.store.close();
    const { store, events } = await openTestStore({ dir: files.dir });
    expect(await readKey(store, 'k')).toEqual(bytes);
    expect(events).toEqual([]);
  });

  it('lacks the damaged block after a restart too', async () => {
    const files = await storeWithFiles();
    await flipBit(files.body, 2 * block);
    expect(await firstRefusedBlock(files.store)).toBe(2);
    await files.store.close();
    const { store, events } = await openTestStore({ dir: files.dir });
    const entry = await findFirst(store, 'k');
    expect(entry).toMatchObject({ isComplete: false });
    await using writer = entry && (await store.resume(entry));
    expect([0, 1, 2, 3, 4].map((index) => writer?.hasBlock(index))).toEqual([true, true, false, true, true]);
    expect(events).toEqual([]);
  });

  it('is detected by its writer, which writes the block again', async () => {
    const files = await storeWithFiles();
    await flipBit(files.body, 2 * block);
    const entry = await findFirst(files.store, 'k');
    await using writer = entry && (await files.store.resume(entry));
    expect(writer?.hasBlock(2)).toBe(true);
    await expect(writer?.readBlock(2)).rejects.toMatchObject({ code: 'bytes_gone' });
    expect(writer?.hasBlock(2)).toBe(false);
    expect(await findFirst(files.store, 'k')).toMatchObject({ isComplete: false });
    const final = { metadata: sampleMetadata(1), sizeBytes };
    await expect(writer?.commit(final)).rejects.toMatchObject({ name: 'StoreFault', reason: 'io' });
    await writer?.writeBlock(2, blockOf(sample, block, 2));
    expect(await writer?.commit(final)).toMatchObject({ isComplete: true });
    expect(await readKey(files.store, 'k')).toEqual(bytes);
    expect(files.events).toHaveLength(1);
  });

  it('of a part is logged for the damaged block, and not for an absent one', async () => {
    const { store, dir, events } = await openTestStore();
    const entry = await storePart(store, sample, [1, 3]);
    const [body = ''] = await bodyFiles(dir);
    await flipBit(body, 3 * block);
    const reader = await entry.open();
    for (const index of [0, 3, 3, 2])
      await expect(reader.readBlock(index)).rejects.toMatchObject({ code: 'bytes_gone' });
    expect(events).toMatchObject([{ level: 'warn', detail: expect.stringContaining('Block 3') }]);
    reader.close();
    await using writer = await store.resume(entry);
    expect([0, 1, 2, 3, 4].map((index) => writer?.hasBlock(index))).toEqual([false, true, false, false, false]);
  });

  const losses: readonly [string, (files: Files) => Promise<unknown>][] = [
    ['the body', ({ body }) => rm(body)],
    ['the sidecar', ({ sums }) => rm(sums)],
    ['both', ({ body, sums }) => Promise.all([rm(body), rm(sums)])],
  ];
  it.each(losses)('%s deleted: the entry is dropped when it is opened', async (_, lose) => {
    const files = await storeWithFiles();
    await lose(files);
    const entry = await findFirst(files.store, 'k');
    await expect(entry?.open()).rejects.toMatchObject({ code: 'bytes_gone' });
    expect(await files.store.find('k')).toEqual([]);
    expect(files.events).toHaveLength(1);
    await storeSample(files.store, { key: 'k', sizeBytes, seed: 2 });
    expect(await readKey(files.store, 'k')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 2)));
  });

  describe('something other than a file in place of', () => {
    const kinds: [string, (path: string) => Promise<unknown> | Buffer][] = [
      ['a directory', (path) => mkdir(path)],
      ['a pipe', (path) => execFileSync('mkfifo', [path])],
      ['a link to a file', (path) => symlink(fileURLToPath(import.meta.url), path)],
      ['a link to a device', (path) => symlink('/dev/zero', path)],
      ['a link to nothing', (path) => symlink('/nowhere', path)],
    ];
    // Only root may create a device.
    if (process.getuid?.() === 0) kinds.push(['a device', (path) => execFileSync('mknod', [path, 'c', '1', '5'])]);
    const rows = kinds.flatMap(([kind, put]) => (['body', 'sums'] as const).map((which) => ({ kind, put, which })));

    it.each(rows)('the $which, $kind: the entry and the thing are removed, and storing goes on', async (row) => {
      const files = await storeWithFiles();
      await rm(files[row.which]);
      await row.put(files[row.which]);
      await expect((await findFirst(files.store, 'k'))?.open()).rejects.toMatchObject({ code: 'bytes_gone' });
      expect(await files.store.find('k')).toEqual([]);
      await expect.poll(() => namesIn(files.dir)).toEqual([]);
      await storeSample(files.store, { key: 'k', sizeBytes, seed: 2 });
      expect(await readKey(files.store, 'k')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 2)));
      expect(files.events).toMatchObject([{ message: 'A stored entry was damaged and has been removed.' }]);
      await expect(readFile(fileURLToPath(import.meta.url))).resolves.toBeDefined();
    });

    it.each(kinds)('a body of one block, %s: the entry and the thing are removed', async (_, put) => {
      const elapsed = monotonicClock.now;
      const quick = { elapsed, readSync, readFileInto, after: () => () => {} };
      const { store, dir, events } = await openTestStore({ blockSizeBytes: 256 * 1024, quickReads: quick });
      await storeSample(store, { key: 'k', sizeBytes: 100_000, seed: 1 });
      const [body = ''] = await bodyFiles(dir);
      await rm(body);
      await put(body);
      const entry = await findFirst(store, 'k');
      expect(entry?.readBlockNow?.(0)).toBeUndefined();
      await expect(entry?.open()).rejects.toMatchObject({ code: 'bytes_gone' });
      await expect.poll(() => namesIn(dir)).toEqual([]);
      expect(events).toHaveLength(1);
    });

    it.each(rows)(
      'the $which of a part that is resumed, $kind: the part is dropped, and storing goes on',
      async (row) => {
        const { store, dir, events } = await openTestStore();
        const entry = await storePart(store, sample, [1]);
        // A reader keeps the files open.
        const reader = await entry.open();
        const [body = '', sums = ''] = await bodyFiles(dir);
        const path = row.which === 'body' ? body : sums;
        await rm(path);
        await row.put(path);
        const writer = await store.resume(entry);
        await expect(writer?.writeBlock(0, blockOf(sample, block, 0))).rejects.toMatchObject({ reason: 'removed' });
        await writer?.[Symbol.asyncDispose]();
        reader.close();
        expect(await store.find('k')).toEqual([]);
        await storeSample(store, sample);
        expect(await readKey(store, 'k')).toEqual(bytes);
        expect(events).toMatchObject([{ message: 'A stored entry was damaged and has been removed.' }]);
      },
    );

    it('the body, a directory that is not empty: it stays, and that is logged', async () => {
      const files = await storeWithFiles();
      await rm(files.body);
      await mkdir(files.body);
      await writeFile(join(files.body, 'NOTES.txt'), 'mine');
      await expect((await findFirst(files.store, 'k'))?.open()).rejects.toMatchObject({ code: 'bytes_gone' });
      await expect.poll(() => files.events).toHaveLength(2);
      expect(files.events[1]).toMatchObject({ message: 'Something in the directory of the store cannot be removed.' });
      expect(await readFile(join(files.body, 'NOTES.txt'), 'utf8')).toBe('mine');
    });

    it('a directory of bodies, a link: its target is not swept', async () => {
      const { store, dir } = await openTestStore();
      await store.close();
      const elsewhere = await temporaryDirectory();
      await writeFile(join(elsewhere, 'de-ad.body'), 'mine');
      await symlink(elsewhere, join(dir, 'blocks', 'de'));
      await mkdir(join(dir, 'blocks', 'be'));
      await writeFile(join(dir, 'blocks', 'be', 'be-ef.body'), '');
      const { events } = await openTestStore({ dir });
      await expect.poll(() => events).toMatchObject([{ detail: '1 bodies' }]);
      expect(await readdir(elsewhere)).toEqual(['de-ad.body']);
    });
  });

  it('is logged once for many readers, and does not affect another entry', async () => {
    const { store, events, body } = await storeWithFiles();
    await storeSample(store, { key: 'other', sizeBytes, seed: 2 });
    await flipBit(body, 0);
    const entry = await findFirst(store, 'k');
    const readers = await Promise.all(Array.from({ length: 8 }, async () => await entry?.open()));
    const reads = await Promise.allSettled(readers.map((reader) => reader?.readBlock(0)));
    for (const reader of readers) reader?.close();
    expect(new Set(reads.map((read) => read.status))).toEqual(new Set(['rejected']));
    expect(events).toHaveLength(1);
    expect(await readKey(store, 'other')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 2)));
  });

  it('does not affect the generation that replaced it', async () => {
    const { store, body } = await storeWithFiles();
    const reader = await (await findFirst(store, 'k'))?.open();
    await flipBit(body, 0);
    await storeSample(store, { key: 'k', sizeBytes, seed: 2 });
    await expect(reader?.readBlock(0)).rejects.toMatchObject({ code: 'bytes_gone' });
    reader?.close();
    expect(await readKey(store, 'k')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 2)));
  });

  it('is detected when its writer reads it', async () => {
    const { store, dir } = await openTestStore();
    await using writer = await store.openWriter({ key: 'k', variant: '', metadata: sampleMetadata(), sizeBytes });
    for (let index = 0; index < 4; index += 1) {
      await writer.writeBlock(index, patternBytes(index * block, (index + 1) * block));
    }
    const [body = ''] = await bodyFiles(dir);
    await flipBit(body, block);
    await expect(writer.readBlock(1)).rejects.toMatchObject({ code: 'bytes_gone' });
    expect(await readAll(writer, block, block)).toEqual(Buffer.from(patternBytes(0, block)));
  });

  it('never gives a wrong byte, whichever bit is flipped', async () => {
    await fc.assert(
      fc.asyncProperty(fc.boolean(), fc.nat(), fc.nat(7), async (inSums, place, bit) => {
        const { store, body, sums } = await storeWithFiles();
        const path = inSums ? sums : body;
        await flipBit(path, place % (await stat(path)).size, bit);
        expect(await firstRefusedBlock(store)).toBeDefined();
        await store.close();
      }),
      { numRuns: 20 },
    );
  });
});

async function exchangeBlocks(path: string): Promise<void> {
  const body = await readFile(path);
  await writeFile(
    path,
    Buffer.concat([body.subarray(block, 2 * block), body.subarray(0, block), body.subarray(2 * block)]),
  );
}
