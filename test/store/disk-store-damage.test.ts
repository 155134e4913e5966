/** What damage on the disk costs: the damaged entry or index, told once; never a wrong byte, never the service. */

import { open, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { bodyFiles, openTestStore } from '../support/disk-store.ts';
import { patternBytes } from '../support/pattern-body.ts';
import { findFirst, readAll, readKey, sampleMetadata, storeSample } from '../support/stored-sample.ts';

const block = 16 * 1024;
const sizeBytes = 4 * block + 100;
const bytes = Buffer.from(patternBytes(0, sizeBytes, 1));

/** Changes one bit of a file. */
async function flipBit(path: string, offset: number, bit = 0): Promise<void> {
  const file = await open(path, 'r+');
  const byte = Buffer.alloc(1);
  await file.read(byte, 0, 1, offset);
  await file.write(Buffer.from([(byte[0] ?? 0) ^ (1 << bit)]), 0, 1, offset);
  await file.close();
}

/** A store with one entry in files, and where these are. */
async function storeWithFiles() {
  const opened = await openTestStore();
  await storeSample(opened.store, { key: 'k', sizeBytes, seed: 1 });
  const [body = '', sums = ''] = await bodyFiles(opened.dir);
  return { ...opened, body, sums };
}

/** Reads block after block until one is refused; every one before must be right. Gives the first refused, or undefined. */
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
  it.each(damages)('%s: refused at block %i, and gone', async (_, refused, damage) => {
    const files = await storeWithFiles();
    await damage(files);
    expect(await firstRefusedBlock(files.store)).toBe(refused);
    expect(await files.store.find('k')).toEqual([]);
    expect(files.events).toMatchObject([{ level: 'warn', message: expect.stringContaining('damaged') }]);
    await files.store.close();
    expect(await bodyFiles(files.dir)).toEqual([]);
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

  it('is told once, although many read it, and takes nothing else along', async () => {
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

  it('leaves the generation that took its place alone', async () => {
    const { store, body } = await storeWithFiles();
    const reader = await (await findFirst(store, 'k'))?.open();
    await flipBit(body, 0);
    await storeSample(store, { key: 'k', sizeBytes, seed: 2 });
    await expect(reader?.readBlock(0)).rejects.toMatchObject({ code: 'bytes_gone' });
    reader?.close();
    expect(await readKey(store, 'k')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 2)));
  });

  it('is noticed through the writer too', async () => {
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

  it('never gives a wrong byte, wherever a bit flips', async () => {
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

describe('a damaged index', () => {
  /** Fills a store with entries inline and in files, and closes it. */
  async function closedStore(entries = 40) {
    const { store, dir } = await openTestStore();
    for (let at = 0; at < entries; at += 1) {
      await storeSample(store, { key: `k${at}`, sizeBytes: at % 8 === 0 ? sizeBytes : 700, seed: at });
    }
    await store.close();
    return { dir, index: join(dir, 'index.sqlite') };
  }

  const damages: readonly [string, (index: string) => Promise<unknown>][] = [
    ['is no database', (index) => writeFile(index, 'not a database, but long enough to look at '.repeat(200))],
    ['has not our tables', (index) => writeFile(index, foreignDatabase())],
    ['is cut', (index) => truncate(index, 4096 * 3 + 17)],
    ['has a first page of zeros', (index) => overwrite(index, 0, Buffer.alloc(4096))],
    ['has noise after the first page', (index) => overwrite(index, 4096, Buffer.from(patternBytes(0, 4096 * 30)))],
  ];
  it.each(damages)('that %s is set aside; the store begins empty', async (_, damage) => {
    const { dir, index } = await closedStore();
    await damage(index);
    const { store, events } = await openTestStore({ dir });
    expect(await store.find('k1')).toEqual([]);
    await storeSample(store, { key: 'k1', sizeBytes, seed: 99 });
    expect(await readKey(store, 'k1')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 99)));
    expect(events[0]).toMatchObject({ level: 'error', message: expect.stringContaining(`${index}.damaged`) });
    expect((await stat(`${index}.damaged`)).isFile()).toBe(true);
  });

  it('that is empty begins a store, and the bodies of the old one are swept', async () => {
    const { dir, index } = await closedStore();
    await writeFile(index, '');
    const { store } = await openTestStore({ dir });
    expect(await store.find('k1')).toEqual([]);
    await expect.poll(() => bodyFiles(dir)).toEqual([]);
  });

  it('that shows its damage only later is set aside then; what is being written goes on', async () => {
    const { dir, index } = await closedStore(400);
    await trashTable(index, 'entries');
    const { store, events } = await openTestStore({ dir });
    await using writer = await store.openWriter({ key: 'new', variant: '', metadata: sampleMetadata(), sizeBytes });
    for (let start = 0; start < sizeBytes; start += block) {
      await writer.writeBlock(start / block, patternBytes(start, Math.min(start + block, sizeBytes)));
    }
    for (let at = 0; at < 400; at += 1) expect(await readKey(store, `k${at}`)).toBeUndefined();
    expect(events.filter((event) => event.level === 'error')).toHaveLength(1);
    await expect.poll(() => bodyFiles(dir)).toHaveLength(1);
    await writer.commit({ metadata: sampleMetadata(), sizeBytes });
    expect(await readKey(store, 'new')).toEqual(Buffer.from(patternBytes(0, sizeBytes)));
  });

  it('gives nothing wrong, wherever a bit flips', async () => {
    const { dir, index } = await closedStore();
    const intact = await readFile(index);
    await fc.assert(
      fc.asyncProperty(fc.nat(intact.length - 1), fc.nat(7), async (offset, bit) => {
        // The number of the format is not damaged but taken at its word.
        fc.pre(offset < 60 || offset >= 64);
        await writeFile(index, intact);
        await flipBit(index, offset, bit);
        const { store } = await openTestStore({ dir });
        try {
          await expectNothingWrong(store);
        } finally {
          await store.close();
        }
      }),
      { numRuns: 40 },
    );
  });

  const rowDamages: readonly [string, string][] = [
    ['another key', "UPDATE entries SET key = 'k2' WHERE key = 'k1'"],
    ['another size', 'UPDATE entries SET size_bytes = 699'],
    ['another variant', "UPDATE entries SET variant = 'w'"],
    ['other metadata', "UPDATE entries SET metadata = replace(metadata, '200', '206')"],
    ['metadata that is no JSON', "UPDATE entries SET metadata = '{'"],
    ['a size beyond all sizes', 'UPDATE entries SET size_bytes = 9223372036854775807'],
    ['another body', 'UPDATE bodies SET bytes = zeroblob(700)'],
    ['a longer body', "UPDATE bodies SET bytes = CAST(bytes || x'00' AS BLOB)"],
    ['no body', 'DELETE FROM bodies'],
  ];
  it.each(rowDamages)('row with %s is not used', async (_, sql) => {
    const { store: first, dir } = await openTestStore();
    await storeSample(first, { key: 'k1', sizeBytes: 700, seed: 1 });
    await first.close();
    const database = new DatabaseSync(join(dir, 'index.sqlite'));
    database.exec(sql);
    database.close();
    const { store } = await openTestStore({ dir });
    for (const key of ['k1', 'k2']) {
      expect(await readKey(store, key)).toBeUndefined();
      expect(await store.find(key)).toEqual([]);
    }
    await storeSample(store, { key: 'k1', sizeBytes: 700, seed: 2 });
    expect(await readKey(store, 'k1')).toEqual(Buffer.from(patternBytes(0, 700, 2)));
  });

  it('row is not made right by other metadata', async () => {
    const { store: first, dir } = await openTestStore();
    const entry = await storeSample(first, { key: 'k1', sizeBytes: 700, seed: 1 });
    await first.close();
    const database = new DatabaseSync(join(dir, 'index.sqlite'));
    database.exec('UPDATE entries SET size_bytes = 699');
    database.close();
    const { store } = await openTestStore({ dir });
    expect(await store.replaceMetadata(entry, sampleMetadata('fresh'))).toBeUndefined();
    expect(await store.find('k1')).toEqual([]);
  });
});

/** Each of the entries of `closedStore` is as it was stored, or is not there; and another one can be stored. */
async function expectNothingWrong(store: Store): Promise<void> {
  for (let at = 0; at < 40; at += 1) {
    const entry = await findFirst(store, `k${at}`);
    if (entry === undefined) continue;
    expect(entry.metadata).toEqual(sampleMetadata(at));
    expect(entry.sizeBytes).toBe(at % 8 === 0 ? sizeBytes : 700);
    const read = await readKey(store, `k${at}`);
    if (read !== undefined) expect(read).toEqual(Buffer.from(patternBytes(0, entry.sizeBytes, at)));
  }
  await storeSample(store, { key: 'new', sizeBytes: 10 });
  expect(await store.find('new')).toHaveLength(1);
}

/** A sound database of our format's number, with tables of somebody else. */
function foreignDatabase(): Uint8Array {
  const database = new DatabaseSync(':memory:');
  database.exec('CREATE TABLE entries (id); PRAGMA user_version = 1');
  const file = database.serialize();
  database.close();
  return file;
}

async function exchangeBlocks(path: string): Promise<void> {
  const body = await readFile(path);
  await writeFile(
    path,
    Buffer.concat([body.subarray(block, 2 * block), body.subarray(0, block), body.subarray(2 * block)]),
  );
}

async function overwrite(path: string, offset: number, noise: Buffer): Promise<void> {
  const file = await open(path, 'r+');
  await file.write(noise, 0, noise.length, offset);
  await file.close();
}

/** Overwrites the leaves of a table, and nothing else. */
async function trashTable(path: string, table: string): Promise<void> {
  const database = new DatabaseSync(path);
  const leaves = database.prepare("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'");
  const pages = leaves.all(table).map(({ pageno }) => Number(pageno));
  database.close();
  expect(pages.length).toBeGreaterThan(3);
  for (const page of pages) await overwrite(path, (page - 1) * 4096, Buffer.alloc(4096, 0xa5));
}
