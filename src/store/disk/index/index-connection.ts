/**
 * The connection to the SQLite file of the index: opens it, asks and changes it, and recovers from its failures. A damaged file
 * is set aside, and a new one begins. Changes that come in one turn share a transaction.
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

/** What a connection is opened with. */
interface IndexConnectionOptions {
  readonly dir: string;
  readonly blockSizeBytes: number;
  readonly emit: Emit;
  /** Whether other processes have the index open too; not so unless it is said. */
  readonly isShared?: boolean;
}

interface OpenIndex {
  readonly database: DatabaseSync;
  readonly statements: IndexStatements;
  /** Which file it is. */
  readonly identity: string | undefined;
}

/** How the index came to begin afresh: this process has set the damaged one aside, or found that another one has. */
export type FreshReason = 'replaced' | 'reopened';

/**
 * One connection. A damaged index is set aside, a fresh one begun, and the question asked again. Another failure is
 * told once, until a change succeeds again.
 */
export class IndexConnection {
  /** Whether the index was damaged when it was opened, and was set aside, of which no listener could be told. */
  readonly isBegunAfresh: boolean;
  readonly #options: IndexConnectionOptions;
  readonly #isShared: boolean;
  readonly #freshListeners: ((reason: FreshReason) => void)[] = [];
  #open: OpenIndex | undefined;
  #isFailureTold = false;
  /** Whether others are waited for. Not after one has been waited for in vain, until a change succeeds again. */
  #isPatient = true;
  readonly #group = new ChangeGroup((change) => this.#change(change));

  /** Opens the index. Throws `StoreFault`. */
  constructor(options: IndexConnectionOptions) {
    this.#options = options;
    this.#isShared = options.isShared ?? false;
    this.isBegunAfresh = this.#alone(() => {
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

  /** From now on tells when the index has begun afresh: all entries are gone. */
  onFresh(listener: (reason: FreshReason) => void): void {
    this.#freshListeners.push(listener);
  }

  /** Asks a question; when the index cannot answer now, the answer is `otherwise`. */
  ask<T>(otherwise: T, question: (statements: IndexStatements) => T): T {
    return valueUnlessFault(otherwise, () => this.#run(question));
  }

  /** Changes the index, all or nothing. Throws `StoreFault`, and what the change throws. */
  change<T>(change: (statements: IndexStatements) => T): T {
    this.#group.flush();
    return this.#change(change);
  }

  /**
   * As `change`, but together with what else is to be changed in this turn; no later change comes before it. Resolves with
   * what `settle` makes of the result at once. The change itself does nothing but ask and change the index: it may be run
   * twice. Rejects with `StoreFault`, and with what the change throws.
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
    this.#isFailureTold = false;
    this.#setPatience(true);
    return result;
  }

  /** Changes the index if it can be changed now; otherwise nothing is changed and the result is `otherwise`. */
  attempt<T>(otherwise: T, change: (statements: IndexStatements) => T): T {
    return valueUnlessFault(otherwise, () => this.change(change));
  }

  /** Opens the index anew if another process has set aside the one that is open. */
  followReplacement(): void {
    if (this.#open === undefined || this.#open.identity === identifyIndex(this.#options.dir)) return;
    this.#getOverDamage(new Error('Another process has set the index aside.'));
  }

  /** Closes the file. From now on questions are answered otherwise and changes throw. */
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
      this.#tell('error', 'The index of the store could not be closed.', error);
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

  /** Leaves the connection fit for the next question; gives what to throw for this one. */
  #recover(open: OpenIndex, error: unknown): unknown {
    const failure = failureOf(error);
    try {
      if (open.database.isTransaction) open.statements.rollback.run();
    } catch (second) {
      // Closing a damaged index ends the transaction too.
      if (failure !== 'damaged') this.#giveUp(second);
    }
    if (failure === 'damaged') this.#getOverDamage(error);
    if (failure === undefined) return error;
    if (failure === 'busy') this.#setPatience(false);
    // That the disk is full is told by those who want to store something.
    if (failure !== 'full' && failure !== 'damaged' && !this.#isFailureTold) {
      this.#isFailureTold = true;
      if (failure === 'busy') this.#tell('warn', 'The index of the store was kept locked by another process.', error);
      else this.#tell('error', 'The index of the store failed.', error);
    }
    const message = `The index failed: ${error instanceof Error ? error.message : String(error)}`;
    return new StoreFault(failure === 'full' ? 'no_room' : 'io', message, { cause: error });
  }

  /** Goes on with a fresh index: one of its own, or the one that another process has begun already. */
  #getOverDamage(damage: unknown): void {
    try {
      const reason = this.#alone(() => {
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
    this.#tell('error', 'The index of the store is lost. Nothing is stored until a restart.', error);
  }

  #replace(damage: unknown): void {
    const aside = setIndexAside(this.#options.dir);
    this.#open = this.#openIndex();
    this.#tell('error', `The index of the store was damaged and is now ${aside}. The store begins empty.`, damage);
  }

  /** Runs something while no other process opens or replaces the index. */
  #alone<T>(run: () => T): T {
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

  /** A process that is stopped in the middle of a change must not hold up each change of the others anew. */
  #setPatience(isPatient: boolean): void {
    if (!this.#isShared || this.#isPatient === isPatient) return;
    this.#isPatient = isPatient;
    this.#open?.database.exec(`PRAGMA busy_timeout = ${isPatient ? busyWaitMs : 0}`);
  }

  #tell(level: 'warn' | 'error', message: string, error: unknown): void {
    this.#options.emit({ kind: 'store', level, message, detail: String(error) });
  }
}

function valueUnlessFault<T>(otherwise: T, run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof StoreFault) return otherwise;
    throw error;
  }
}

