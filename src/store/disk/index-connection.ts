/** The connection to the index: asks and changes it, and gets over its failures. */

import type { DatabaseSync } from 'node:sqlite';
import type { Emit } from '../../telemetry/events.ts';
import { StoreFault } from '../store.ts';
import { ChangeGroup } from './change-group.ts';
import { withIndexLock } from './directory-lock.ts';
import { busyWaitMs, identifyIndex, openIndexDatabase, setIndexAside } from './index-database.ts';
import { failureOf, isUnusable } from './index-failure.ts';
import { type IndexStatements, prepareStatements } from './index-statements.ts';

/** What a connection is opened with. */
export interface IndexConnectionOptions {
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
