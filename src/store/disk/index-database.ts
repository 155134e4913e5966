/** The SQLite file of the index: how it is opened and locked, and what becomes of a damaged one. */

import { closeSync, fstatSync, openSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type SQLOutputValue } from 'node:sqlite';
import { StoreFault } from '../store.ts';
import { systemCode } from './file-system.ts';
import { ForeignTables, formatOf, newestFormat, upgradeFormat } from './index-format.ts';

/** Primary result codes of SQLite (https://sqlite.org/rescode.html). */
const sqlite = { error: 1, busy: 5, locked: 6, corrupt: 11, full: 13, constraint: 19, notADatabase: 26 } as const;
/** Rows as the store writes them break no constraint: where one is broken, a row or an index of the table is damaged. */
const damageCodes: ReadonlySet<number> = new Set([sqlite.corrupt, sqlite.constraint, sqlite.notADatabase]);

const indexFile = 'index.sqlite';
const walFile = `${indexFile}-wal`;
/** The write-ahead log keeps this much of its file after a checkpoint: room that is there when the disk is full. */
const walKeptBytes = 16 * 1024 * 1024;
const pageCacheKib = 16 * 1024;

/**
 * Opens the index of a directory, creates or upgrades it, and locks it until it is closed. Throws `StoreFault` when
 * that cannot be, and an error for which `isUnusable` holds when the file is of no use.
 */
export function openIndexDatabase(dir: string, blockSizeBytes: number): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    const isNew = createFile(join(dir, indexFile));
    database = new DatabaseSync(join(dir, indexFile), { enableForeignKeyConstraints: false });
    // The lock comes before all else: it keeps SQLite from sharing memory. Vacuuming can only be chosen for a new file.
    database.exec(`
      PRAGMA locking_mode = EXCLUSIVE;
      ${isNew ? 'PRAGMA auto_vacuum = INCREMENTAL;' : ''}
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = NORMAL;
      PRAGMA journal_size_limit = ${walKeptBytes};
      PRAGMA cache_size = -${pageCacheKib};
      BEGIN EXCLUSIVE;
    `);
    upgrade(database, dir);
    database.exec('COMMIT; PRAGMA foreign_keys = ON; BEGIN;');
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
  rmSync(join(dir, walFile), { force: true });
  return aside;
}

/** Whether an error at the opening says that the file is damaged, or has not the tables that its format promises. */
export function isUnusable(error: unknown): boolean {
  return error instanceof ForeignTables || failureOf(error) === 'damaged' || sqliteCode(error) === sqlite.error;
}

/** How SQLite failed: the file is damaged or no database, the disk is full, or else; undefined for another error. */
export function failureOf(error: unknown): 'damaged' | 'full' | 'other' | undefined {
  // A number that no store has written: it is beyond those that JavaScript knows exactly.
  if (systemCode(error) === 'ERR_OUT_OF_RANGE') return 'damaged';
  const code = sqliteCode(error);
  if (code === undefined) return undefined;
  if (damageCodes.has(code)) return 'damaged';
  return code === sqlite.full ? 'full' : 'other';
}

/** Creates the file where there is none; tells whether it is empty. SQLite gives its other files the same mode. */
function createFile(path: string): boolean {
  const descriptor = openSync(path, 'a', 0o600);
  try {
    return fstatSync(descriptor).size === 0;
  } finally {
    closeSync(descriptor);
  }
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
  database.exec('DELETE FROM entries WHERE is_inline = 0');
  database.prepare("INSERT OR REPLACE INTO settings VALUES ('block_size_bytes', ?)").run(blockSizeBytes);
}

function openingFault(error: unknown, dir: string): StoreFault {
  const code = sqliteCode(error);
  if (code === sqlite.busy || code === sqlite.locked) {
    const message = `The directory ${dir} is in use by another process. Choose another one with --dir.`;
    return new StoreFault('in_use', message, { cause: error });
  }
  const why = error instanceof Error ? error.message : String(error);
  return new StoreFault('io', `The store in ${dir} cannot be opened: ${why}`, { cause: error });
}

/** The primary result code of an error of SQLite; undefined for another error. */
function sqliteCode(error: unknown): number | undefined {
  return error instanceof Error && 'errcode' in error && typeof error.errcode === 'number'
    ? error.errcode & 0xff
    : undefined;
}
