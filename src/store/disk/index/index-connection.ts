/**
 * The connection to the SQLite file of the index: opens it, queries and changes it, and recovers from failures. A damaged file is
 * set aside and replaced by an empty one. Changes by `changeSoon` in one turn share a transaction.
 */

import { renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type SQLOutputValue } from 'node:sqlite';
import { setImmediate } from 'node:timers';
import type { Emit } from '../../../telemetry/events.ts';
import { StoreFault } from '../../store.ts';
import { createFile, openingFault, withIndexLock } from './directory-lock.ts';
import {
  failureOf,
  formatOf,
  type IndexStatements,
  isUnusable,
  newestFormat,
  prepareStatements,
  upgradeFormat,
} from './index-tables.ts';

/** Options of a connection. */
interface IndexConnectionOptions {
  readonly dir: string;
  readonly blockSizeBytes: number;
  readonly emit: Emit;
  /** Whether other processes have the index open too; false by default. */
  readonly isShared?: boolean;
  /** How long to wait for other processes that change a shared index, in milliseconds; a second when absent. It blocks the event loop. */
  readonly busyWaitMs?: number | undefined;
}

interface OpenIndex {
  readonly database: DatabaseSync;
  readonly statements: IndexStatements;
  /** Identity of the file, see `identifyIndex`. */
  readonly identity: string | undefined;
}

/** Why the index is empty: this process has set the damaged one aside, or found that another process has. */
export type FreshReason = 'replaced' | 'reopened';

/**
 * One connection. A damaged index is set aside, an empty one is created, and the query runs again. Any other failure is logged
 * once, until a change succeeds again.
 */
export class IndexConnection {
  /** Whether the index was damaged when it was opened and was set aside, before there were listeners. */
  readonly wasReplacedAtOpen: boolean;
  readonly #options: IndexConnectionOptions;
  readonly #isShared: boolean;
  readonly #freshListeners: ((reason: FreshReason) => void)[] = [];
  #open: OpenIndex | undefined;
  #isFailureLogged = false;
  /** Whether to wait for locks of other processes. False after a wait in vain, until a change succeeds again. */
  #isPatient = true;
  readonly #group = new ChangeGroup((change) => this.#change(change));

