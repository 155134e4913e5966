/** The formats of the index: a store of an older format is upgraded and keeps its entries. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import { openTestStore } from '../support/stores/disk-store.ts';
import {
  storeOfFormatFour,
  storeOfFormatOne,
  storeOfFormatThree,
  storeOfFormatTwo,
} from '../support/stores/earlier-formats.ts';
import {
  canOpen,
  findFirst,
  readEntry,
  readKey,
  sampleMetadata,
  storeSample,
  taggedMetadata,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const block = 16 * 1024;

const small = { key: 'small', variant: 'v', sizeBytes: 700, seed: 1, isUsed: false };
const large = { key: 'large', variant: '', sizeBytes: 5 * block + 3, seed: 2, isUsed: true };

describe('a store of format 1', () => {
  it('keeps its entries, all of them complete', async () => {
    const { store, events, dir } = await openTestStore({ dir: await storeOfFormatOne([small, large]) });
    for (const { key, variant, sizeBytes, seed } of [small, large]) {
      const metadata = sampleMetadata(seed);
      expect(await findFirst(store, key)).toMatchObject({ key, variant, sizeBytes, metadata, isComplete: true });
      expect(await readKey(store, key)).toEqual(Buffer.from(patternBytes(0, sizeBytes, seed)));
    }
    await storeSample(store, { key: 'new', sizeBytes: 3 * block });
    await store.close();
    expect(events).toEqual([]);
    expect(openedFormat(dir)).toEqual({ format: 5, accounted: true });
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

describe('a store of format 2', () => {
  const current = { isComplete: true, pinnedUntil: null };
  const inFiles = { ...large, ...current };
  const pin = { ...small, isComplete: true, pinnedUntil: 2_000_000_000_000 };
  const part = { ...large, key: 'part', seed: 3, isComplete: false, pinnedUntil: null };
  const inline = { ...small, ...current, seed: 4 };

  it('keeps its entries: whole, in part and pinned', async () => {
    const { store, events, dir } = await openTestStore({ dir: await storeOfFormatTwo([inFiles, pin, part, inline]) });
    for (const [key, ...samples] of [
      ['large', inFiles],
      ['part', part],
      ['small', inline, pin],
    ] as const) {
      const found = await store.find(key);
      expect(found).toMatchObject(
        samples.map(({ variant, sizeBytes, seed, isComplete, pinnedUntil }) => {
          const metadata = sampleMetadata(seed);
          return { key, variant, sizeBytes, isComplete, pinnedUntil: pinnedUntil ?? undefined, metadata };
        }),
      );
      for (const [at, entry] of found.entries()) {
        const { sizeBytes = 0, seed } = samples[at] ?? {};
        expect(await readEntry(store, entry)).toEqual(Buffer.from(patternBytes(0, sizeBytes, seed)));
      }
    }
    await store.close();
    expect(events).toEqual([]);
    expect(openedFormat(dir)).toEqual({ format: 5, accounted: true });
  });

  it('has no tags, and accepts them', async () => {
    const { store } = await openTestStore({ dir: await storeOfFormatTwo([inFiles, inline]) });
    expect(await store.removeTagged('t')).toEqual([]);
    for (const key of ['large', 'small']) {
      const entry = await findFirst(store, key);
      if (entry !== undefined) await store.replaceMetadata(entry, taggedMetadata(key, ['t']));
    }
    expect([...(await store.removeTagged('t'))].sort()).toEqual(['large', 'small']);
    for (const key of ['large', 'small']) expect(await store.find(key)).toEqual([]);
  });

  it('keeps the entries that were used longer than those that were not', async () => {
    const samples = [...'abcdefgh'].map((key) => ({ ...inFiles, key, isUsed: key === 'b' || key === 'd' }));
    const dir = await storeOfFormatTwo(samples);
    const { store } = await openTestStore({ dir, maxSizeBytes: 8 * 90_000 });
    for (let at = 0; at < 5; at += 1) await storeSample(store, { key: `new${at}`, sizeBytes: large.sizeBytes });
    const left = [];
    for (const { key } of samples) if (await canOpen(store, key)) left.push(key);
    expect(left).toEqual(expect.arrayContaining(['b', 'd']));
    expect(left).not.toContain('a');
  });
});

describe('a store of format 3', () => {
  it('keeps its entries, and counts them', async () => {
    const { store, events, dir } = await openTestStore({ dir: await storeOfFormatThree([small, large], 't') });
    expect(store.readUsage().entryCount).toBe(2);
    for (const { key, sizeBytes, seed } of [small, large]) {
      expect(await readKey(store, key)).toEqual(Buffer.from(patternBytes(0, sizeBytes, seed)));
    }
    await storeSample(store, { key: 'new', sizeBytes: 3 * block });
    expect(store.readUsage().entryCount).toBe(3);
    await store.removeKey('large');
    expect(store.readUsage().entryCount).toBe(2);
    await store.close();
    expect(events).toEqual([]);
    expect(openedFormat(dir)).toEqual({ format: 5, accounted: true });
  });
});

describe('a store of format 4', () => {
  it('keeps its entries and their count', async () => {
    const { store, events, dir } = await openTestStore({ dir: await storeOfFormatFour([small, large], 't') });
    expect(store.readUsage().entryCount).toBe(2);
    for (const { key, sizeBytes, seed } of [small, large]) {
      expect(await readKey(store, key)).toEqual(Buffer.from(patternBytes(0, sizeBytes, seed)));
    }
    await storeSample(store, { key: 'new', sizeBytes: 3 * block });
    expect(store.readUsage().entryCount).toBe(3);
    await store.removeKey('large');
    expect(store.readUsage().entryCount).toBe(2);
    await store.close();
    expect(events).toEqual([]);
    expect(openedFormat(dir)).toEqual({ format: 5, accounted: true });
  });
});

describe('the account of the room of all entries', () => {
  /** Closes a store of ten entries and changes its index by `sql`; returns the directory. */
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
    ['with a flipped bit', 'UPDATE room SET allocated_bytes = allocated_bytes + (1 << 40)'],
    ['that is negative', 'UPDATE room SET allocated_bytes = -5, negated_bytes = 5'],
    ['that is missing', 'DELETE FROM room'],
  ];
  it.each(damages)('%s is computed again', async (_, sql) => {
    const dir = await changedStore(sql);
    const { store } = await openTestStore({ dir });
    await storeSample(store, { key: 'new', sizeBytes: 5 * block });
    for (let at = 0; at < 10; at += 1) expect(await canOpen(store, `k${at}`)).toBe(true);
    await store.close();
    expect(openedFormat(dir)).toEqual({ format: 5, accounted: true });
  });

  it('that a damaged row made too large is computed again after at most one refusal', async () => {
    const dir = await changedStore('UPDATE room SET allocated_bytes = 1 << 40, negated_bytes = -(1 << 40)');
    const { store } = await openTestStore({ dir });
    await storeSample(store, { key: 'first', sizeBytes: 5 * block }).catch(() => {});
    await storeSample(store, { key: 'second', sizeBytes: 5 * block });
    expect(await canOpen(store, 'second')).toBe(true);
    await store.close();
    expect(openedFormat(dir)).toEqual({ format: 5, accounted: true });
  });
});

/** Returns the format of an index, and whether its account matches its rows. */
function openedFormat(dir: string): { format: unknown; accounted: boolean } {
  const database = new DatabaseSync(join(dir, 'index.sqlite'));
  try {
    const { user_version: format } = { ...database.prepare('PRAGMA user_version').get() };
    const { sum } = { ...database.prepare('SELECT SUM(allocated_bytes) AS sum FROM entries').get() };
    const { count } = { ...database.prepare('SELECT COUNT(*) AS count FROM entries').get() };
    const { allocated_bytes, negated_bytes, entry_count } = { ...database.prepare('SELECT * FROM room').get() };
    const isCounted = allocated_bytes === sum && negated_bytes === -Number(sum) && entry_count === count;
    return { format, accounted: isCounted };
  } finally {
    database.close();
  }
}
