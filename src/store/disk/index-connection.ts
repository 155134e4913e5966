/** The connection to the index: asks and changes it, and gets over its failures. */

import type { DatabaseSync } from 'node:sqlite';
import type { Emit } from '../../telemetry/events.ts';
import { StoreFault } from '../store.ts';
import { failureOf, isUnusable, openIndexDatabase, setIndexAside } from './index-database.ts';
import { type IndexStatements, prepareStatements } from './index-statements.ts';

/** What a connection is opened with. */
export interface IndexConnectionOptions {
  readonly dir: string;
  readonly blockSizeBytes: number;
  readonly emit: Emit;
}

interface OpenIndex {
  readonly database: DatabaseSync;
  readonly statements: IndexStatements;
}

/**
 * One connection. A damaged index is set aside, a fresh one begun, and the question asked again. Another failure is
 * told once, until a change succeeds again.
 */
export class IndexConnection {
  readonly #options: IndexConnectionOptions;
  readonly #freshListeners: (() => void)[] = [];
  #open: OpenIndex | undefined;
  #isFailureTold = false;

  /** Opens the index. Throws `StoreFault`. */
  constructor(options: IndexConnectionOptions) {
    this.#options = options;
    try {
      this.#open = openIndex(options);
    } catch (error) {
      if (!isUnusable(error)) throw error;
      this.#replace(error);
    }
  }

  /** From now on tells when a damaged index was replaced by a fresh one: all entries are gone. */
  onFresh(listener: () => void): void {
    this.#freshListeners.push(listener);
  }

  /** Asks a question; when the index cannot answer now, the answer is `otherwise`. */
  ask<T>(otherwise: T, question: (statements: IndexStatements) => T): T {
    return valueUnlessFault(otherwise, () => this.#run(question));
  }

  /** Changes the index, all or nothing. Throws `StoreFault`. */
  change<T>(change: (statements: IndexStatements) => T): T {
    const result = this.#run((statements) => {
      statements.begin.run();
      const changed = change(statements);
      statements.commit.run();
      return changed;
    });
    this.#isFailureTold = false;
    return result;
  }

  /** Changes the index if it can be changed now; otherwise nothing is changed and the result is `otherwise`. */
  attempt<T>(otherwise: T, change: (statements: IndexStatements) => T): T {
    return valueUnlessFault(otherwise, () => this.change(change));
  }

  /** Closes the file. From now on questions are answered otherwise and changes throw. */
  close(): void {
    const open = this.#open;
    this.#open = undefined;
    try {
      open?.database.close();
    } catch (error) {
      this.#tell('The index of the store could not be closed.', error);
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
      if (failure === 'damaged') this.#replaceWhileInUse(error);
      else if (open.database.isTransaction) open.statements.rollback.run();
    } catch (second) {
      this.close();
      this.#tell('The index of the store is lost. Nothing is stored until a restart.', second);
    }
    if (failure === undefined) return error;
    // That the disk is full is told by those who want to store something.
    if (failure === 'other' && !this.#isFailureTold) {
      this.#isFailureTold = true;
      this.#tell('The index of the store failed.', error);
    }
    const message = `The index failed: ${error instanceof Error ? error.message : String(error)}`;
    return new StoreFault(failure === 'full' ? 'no_room' : 'io', message, { cause: error });
  }

  #replaceWhileInUse(damage: unknown): void {
    this.close();
    this.#replace(damage);
    for (const listener of this.#freshListeners) listener();
  }

  #replace(damage: unknown): void {
    const aside = setIndexAside(this.#options.dir);
    this.#open = openIndex(this.#options);
    this.#tell(`The index of the store was damaged and is now ${aside}. The store begins empty.`, damage);
  }

  #tell(message: string, error: unknown): void {
    this.#options.emit({ kind: 'store', level: 'error', message, detail: String(error) });
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

function openIndex({ dir, blockSizeBytes }: IndexConnectionOptions): OpenIndex {
  const database = openIndexDatabase(dir, blockSizeBytes);
  try {
    return { database, statements: prepareStatements(database) };
  } catch (error) {
    database.close();
    throw error;
  }
}