  /** Opens the index. Throws `StoreFault`. */
  constructor(options: IndexConnectionOptions) {
    this.#options = options;
    this.#isShared = options.isShared ?? false;
    this.wasReplacedAtOpen = this.#withLock(() => {
      try {
        this.#open = this.#openIndex();
        return false;
      } catch (error) {
        if (!isUnusable(error)) throw error;
        this.#replace(error);
        return true;
      }
    });
  }

  /** Adds a listener for the event that the index is empty again: all entries are gone. */
  onReset(listener: (reason: FreshReason) => void): void {
    this.#freshListeners.push(listener);
  }

  /** Runs a query; returns `fallback` when the index cannot answer now. */
  ask<T>(fallback: T, question: (statements: IndexStatements) => T): T {
    return valueUnlessFault(fallback, () => this.#run(question));
  }

  /** Changes the index in one transaction. Throws `StoreFault`, and what the change throws. */
  change<T>(change: (statements: IndexStatements) => T): T {
    this.#group.flush();
    return this.#change(change);
  }

  /**
   * As `change`, but in one transaction with the other changes of this turn, and before any later change. Resolves with the
   * result of `settle`, which is called right after the transaction. `change` must do nothing but query and change the index,
   * because it may run twice. Rejects with `StoreFault`, and with what the change throws.
   */
  changeSoon<T, R>(change: (statements: IndexStatements) => T, settle: (result: T) => R): Promise<R> {
    return this.#group.add(change, settle);
  }

  /** Makes the changes that wait for the end of this turn. Does not throw. */
  flush(): void {
    this.#group.flush();
  }

  #change<T>(change: (statements: IndexStatements) => T): T {
    const result = this.#run((statements) => {
      statements.begin.run();
      const changed = change(statements);
      statements.commit.run();
      return changed;
    });
    this.#isFailureLogged = false;
    this.#setPatience(true);
    return result;
  }

  /** Changes the index if that is possible now; otherwise changes nothing and returns `fallback`. */
  attempt<T>(fallback: T, change: (statements: IndexStatements) => T): T {
    return valueUnlessFault(fallback, () => this.change(change));
  }

  /** Opens the index again if another process has set aside the one that is open. */
  followReplacement(): void {
    if (this.#open === undefined || this.#open.identity === identifyIndex(this.#options.dir)) return;
    this.#startAfresh(new Error('Another process has set the index aside.'));
  }

  /** Closes the file. From then on queries return `fallback`, and changes throw. */
  close(): void {
    this.#group.flush();
    this.#close();
  }

  #close(): void {
    const open = this.#open;
    this.#open = undefined;
    try {
      open?.database.close();
    } catch (error) {
      this.#log('error', 'The index of the store could not be closed.', error);
    }
  }

  #run<T>(question: (statements: IndexStatements) => T, isRepeated = false): T {
    const open = this.#open;
    if (open === undefined) throw new StoreFault('io', 'The store has no index.');
    try {
      return question(open.statements);
    } catch (error) {
      const fault = this.#recover(open, error);
      const isFresh = this.#open !== undefined && this.#open !== open;
      if (isFresh && !isRepeated) return this.#run(question, true);
      throw fault;
    }
  }

  /** Makes the connection ready for the next query; returns what to throw for this one. */
  #recover(open: OpenIndex, error: unknown): unknown {
    const failure = failureOf(error);
    try {
      if (open.database.isTransaction) open.statements.rollback.run();
    } catch (second) {
      // Closing a damaged index ends the transaction too.
      if (failure !== 'damaged') this.#giveUp(second);
    }
    if (failure === 'damaged') this.#startAfresh(error);
    if (failure === undefined) return error;
    if (failure === 'busy') this.#setPatience(false);
    // A full disk is logged by `StoringSwitch`, when something is to be stored.
    if (failure !== 'full' && failure !== 'damaged' && !this.#isFailureLogged) {
      this.#isFailureLogged = true;
      if (failure === 'busy') this.#log('warn', 'The index of the store was kept locked by another process.', error);
      else this.#log('error', 'The index of the store failed.', error);
    }
    const message = `The index failed: ${error instanceof Error ? error.message : String(error)}`;
    return new StoreFault(failure === 'full' ? 'no_room' : 'io', message, { cause: error });
  }

  /** Continues with an empty index: its own, or the one that another process has already created. */
  #startAfresh(damage: unknown): void {
    try {
      const reason = this.#withLock(() => {
        const isReplaced = this.#isShared && this.#open?.identity !== identifyIndex(this.#options.dir);
        this.#close();
        if (isReplaced) this.#open = this.#openIndex();
        else this.#replace(damage);
        return isReplaced ? 'reopened' : 'replaced';
      });
      for (const listener of this.#freshListeners) listener(reason);
    } catch (error) {
      this.#giveUp(error);
    }
  }

  #giveUp(error: unknown): void {
    this.#close();
    this.#log('error', 'The index of the store is lost. Nothing is stored until a restart.', error);
  }

  #replace(damage: unknown): void {
    const aside = setIndexAside(this.#options.dir);
    this.#open = this.#openIndex();
    this.#log('error', `The index of the store was damaged; it is now ${aside}. The store starts empty.`, damage);
  }

  /** Runs a function while no other process opens or replaces the index. */
  #withLock<T>(run: () => T): T {
    return this.#isShared ? withIndexLock(this.#options.dir, run) : run();
  }

  #openIndex(): OpenIndex {
    const { dir } = this.#options;
    const database = openIndexDatabase({ ...this.#options, isShared: this.#isShared });
    try {
      return { database, statements: prepareStatements(database), identity: identifyIndex(dir) };
    } catch (error) {
      database.close();
      throw error;
    }
  }

  /** A process that is stopped in the middle of a change must not hold up each change of the other processes. */
  #setPatience(isPatient: boolean): void {
    if (!this.#isShared || this.#isPatient === isPatient) return;
    this.#isPatient = isPatient;
    const { busyWaitMs = usualBusyWaitMs } = this.#options;
    this.#open?.database.exec(`PRAGMA busy_timeout = ${isPatient ? busyWaitMs : 0}`);
  }

  #log(level: 'warn' | 'error', message: string, error: unknown): void {
    this.#options.emit({ kind: 'store', level, message, detail: String(error) });
  }
}

function valueUnlessFault<T>(fallback: T, run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof StoreFault) return fallback;
    throw error;
  }
}

/** A change, and the callbacks for its result. */
interface WaitingChange {
  /** Changes the index within a transaction, and nothing else, because it may run again. */
  readonly change: (statements: IndexStatements) => unknown;
  /** Called after the transaction, before any other query of the index. */
  readonly settle: (result: never) => void;
  readonly fail: (error: unknown) => void;
}

/** Runs a change in a transaction of its own. */
type Run = <T>(change: (statements: IndexStatements) => T) => T;

/**
 * The changes that wait for the end of this turn. A transaction costs as much as a few rows: each page that it touches is written
 * to the log again, and puts in one turn touch the same pages.
 */
class ChangeGroup {
  readonly #run: Run;
  #waiting: WaitingChange[] = [];

  constructor(run: Run) {
    this.#run = run;
  }

