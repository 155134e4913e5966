/** The processes that share the index, as its rows tell of them: what room each has reserved, and what each is writing. */

import type { Sharing } from '../sharing.ts';
import { StoreFault } from '../store.ts';
import type { IndexConnection } from './index-connection.ts';
import type { IndexStatements } from './index-statements.ts';

/** The processes. One that shares the index with nobody writes no such rows. */
export class Instances {
  readonly #connection: IndexConnection;
  readonly #name: string | undefined;
  /** The generations of which a row may say that this process is writing them. */
  readonly #held = new Set<string>();
  /** Those of them that it does not write any more. */
  readonly #unreleased = new Set<string>();

  /** Notes that this process has the index open, and forgets those that are not there any more. */
  constructor(connection: IndexConnection, sharing: Pick<Sharing, 'instance' | 'isFirst' | 'fallen'> | undefined) {
    this.#connection = connection;
    this.#name = sharing?.instance;
    const isLeft = connection.ask(false, ({ anyInstance }) => typeof anyInstance.get()?.name === 'string');
    if (isLeft && (sharing?.isFirst ?? true)) {
      connection.attempt(undefined, ({ deleteInstances, letAllGo }) => {
        for (const statement of [deleteInstances, letAllGo]) statement.run();
      });
    }
    this.forget(sharing?.fallen ?? []);
    if (sharing !== undefined) this.enterAfresh([]);
  }

  /** Whether other processes may have the index open. */
  get isShared(): boolean {
    return this.#name !== undefined;
  }

  /** A name for a generation of this process, from one that was never given before. */
  generationOf(id: string): string {
    return this.#name === undefined ? id : `${id}_${this.#name}`;
  }

  /** Notes this process and what it is writing in an index that says nothing of it. */
  enterAfresh(written: Iterable<string>): void {
    const name = this.#name;
    if (name === undefined) return;
    this.#held.clear();
    this.#unreleased.clear();
    this.#connection.attempt(undefined, (statements) => {
      statements.putInstance.run(name, 0);
      for (const generation of written) this.noteHeld(statements, generation);
    });
  }

  /** Forgets processes that have died. */
  forget(fallen: readonly string[]): void {
    if (fallen.length === 0) return;
    this.#connection.attempt(undefined, ({ deleteInstance, letAllGoOf }) => {
      for (const name of fallen) for (const statement of [deleteInstance, letAllGoOf]) statement.run(name);
    });
  }

  /** Forgets this process. */
  leave(): void {
    if (this.#name !== undefined) this.forget([this.#name]);
  }

  /** What the other processes have reserved, in bytes. */
  get reservedByOthers(): number {
    const name = this.#name;
    if (name === undefined) return 0;
    return this.#connection.ask(0, (statements) => othersReserved(statements, name));
  }

  /**
   * Tells the others of so much reserved room, or of up to so much more where there is room for that too: of all that is
   * free of `limitBytes`. Gives how much was told of; undefined when there is not enough room. Throws `StoreFault`.
   */
  claim(bytes: number, moreBytes: number, limitBytes: number): number | undefined {
    const name = this.#name;
    if (name === undefined) throw new Error('There is nobody to tell of reserved room.');
    return this.#connection.change((statements) => {
      const free = limitBytes - Number(statements.room.get()?.allocated_bytes) - othersReserved(statements, name);
      if (bytes > free) return undefined;
      const claimed = Math.min(bytes + moreBytes, free);
      statements.putInstance.run(name, claimed);
      return claimed;
    });
  }

  /** Tells the others of less reserved room; tells whether that could be written. */
  disclaim(bytes: number): boolean {
    const name = this.#name;
    return this.#connection.attempt(false, ({ putInstance }) => {
      if (name !== undefined) putInstance.run(name, bytes);
      return true;
    });
  }

  /** Notes that this process writes a generation, within a change. */
  noteHeld({ hold }: IndexStatements, generation: string): void {
    if (this.#name === undefined) return;
    this.#held.add(generation);
    this.#unreleased.delete(generation);
    hold.run(generation, this.#name);
  }

  /** Holds a generation that has a row, so that no other process writes it. Throws `StoreFault` `io` when one does. */
  hold(generation: string): void {
    if (this.#name === undefined) return;
    this.#connection.change((statements) => {
      if (this.isAnother(statements.holderOf.get(generation)?.instance)) {
        throw new StoreFault('io', `Generation ${generation} is being written by another process.`);
      }
      this.noteHeld(statements, generation);
    });
  }

  /** Lets others write a generation. What cannot be noted now is noted with the next one. */
  release(generation: string): void {
    const name = this.#name;
    if (name === undefined || !this.#held.delete(generation)) return;
    this.#unreleased.add(generation);
    const isWritten = this.#connection.attempt(false, ({ letGo }) => {
      for (const each of this.#unreleased) letGo.run(each, name);
      return true;
    });
    if (isWritten) this.#unreleased.clear();
  }

  /** Whether a row says that another process holds a generation, by its holder. */
  isAnother(holder: unknown): boolean {
    return typeof holder === 'string' && holder !== this.#name;
  }

  /** Whether another process may be writing a generation: it has begun it and lives, or has taken it over. */
  mayBeWrittenElsewhere(generation: string): boolean {
    if (this.#name === undefined) return false;
    const beginner = beginnerOf(generation);
    return this.#connection.ask(true, ({ instanceOf, holderOf }) => {
      if (beginner !== this.#name && instanceOf.get(beginner) !== undefined) return true;
      return this.isAnother(holderOf.get(generation)?.instance);
    });
  }

  /** Whether this process has begun a generation. */
  isOurs(generation: string): boolean {
    return this.#name !== undefined && beginnerOf(generation) === this.#name;
  }
}

/** The process that has begun a generation. */
function beginnerOf(generation: string): string {
  return generation.slice(generation.lastIndexOf('_') + 1);
}

function othersReserved({ reservedByOthers }: IndexStatements, name: string): number {
  return Number(reservedByOthers.get(name)?.reserved_bytes);
}
