/** The SQLite file of the index: how it is opened and locked, and what becomes of a damaged one. */

import { renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type SQLOutputValue } from 'node:sqlite';
import { StoreFault } from '../store.ts';
import { createFile, openingFault } from './directory-lock.ts';
import { isUnusable } from './index-failure.ts';
import { formatOf, newestFormat, upgradeFormat } from './index-format.ts';
import { leftOverName } from './left-over.ts';

const indexFile = 'index.sqlite';
/** What SQLite keeps beside it: the write-ahead log, and the memory that processes share. */
const logFiles = [`${indexFile}-wal`, `${indexFile}-shm`];
/** The write-ahead log keeps this much of its file after a checkpoint: room that is there when the disk is full. */
const walKeptBytes = 16 * 1024 * 1024;
const pageCacheKib = 16 * 1024;
/** So long is waited for other processes that change a shared index, without giving anybody a turn, in milliseconds. */
export const busyWaitMs = 1_000;

/** How an index is opened. */
export interface IndexDatabaseOptions {
  readonly dir: string;
  readonly blockSizeBytes: number;
  /** Whether other processes have it open too. Otherwise it is locked until it is closed, which is faster. */
  readonly isShared: boolean;
}

/**
 * Opens the index of a directory, creates or upgrades it. Throws `StoreFault` when that cannot be, and an error for which
 * `isUnusable` holds when the file is of no use.
 */
export function openIndexDatabase({ dir, blockSizeBytes, isShared }: IndexDatabaseOptions): DatabaseSync {
  const path = join(dir, indexFile);
  let database: DatabaseSync | undefined;
  try {
    const isNew = createFile(path) || statSync(path).size === 0;
    const timeout = isShared ? busyWaitMs : 0;
    database = new DatabaseSync(path, { enableForeignKeyConstraints: false, timeout });
    // The lock comes before all else: it keeps SQLite from sharing memory. Vacuuming can only be chosen for a new file.
    database.exec(`
      PRAGMA locking_mode = ${isShared ? 'NORMAL' : 'EXCLUSIVE'};
      ${isNew ? 'PRAGMA auto_vacuum = INCREMENTAL;' : ''}
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = NORMAL;
      PRAGMA journal_size_limit = ${walKeptBytes};
      PRAGMA cache_size = -${pageCacheKib};
      BEGIN EXCLUSIVE;
    `);
    upgrade(database, dir);
    database.exec('COMMIT; PRAGMA foreign_keys = ON; BEGIN IMMEDIATE;');
    adoptBlockSize(database, blockSizeBytes);
    database.exec('COMMIT');
    return database;
  } catch (error) {
    database?.close();
    if (error instanceof StoreFault || isUnusable(error)) throw error;
    throw openingFault(error, dir);
  }
}

/** Puts a damaged index out of the way, under one fixed name, and tells it. Throws the system's error. */
export function setIndexAside(dir: string): string {
  const aside = join(dir, `${indexFile}.damaged`);
  renameSync(join(dir, indexFile), aside);
  for (const file of logFiles) rmSync(join(dir, file), { force: true });
  return aside;
}

/** Which file the index of a directory is now: another one after it was set aside. Undefined when there is none. */
export function identifyIndex(dir: string): string | undefined {
  const stats = statSync(join(dir, indexFile), { bigint: true, throwIfNoEntry: false });
  return stats && `${stats.dev}/${stats.ino}`;
}

function upgrade(database: DatabaseSync, dir: string): void {
  const format = formatOf(database);
  if (format > newestFormat) {
    throw new StoreFault(
      'io',
      `The directory ${dir} holds a store of format ${format}; this version knows formats up to ${newestFormat}. ` +
        'Choose another directory with --dir.',
    );
  }
  upgradeFormat(database);
}

/** Forgets the bodies in files when their blocks have another size: their checksums are of those blocks. */
function adoptBlockSize(database: DatabaseSync, blockSizeBytes: number): void {
  const found: { readonly value?: SQLOutputValue } | undefined = database
    .prepare("SELECT value FROM settings WHERE name = 'block_size_bytes'")
    .get();
  if (found?.value === blockSizeBytes) return;
  // Their files count until the sweep has removed them: see `Instances`.
  database.exec(`
    INSERT INTO instances
      SELECT '${leftOverName('blocks')}', COALESCE(SUM(allocated_bytes), 0) FROM entries WHERE is_inline = 0
      ON CONFLICT (name) DO UPDATE SET reserved_bytes = reserved_bytes + excluded.reserved_bytes;
    DELETE FROM entries WHERE is_inline = 0;
  `);
  database.prepare("INSERT OR REPLACE INTO settings VALUES ('block_size_bytes', ?)").run(blockSizeBytes);
}
