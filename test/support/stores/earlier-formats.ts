/** Writes stores in earlier formats of the index. The tables are spelled out, so that later changes cannot alter them. */

import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { blockSum, encodeSum, sumOf } from '../../../src/store/disk/bodies/block-sums.ts';
import { rowSum } from '../../../src/store/disk/index/index-rows.ts';
import { patternBytes } from '../values/pattern-body.ts';
import { temporaryDirectory } from './disk-store.ts';
import { blockOf, type Sample, sampleMetadata } from './stored-sample.ts';

/** The block size of the stores, in bytes. It is also that of `openTestStore`. */
const block = 16 * 1024;

/** A stored sample. Bodies of more than 32 KiB are in files. */
export interface EarlierSample extends Required<Sample> {
  readonly isUsed: boolean;
}

/** A stored sample with the columns that format 2 adds. */
export interface EarlierPart extends EarlierSample {
  readonly isComplete: boolean;
  readonly pinnedUntil: number | null;
}

/** Tables that all these formats have. */
const commonTables = `
      CREATE TABLE bodies (
        entry_id INTEGER PRIMARY KEY REFERENCES entries (id) ON DELETE CASCADE,
        bytes BLOB NOT NULL,
        checksum INTEGER NOT NULL
      ) STRICT;
      CREATE TABLE settings (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
      INSERT INTO settings VALUES ('block_size_bytes', ${block});
`;

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
      ${commonTables}
      PRAGMA user_version = 1;
`;

const formatTwo = `
      CREATE TABLE "entries" (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL,
        variant TEXT NOT NULL,
        generation TEXT NOT NULL UNIQUE,
        metadata TEXT NOT NULL,
        size_bytes INTEGER NOT NULL,
        allocated_bytes INTEGER NOT NULL,
        is_inline INTEGER NOT NULL,
        is_complete INTEGER NOT NULL,
        -- NULL for the current generation of a key and variant.
        pinned_until INTEGER,
        checksum INTEGER NOT NULL,
        stored_at INTEGER NOT NULL
      ) STRICT;
      CREATE INDEX entries_by_place ON entries (key, variant);
      CREATE INDEX entries_by_pin ON entries (pinned_until) WHERE pinned_until IS NOT NULL;
      CREATE TABLE uses (entry_id INTEGER PRIMARY KEY REFERENCES entries (id) ON DELETE CASCADE) STRICT;
      CREATE TABLE room (
        id INTEGER PRIMARY KEY,
        allocated_bytes INTEGER NOT NULL,
        negated_bytes INTEGER NOT NULL,
        hand INTEGER NOT NULL
      ) STRICT;
      INSERT INTO room VALUES (1, 0, 0, 0);
      CREATE TRIGGER entry_inserted AFTER INSERT ON entries BEGIN
        UPDATE room SET allocated_bytes = allocated_bytes + NEW.allocated_bytes,
                        negated_bytes = negated_bytes - NEW.allocated_bytes WHERE id = 1;
      END;
      CREATE TRIGGER entry_resized AFTER UPDATE OF allocated_bytes ON entries BEGIN
        UPDATE room SET allocated_bytes = allocated_bytes + NEW.allocated_bytes - OLD.allocated_bytes,
                        negated_bytes = negated_bytes - NEW.allocated_bytes + OLD.allocated_bytes WHERE id = 1;
      END;
      CREATE TRIGGER entry_deleted AFTER DELETE ON entries BEGIN
        UPDATE room SET allocated_bytes = allocated_bytes - OLD.allocated_bytes,
                        negated_bytes = negated_bytes + OLD.allocated_bytes WHERE id = 1;
      END;
      ${commonTables}
      PRAGMA user_version = 2;
