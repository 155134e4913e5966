/** The formats of the index: a store of an older one is taken over as it is. */

import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import { blockSum, encodeSum, sumOf } from '../../src/store/disk/block-sums.ts';
import { rowSum } from '../../src/store/disk/index-row.ts';
import { openTestStore, temporaryDirectory } from '../support/disk-store.ts';
import { patternBytes } from '../support/pattern-body.ts';
import {
  blockOf,
  canOpen,
  findFirst,
  readKey,
  type Sample,
  sampleMetadata,
  storeSample,
} from '../support/stored-sample.ts';

const block = 16 * 1024;

/** The tables as format 1 had them. */
const formatOne = `
      CREATE TABLE entries (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL,
        variant TEXT NOT NULL,
        generation TEXT NOT NULL UNIQUE,
        metadata TEXT NOT NULL,
        size_bytes INTEGER NOT NULL,
        allocated_bytes INTEGER NOT NULL,
        is_inline INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        stored_at INTEGER NOT NULL,
        used_at INTEGER NOT NULL,
        UNIQUE (key, variant)
      ) STRICT;
      CREATE INDEX entries_by_use ON entries (used_at, allocated_bytes);
      CREATE TABLE bodies (
        entry_id INTEGER PRIMARY KEY REFERENCES entries (id) ON DELETE CASCADE,
        bytes BLOB NOT NULL,
        checksum INTEGER NOT NULL
      ) STRICT;
      CREATE TABLE settings (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
      INSERT INTO settings VALUES ('block_size_bytes', ${block});
      PRAGMA user_version = 1;
`;

/** A store as format 1 wrote it, of samples of which some were used. Those of more than 32 KiB are in files. */
async function storeOfFormatOne(
  samples: readonly (Required<Sample> & { readonly isUsed: boolean })[],
): Promise<string> {
  const dir = await temporaryDirectory();
  const database = new DatabaseSync(join(dir, 'index.sqlite'));
  database.exec(formatOne);
  const insertEntry = database.prepare('INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)');
  const insertBody = database.prepare('INSERT INTO bodies VALUES (?, ?, ?)');
  for (const [at, sample] of samples.entries()) {
    const { key, variant, sizeBytes, seed, isUsed } = sample;
    const generation = `ab-${at}`;
    const isInline = sizeBytes <= 32 * 1024;
    const metadata = JSON.stringify(sampleMetadata(seed));
    const checksum = rowSum({ key, variant, generation, sizeBytes, isInline }, metadata);
    const place = [at + 1, key, variant, generation, metadata, sizeBytes, sizeBytes + 1000];
    insertEntry.run(...place, Number(isInline), checksum, 5_000, isUsed ? 6_000 : 5_000);
    const bytes = patternBytes(0, sizeBytes, seed);
    if (isInline) insertBody.run(at + 1, bytes, blockSum(generation, 0, bytes));
    else await writeFiles(dir, generation, sample);
  }
  database.close();
  return dir;
}

async function writeFiles(dir: string, generation: string, sample: Required<Sample>): Promise<void> {
  await mkdir(join(dir, 'blocks', 'ab'), { recursive: true });
  const path = join(dir, 'blocks', 'ab', generation);
  const blocks = Array.from({ length: Math.ceil(sample.sizeBytes / block) }, (_, at) => blockOf(sample, block, at));
  await writeFile(`${path}.body`, Buffer.concat(blocks));
  await writeFile(`${path}.sums`, Buffer.concat(blocks.map((each, at) => encodeSum(sumOf(generation, at, each)))));
}

const small = { key: 'small', variant: 'v', sizeBytes: 700, seed: 1, isUsed: false };
const large = { key: 'large', variant: '', sizeBytes: 5 * block + 3, seed: 2, isUsed: true };