/** A change, and who waits for it. */
interface WaitingChange {
  /** Changes the index within a transaction; changes nothing else, for it may be run again. */
  readonly change: (statements: IndexStatements) => unknown;
  /** Goes on after the transaction, before anything else is asked of the index. */
  readonly settle: (result: never) => void;
  readonly fail: (error: unknown) => void;
}

/** Runs a change in a transaction of its own, all or nothing. */
type Run = <T>(change: (statements: IndexStatements) => T) => T;

/**
 * The changes that wait for the end of this turn. A transaction costs as much as a few rows: the pages that it touches go
 * to the log anew, and those who store many entries at once touch the same ones.
 */
class ChangeGroup {
  readonly #run: Run;
  #waiting: WaitingChange[] = [];

  constructor(run: Run) {
    this.#run = run;
  }

  /**
   * Makes a change at the end of this turn, or before the next `flush`, after those that were added before it. Resolves
   * with what `settle` makes of its result. Rejects with what this change throws: others succeed without it.
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
      // Which of them cannot be made shows when each is made by itself.
      else for (const each of waiting) this.#makeAlone(each);
    }
  }

  #makeAlone(waiting: WaitingChange): void {
    try {
      settle(waiting, this.#run(waiting.change));
    } catch (error) {
      waiting.fail(error);
    }
  }
}

/** Whoever waits gets what goes wrong here too. */
function settle(waiting: WaitingChange, result: unknown): void {
  try {
    waiting.settle(result as never);
  } catch (error) {
    waiting.fail(error);
  }
}

const indexFile = 'index.sqlite';
/** What SQLite keeps beside it: the write-ahead log, and the memory that processes share. */
const logFiles = [`${indexFile}-wal`, `${indexFile}-shm`];
/** The write-ahead log keeps this much of its file after a checkpoint: room that is there when the disk is full. */
const walKeptBytes = 16 * 1024 * 1024;
const pageCacheKib = 16 * 1024;
/** So long is waited for other processes that change a shared index, without giving anybody a turn, in milliseconds. */
const busyWaitMs = 1_000;

/** How an index is opened. */
interface IndexDatabaseOptions {
  readonly dir: string;
  readonly blockSizeBytes: number;
  /** Whether other processes have it open too. Otherwise it is locked until it is closed, which is faster. */
  readonly isShared: boolean;
}

/**
 * Opens the index of a directory, creates or upgrades it. Throws `StoreFault` when that cannot be, and an error for which
 * `isUnusable` holds when the file is of no use.
 */
function openIndexDatabase({ dir, blockSizeBytes, isShared }: IndexDatabaseOptions): DatabaseSync {
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
function setIndexAside(dir: string): string {
  const aside = join(dir, `${indexFile}.damaged`);
  renameSync(join(dir, indexFile), aside);
  for (const file of logFiles) rmSync(join(dir, file), { force: true });
  return aside;
}

/** Which file the index of a directory is now: another one after it was set aside. Undefined when there is none. */
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

/** No process has such a name: their names are of letters and digits. */
const prefix = 'left over: ';

/** The name of the row that counts what a process, or a change of the index, has left in files. */
export function leftOverName(of: string): string {
  return isLeftOverName(of) ? of : `${prefix}${of}`;
}

/** Whether a row has such a name. */
export function isLeftOverName(name: string): boolean {
  return name.startsWith(prefix);
}