`;

const formatThree = `
      ${formatTwo}
      CREATE TABLE tags (
        tag TEXT NOT NULL,
        entry_id INTEGER NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
        PRIMARY KEY (tag, entry_id)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX tags_by_entry ON tags (entry_id);
      PRAGMA user_version = 3;
`;

const formatFour = `
      ${formatThree}
      CREATE TABLE instances (name TEXT PRIMARY KEY, reserved_bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE held (generation TEXT PRIMARY KEY, instance TEXT NOT NULL) STRICT, WITHOUT ROWID;
      ALTER TABLE room ADD COLUMN entry_count INTEGER NOT NULL DEFAULT 0;
      DROP TRIGGER entry_inserted;
      CREATE TRIGGER entry_inserted AFTER INSERT ON entries BEGIN
        UPDATE room SET allocated_bytes = allocated_bytes + NEW.allocated_bytes,
                        negated_bytes = negated_bytes - NEW.allocated_bytes,
                        entry_count = entry_count + 1 WHERE id = 1;
      END;
      DROP TRIGGER entry_deleted;
      CREATE TRIGGER entry_deleted AFTER DELETE ON entries BEGIN
        UPDATE room SET allocated_bytes = allocated_bytes - OLD.allocated_bytes,
                        negated_bytes = negated_bytes + OLD.allocated_bytes,
                        entry_count = entry_count - 1 WHERE id = 1;
      END;
      PRAGMA user_version = 4;
`;

/** Writes a store in format 1, and returns its directory. */
export function storeOfFormatOne(samples: readonly EarlierSample[]): Promise<string> {
  return writeStore(formatOne, samples, (database, { isUsed }, { columns, sumWith }) => {
    const insert = database.prepare('INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)');
    insert.run(...columns, sumWith(undefined), 5_000, isUsed ? 6_000 : 5_000);
  });
}

/** Writes a store in format 2, and returns its directory. */
export function storeOfFormatTwo(samples: readonly EarlierPart[]): Promise<string> {
  return writeStore(formatTwo, samples, (database, { isUsed, isComplete, pinnedUntil }, { id, columns, sumWith }) => {
    const insert = database.prepare('INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)');
    insert.run(...columns, Number(isComplete), pinnedUntil, sumWith(pinnedUntil ?? undefined), 5_000);
    if (isUsed) database.prepare('INSERT INTO uses VALUES (?)').run(id);
  });
}

/** Writes a store in format 3 whose entries have this tag, and returns its directory. */
export function storeOfFormatThree(samples: readonly EarlierSample[], tag: string): Promise<string> {
  return writeTagged(formatThree, samples, tag);
}

/** Writes a store in format 4 whose entries have this tag, and returns its directory. */
export function storeOfFormatFour(samples: readonly EarlierSample[], tag: string): Promise<string> {
  return writeTagged(formatFour, samples, tag);
}

function writeTagged(tables: string, samples: readonly EarlierSample[], tag: string): Promise<string> {
  return writeStore(tables, samples, (database, { isUsed }, { id, columns, sumWith }) => {
    const insert = database.prepare('INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)');
    insert.run(...columns, 1, null, sumWith(undefined), 5_000);
    database.prepare('INSERT INTO tags VALUES (?, ?)').run(tag, id);
    if (isUsed) database.prepare('INSERT INTO uses VALUES (?)').run(id);
  });
}

/** The first columns of a row in every format, up to `is_inline`; and its checksum, which depends on the pin. */
interface EarlierRow {
  readonly id: number;
  readonly columns: readonly SQLInputValue[];
  readonly sumWith: (pinnedUntil: number | undefined) => number;
}

async function writeStore<T extends EarlierSample>(
  tables: string,
  samples: readonly T[],
  insertEntry: (database: DatabaseSync, sample: T, row: EarlierRow) => void,
): Promise<string> {
  const dir = await temporaryDirectory();
  const database = new DatabaseSync(join(dir, 'index.sqlite'));
  database.exec(tables);
  const insertBody = database.prepare('INSERT INTO bodies VALUES (?, ?, ?)');
  for (const [at, sample] of samples.entries()) {
    const { key, variant, sizeBytes, seed } = sample;
    const [id, generation, isInline] = [at + 1, `ab-${at}`, sizeBytes <= 32 * 1024];
    const metadata = JSON.stringify(sampleMetadata(seed));
    insertEntry(database, sample, {
      id,
      columns: [id, key, variant, generation, metadata, sizeBytes, sizeBytes + 1000, Number(isInline)],
      sumWith: (pinnedUntil) => rowSum({ key, variant, generation, sizeBytes, isInline }, metadata, pinnedUntil),
    });
    const bytes = patternBytes(0, sizeBytes, seed);
    if (isInline) insertBody.run(id, bytes, blockSum(generation, 0, bytes));
    else await writeFiles(dir, generation, sample);
  }
  database.close();
  return dir;
}

async function writeFiles(dir: string, generation: string, sample: Sample): Promise<void> {
  await mkdir(join(dir, 'blocks', 'ab'), { recursive: true });
  const path = join(dir, 'blocks', 'ab', generation);
  const blocks = Array.from({ length: Math.ceil(sample.sizeBytes / block) }, (_, at) => blockOf(sample, block, at));
  await writeFile(`${path}.body`, Buffer.concat(blocks));
  await writeFile(`${path}.sums`, Buffer.concat(blocks.map((each, at) => encodeSum(sumOf(generation, at, each)))));
}