describe('a store of format 1', () => {
  it('is as it was, and every entry is complete', async () => {
    const { store, events, dir } = await openTestStore({ dir: await storeOfFormatOne([small, large]) });
    for (const { key, variant, sizeBytes, seed } of [small, large]) {
      const metadata = sampleMetadata(seed);
      expect(await findFirst(store, key)).toMatchObject({ key, variant, sizeBytes, metadata, isComplete: true });
      expect(await readKey(store, key)).toEqual(Buffer.from(patternBytes(0, sizeBytes, seed)));
    }
    await storeSample(store, { key: 'new', sizeBytes: 3 * block });
    await store.close();
    expect(events).toEqual([]);
    expect(openedFormat(dir)).toEqual({ format: 2, accounted: true });
  });

  it('keeps the entries that were used longer than those that were not', async () => {
    const samples = [...'abcdefgh'].map((key) => ({ ...large, key, isUsed: key === 'b' || key === 'd' }));
    const dir = await storeOfFormatOne(samples);
    const { store } = await openTestStore({ dir, maxSizeBytes: 8 * 90_000 });
    for (let at = 0; at < 5; at += 1) await storeSample(store, { key: `new${at}`, sizeBytes: large.sizeBytes });
    const left = [];
    for (const { key } of samples) if (await canOpen(store, key)) left.push(key);
    expect(left).toEqual(expect.arrayContaining(['b', 'd']));
    expect(left).not.toContain('a');
  });

  it('is upgraded once', async () => {
    const dir = await storeOfFormatOne([small]);
    await (await openTestStore({ dir })).store.close();
    const before = await readFile(join(dir, 'index.sqlite'));
    const { store, events } = await openTestStore({ dir });
    expect(await store.find('small')).toHaveLength(1);
    await store.close();
    expect(events).toEqual([]);
    expect((await readFile(join(dir, 'index.sqlite'))).equals(before)).toBe(true);
  });

  it('is set aside when its tables are not those of the format', async () => {
    const dir = await storeOfFormatOne([small]);
    const database = new DatabaseSync(join(dir, 'index.sqlite'));
    database.exec('ALTER TABLE bodies ADD COLUMN more TEXT');
    database.close();
    const { store, events } = await openTestStore({ dir });
    expect(await store.find('small')).toEqual([]);
    expect(events).toMatchObject([{ level: 'error', message: expect.stringContaining('damaged') }]);
  });
});

describe('the account of what all entries take', () => {
  /** A closed store of ten entries, whose index is changed. */
  async function changedStore(sql: string): Promise<string> {
    const { store, dir } = await openTestStore();
    for (let at = 0; at < 10; at += 1) await storeSample(store, { key: `k${at}`, sizeBytes: 5 * block });
    await store.close();
    const database = new DatabaseSync(join(dir, 'index.sqlite'));
    database.exec(sql);
    database.close();
    return dir;
  }

  const damages: readonly [string, string][] = [
    ['of which a bit is flipped', 'UPDATE room SET allocated_bytes = allocated_bytes + (1 << 40)'],
    ['that is negative', 'UPDATE room SET allocated_bytes = -5, negated_bytes = 5'],
    ['that is gone', 'DELETE FROM room'],
  ];
  it.each(damages)('%s is made anew', async (_, sql) => {
    const dir = await changedStore(sql);
    const { store } = await openTestStore({ dir });
    await storeSample(store, { key: 'new', sizeBytes: 5 * block });
    for (let at = 0; at < 10; at += 1) expect(await canOpen(store, `k${at}`)).toBe(true);
    await store.close();
    expect(openedFormat(dir)).toEqual({ format: 2, accounted: true });
  });

  it('that a damaged row made wrong is made anew before it refuses anything', async () => {
    const dir = await changedStore('UPDATE room SET allocated_bytes = 1 << 40, negated_bytes = -(1 << 40)');
    const { store } = await openTestStore({ dir });
    await storeSample(store, { key: 'first', sizeBytes: 5 * block }).catch(() => {});
    await storeSample(store, { key: 'second', sizeBytes: 5 * block });
    expect(await canOpen(store, 'second')).toBe(true);
    await store.close();
    expect(openedFormat(dir)).toEqual({ format: 2, accounted: true });
  });
});

/** The format of an index, and whether its account is right. */
function openedFormat(dir: string): { format: unknown; accounted: boolean } {
  const database = new DatabaseSync(join(dir, 'index.sqlite'));
  try {
    const { user_version: format } = { ...database.prepare('PRAGMA user_version').get() };
    const { sum } = { ...database.prepare('SELECT SUM(allocated_bytes) AS sum FROM entries').get() };
    const { allocated_bytes, negated_bytes } = { ...database.prepare('SELECT * FROM room').get() };
    return { format, accounted: allocated_bytes === sum && negated_bytes === -Number(sum) };
  } finally {
    database.close();
  }
}
