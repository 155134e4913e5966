/** The query plans of an index with many entries: no statement scans a table, so the start takes no time either. */

import { join } from 'node:path';
import { DatabaseSync, StatementSync } from 'node:sqlite';
import { expect, it, onTestFinished, vi } from 'vitest';
import { openTestStore } from '../support/stores/disk-store.ts';
import {
  canOpen,
  openSampleWriter,
  readKey,
  sampleMetadata,
  storePart,
  storeSample,
  storeTagged,
  taggedMetadata,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const rowCount = 200_000;
const block = 16 * 1024;

/** Creates a directory whose index has many rows besides those of a few stored entries. */
async function largeIndex(): Promise<string> {
  const { store, dir } = await openTestStore();
  await storeSample(store, { key: 'inline', sizeBytes: 700 });
  await storeSample(store, { key: 'files', sizeBytes: 5 * block });
  await storePart(store, { key: 'part', sizeBytes: 5 * block }, [3]);
  await store.close();
  const database = new DatabaseSync(join(dir, 'index.sqlite'));
  database.exec(`
    INSERT INTO entries (key, variant, generation, metadata, size_bytes, allocated_bytes, is_inline, is_complete,
                         pinned_until, checksum, stored_at)
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${rowCount})
    SELECT 'https://example.org/' || n, '', 'ge-' || n, '{}', 0, 4096, 1, 1, IIF(n % 1000 = 0, n, NULL), 0, 0
    FROM numbers;
    INSERT INTO uses SELECT id FROM entries WHERE id % 3 = 0;
    INSERT INTO tags SELECT 'all', id FROM entries UNION ALL SELECT 'tag-' || id % 1000, id FROM entries;
  `);
  database.close();
  return dir;
}

/** Records the SQL of all statements that are run from now on, except those about the schema. */
function recordStatements(): Set<string> {
  const statements = new Set<string>();
  for (const method of ['all', 'get', 'run'] as const) {
    const original = StatementSync.prototype[method] as (...values: unknown[]) => unknown;
    const recorded = function (this: StatementSync, ...values: unknown[]) {
      if (!/^(?:BEGIN|COMMIT|PRAGMA)|sqlite_schema/.test(this.sourceSQL)) statements.add(this.sourceSQL);
      return original.apply(this, values);
    };
    vi.spyOn(StatementSync.prototype, method).mockImplementation(recorded as never);
  }
  const exec = DatabaseSync.prototype.exec;
  vi.spyOn(DatabaseSync.prototype, 'exec').mockImplementation(function (this: DatabaseSync, sql) {
    // Opening compares the tables with a schema that it creates in memory.
    if (this.location() !== null && /\b(?:SELECT|INSERT|UPDATE|DELETE)\b/.test(sql)) statements.add(sql);
    exec.call(this, sql);
  });
  onTestFinished(() => void vi.restoreAllMocks());
  return statements;
}

/** Returns the steps in the query plans of these statements that scan a whole table. */
function scansOf(dir: string, statements: Iterable<string>): string[] {
  const database = new DatabaseSync(join(dir, 'index.sqlite'));
  try {
    return [...statements].flatMap((sql) => {
      const steps = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all();
      // The table of instances has only one row per process.
      const scans = steps.filter(({ detail }) => /\bSCAN (?!instances\b)/.test(String(detail)));
      return scans.map(({ detail }) => `${detail}: ${sql}`);
    });
  } finally {
    database.close();
  }
}

it(`an index of ${rowCount} entries is opened and read without a scan`, async () => {
  const dir = await largeIndex();
  const statements = recordStatements();
  const { store } = await openTestStore({ dir, maxSizeBytes: 2 * 4096 * rowCount });
  for (const key of ['inline', 'files', 'https://example.org/none']) await readKey(store, key);
  const [part] = await store.find('part');
  await using writer = part && (await store.resume(part));
  expect(writer?.hasBlock(3)).toBe(true);
  const opening = new Set(statements);
  expect(opening.size).toBeGreaterThan(5);
  await store.close();
  vi.restoreAllMocks();
  expect(scansOf(dir, opening)).toEqual([]);
});

it(`an index of ${rowCount} entries is changed and evicted from without a scan`, async () => {
  const dir = await largeIndex();
  const statements = recordStatements();
  const { store } = await openTestStore({ dir, maxSizeBytes: 4096 * rowCount });
  await using writer = await openSampleWriter(store, { key: 'inline', sizeBytes: 300 });
  await writer.writeBlock(0, patternBytes(0, 300));
  const pinPreviousUntil = Number.POSITIVE_INFINITY;
  const entry = await writer.commit({ metadata: sampleMetadata(), sizeBytes: 300, pinPreviousUntil });
  expect(await store.find('inline')).toHaveLength(2);
  await store.replaceMetadata(entry, sampleMetadata('fresh'));
  const tagged = await storeTagged(store, { key: 'tagged', sizeBytes: 1 }, ['a', 'b']);
  await store.replaceMetadata(tagged, taggedMetadata('fresh', ['b', 'c']));
  expect(await store.removeTagged('c')).toEqual(['tagged']);
  await storePart(store, { key: 'part', sizeBytes: 5 * block }, [1, 4]);
  expect(await canOpen(store, 'part')).toBe(true);
  await store.removeKey('files');
  const page = await store.list({ kind: 'prefix', prefix: 'https://example.org/19' }, 100);
  expect(page.entries.length).toBeLessThan(101);
  await store.list({ kind: 'tag', tag: 'tag-7' }, 10);
  expect(await store.removePrefixed('tagged')).toEqual([]);
  expect(store.readUsage().entryCount).toBeGreaterThan(1000);
  await store.close();
  vi.restoreAllMocks();
  expect([...statements].join('\n')).toMatch(/\(key, variant, id\) >/);
  expect([...statements].join('\n')).toMatch(/DELETE FROM uses/);
  expect([...statements].join('\n')).toMatch(/INSERT OR IGNORE INTO uses/);
  expect([...statements].join('\n')).toMatch(/FROM tags JOIN entries/);
  expect(scansOf(dir, statements)).toEqual([]);
});

it('an entry without tags runs no statement about tags', async () => {
  const { store } = await openTestStore();
  const statements = recordStatements();
  for (const sizeBytes of [1, 5 * block]) {
    await storePart(store, { key: 'k', sizeBytes: 5 * block }, [1]);
    const entry = await storeSample(store, { key: 'k', sizeBytes });
    await store.replaceMetadata(entry, sampleMetadata('fresh'));
    await store.removeKey('k');
  }
  expect([...statements].join('\n')).toMatch(/INSERT INTO entries/);
  expect([...statements].filter((sql) => /\btags\b/.test(sql))).toEqual([]);
  await storeTagged(store, { key: 'k', sizeBytes: 1 }, ['t']);
  expect([...statements].filter((sql) => /\btags\b/.test(sql))).toHaveLength(1);
});