  /**
   * Makes a change at the end of this turn, or at the next `flush`, after the changes that were added before. Resolves with the
   * result of `settle`. Rejects with what this change throws: other changes succeed without it.
   */
  add<T, R>(change: (statements: IndexStatements) => T, settle: (result: T) => R): Promise<R> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) setImmediate(() => this.flush());
      this.#waiting.push({ change, settle: (result: T) => resolve(settle(result)), fail: reject });
    });
  }

  /** Makes the changes that wait. Does not throw. */
  flush(): void {
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    try {
      const results = this.#run((statements) => waiting.map(({ change }) => change(statements)));
      for (const [at, each] of waiting.entries()) settle(each, results[at]);
    } catch (error) {
      if (waiting.length === 1) waiting[0]?.fail(error);
      // Each change is made by itself to find those that fail.
      else for (const each of waiting) this.#makeByItself(each);
    }
  }

  #makeByItself(waiting: WaitingChange): void {
    try {
      settle(waiting, this.#run(waiting.change));
    } catch (error) {
      waiting.fail(error);
    }
  }
}

/** Calls `settle`. The change is rejected with an error of this call too. */
function settle(waiting: WaitingChange, result: unknown): void {
  try {
    waiting.settle(result as never);
  } catch (error) {
    waiting.fail(error);
  }
}

const indexFile = 'index.sqlite';
/** Files that SQLite keeps beside it: the write-ahead log, and the memory that processes share. */
const logFiles = [`${indexFile}-wal`, `${indexFile}-shm`];
/** Size that the write-ahead log keeps after a checkpoint, in bytes: room that is available when the disk is full. */
const walKeptBytes = 16 * 1024 * 1024;
const pageCacheKib = 16 * 1024;
const usualBusyWaitMs = 1_000;

/** Options for opening an index. */
interface IndexDatabaseOptions {
  readonly dir: string;
  readonly blockSizeBytes: number;
  /** Whether other processes have it open too. Otherwise it is locked until it is closed, which is faster. */
  readonly isShared: boolean;
  readonly busyWaitMs?: number | undefined;
}

/**
 * Opens the index of a directory; creates or upgrades it where needed. Throws `StoreFault` when that is impossible, and an error
 * for which `isUnusable` is true when the file is of no use.
 */
function openIndexDatabase({
  dir,
  blockSizeBytes,
  isShared,
  busyWaitMs = usualBusyWaitMs,
}: IndexDatabaseOptions): DatabaseSync {
  const path = join(dir, indexFile);
  let database: DatabaseSync | undefined;
  try {
    const isNew = createFile(path) || statSync(path).size === 0;
    const timeout = isShared ? busyWaitMs : 0;
    database = new DatabaseSync(path, { enableForeignKeyConstraints: false, timeout });
    // The locking mode comes first: with EXCLUSIVE, SQLite then needs no shared memory. Auto-vacuum can only be set in a new
    // file.
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

/** Renames a damaged index to one fixed name, and returns its new path. Throws the system's error. */
function setIndexAside(dir: string): string {
  const aside = join(dir, `${indexFile}.damaged`);
  renameSync(join(dir, indexFile), aside);
  for (const file of logFiles) rmSync(join(dir, file), { force: true });
  return aside;
}

/** Returns the device and inode of the index file, which change when an index is set aside. Undefined when there is no file. */
function identifyIndex(dir: string): string | undefined {
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

/** Deletes the entries with bodies in files when the block size has changed: their checksums are of blocks of the old size. */
function adoptBlockSize(database: DatabaseSync, blockSizeBytes: number): void {
  const found: { readonly value?: SQLOutputValue } | undefined = database
    .prepare("SELECT value FROM settings WHERE name = 'block_size_bytes'")
    .get();
  if (found?.value === blockSizeBytes) return;
  // Their files count until a sweep has removed them: see `Instances`.
  database.exec(`
    INSERT INTO instances
      SELECT '${leftOverName('blocks')}', COALESCE(SUM(allocated_bytes), 0) FROM entries WHERE is_inline = 0
      ON CONFLICT (name) DO UPDATE SET reserved_bytes = reserved_bytes + excluded.reserved_bytes;
    DELETE FROM entries WHERE is_inline = 0;
  `);
  database.prepare("INSERT OR REPLACE INTO settings VALUES ('block_size_bytes', ?)").run(blockSizeBytes);
}

/** No process has a name with this prefix: the names of processes consist of letters and digits. */
const prefix = 'left over: ';

/** Returns the name of the row that counts the leftover files of a process, or of a change of the index. */
export function leftOverName(of: string): string {
  return isLeftOverName(of) ? of : `${prefix}${of}`;
}

/** Checks whether a row name is one of leftovers. */
export function isLeftOverName(name: string): boolean {
  return name.startsWith(prefix);
}
