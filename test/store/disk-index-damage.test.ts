/** Damage to the index of the disk store costs entries and one log line; never a wrong answer, never the service. */

import { readFile, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { flipBit, overwrite, trashTable } from '../support/stores/damage.ts';
import { bodyFiles, openTestStore } from '../support/stores/disk-store.ts';
import { findFirst, readKey, sampleMetadata, storePart, storeSample } from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const block = 16 * 1024;
const sizeBytes = 4 * block + 100;

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
    ['lacks our tables', (index) => writeFile(index, foreignDatabase())],
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

  it('that is empty starts an empty store, and the old bodies are swept', async () => {
    const { dir, index } = await closedStore();
    await writeFile(index, '');
    const { store } = await openTestStore({ dir });
    expect(await store.find('k1')).toEqual([]);
    await expect.poll(() => bodyFiles(dir)).toEqual([]);
  });

  it('whose damage shows only later is set aside then, and open writers go on', async () => {
    const { dir, index } = await closedStore(400);
    await trashTable(index, 'entries');
    const { store, events } = await openTestStore({ dir });
    await using writer = await store.openWriter({ key: 'new', variant: '', metadata: sampleMetadata(), sizeBytes });
    for (let start = 0; start < sizeBytes; start += block) {
      await writer.writeBlock(start / block, patternBytes(start, Math.min(start + block, sizeBytes)));
    }
    for (let at = 0; at < 400; at += 1) expect(await readKey(store, `k${at}`)).toBeUndefined();
    expect(events.filter((event) => event.level === 'error')).toHaveLength(1);
    await expect.poll(() => bodyFiles(dir)).toHaveLength(2);
    await writer.commit({ metadata: sampleMetadata(), sizeBytes });
    expect(await readKey(store, 'new')).toEqual(Buffer.from(patternBytes(0, sizeBytes)));
  });

  it('never gives a wrong entry, whichever bit is flipped', async () => {
    const { dir, index } = await closedStore();
    const intact = await readFile(index);
    await fc.assert(
      fc.asyncProperty(fc.nat(intact.length - 1), fc.nat(7), async (offset, bit) => {
        // Bytes 60 to 63 hold the format number. Another number there means another format, not damage.
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

  /** Opens a store with a part whose row was changed by `sql` while the store was closed. */
  async function storeWithPart(indexes: readonly number[], sql: string) {
    const { store, dir } = await openTestStore();
    await storePart(store, { key: 'k', sizeBytes, seed: 1 }, indexes);
    await store.close();
    const database = new DatabaseSync(join(dir, 'index.sqlite'));
    database.exec(sql);
    database.close();
    return await openTestStore({ dir });
  }

  it('that calls a part complete is corrected by the first read of an absent block', async () => {
    const { store, events } = await storeWithPart([0, 1], 'UPDATE entries SET is_complete = 1');
    expect(await findFirst(store, 'k')).toMatchObject({ isComplete: true });
    expect(await readKey(store, 'k')).toBeUndefined();
    expect(await findFirst(store, 'k')).toMatchObject({ isComplete: false });
    expect(await readKey(store, 'k')).toBeUndefined();
    expect(events).toHaveLength(1);
  });

  it('that calls a whole entry a part needs only another commit', async () => {
    const { store } = await storeWithPart([4, 3, 2, 1, 0], '');
    const entry = await findFirst(store, 'k');
    await using writer = entry && (await store.resume(entry));
    await writer?.commit({ metadata: sampleMetadata(1), sizeBytes });
    expect(await findFirst(store, 'k')).toMatchObject({ isComplete: true });
    expect(await readKey(store, 'k')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 1)));
  });

  it('row is not repaired by new metadata', async () => {
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

/** Checks that each entry of `closedStore` is as it was stored or absent, and that a new one can be stored. */
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

/** Returns an intact database with the number of our format but other tables. */
function foreignDatabase(): Uint8Array {
  const database = new DatabaseSync(':memory:');
  database.exec('CREATE TABLE entries (id); PRAGMA user_version = 1');
  const file = database.serialize();
  database.close();
  return file;
}
