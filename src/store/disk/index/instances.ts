/**
 * The processes that have the index open, as rows of the index: the room that each has reserved and, in a shared index, the
 * generations that each is writing. The room that a dead process had reserved counts until a sweep has removed its files.
 */

import { type Sharing, StoreFault } from '../../store.ts';
import { type IndexConnection, isLeftOverName, leftOverName } from './index-connection.ts';
import type { IndexStatements, Row } from './index-tables.ts';

/** Row name of a process that does not share the index. */
const aloneName = 'alone';

/** The processes. A process that is alone only records the room that it has reserved. */
export class Instances {
  readonly #connection: IndexConnection;
  readonly #name: string | undefined;
  /** The generations that, by the rows of the index, this process is writing. */
  readonly #held = new Set<string>();
  /** Generations that this process no longer writes, but whose rows could not be deleted yet. */
  readonly #unreleased = new Set<string>();
  /** For a process that is alone: room reserved for leftover files, in bytes. */
  #leftOverBytes = 0;

  /** Records that this process has the index open, and forgets processes that are gone. */
  constructor(connection: IndexConnection, sharing: Pick<Sharing, 'instance' | 'isFirst' | 'fallen'> | undefined) {
    this.#connection = connection;
    this.#name = sharing?.instance;
    const earlier = this.#names().filter((name) => !isLeftOverName(name));
    if (earlier.length > 0 && (sharing?.isFirst ?? true)) {
      this.forget(earlier);
      connection.attempt(undefined, ({ letAllGo }) => letAllGo.run());
    }
    this.forget(sharing?.fallen ?? []);
    this.enterAfresh([]);
  }

  /** Whether other processes may have the index open. */
  get isShared(): boolean {
    return this.#name !== undefined;
  }

  /** Returns the name of a new generation of this process. `id` was never used before. */
  generationOf(id: string): string {
    return this.#name === undefined ? id : `${id}_${this.#name}`;
  }

  /** Records this process, and the generations that it is writing, in an index that has no record of them. */
  enterAfresh(written: Iterable<string>): void {
    const name = this.#name;
    this.#readLeftOver();
    if (name === undefined) return;
    this.#held.clear();
    this.#unreleased.clear();
    this.#connection.attempt(undefined, (statements) => {
      statements.putInstance.run(name, 0);
      for (const generation of written) this.noteHeld(statements, generation);
    });
  }

  /** Forgets processes that have died. The room that they had reserved still counts, as room of leftover files. */
  forget(fallen: readonly string[]): void {
    if (fallen.length === 0) return;
    this.#connection.attempt(undefined, ({ keepReserved, deleteInstance, letAllGoOf }) => {
      for (const name of fallen) {
        keepReserved.run(leftOverName(name), name);
        deleteInstance.run(name);
        letAllGoOf.run(name);
      }
    });
    this.#readLeftOver();
  }

  /** The names of the leftovers so far: a sweep that begins now removes their files. */
  get leftOver(): readonly string[] {
    return this.#names().filter(isLeftOverName);
  }

  /** Notes that a sweep is over. The files of the leftovers that existed when it began are gone, and count no longer. */
  noteSwept(leftOver: readonly string[]): void {
    if (leftOver.length === 0) return;
    this.#connection.attempt(undefined, ({ deleteInstance }) => {
      for (const name of leftOver) deleteInstance.run(name);
    });
    this.#readLeftOver();
  }

  /** Forgets this process, which has finished everything that it began. */
  leave(): void {
    const name = this.#rowName;
    if (!this.#names().includes(name)) return;
    this.#connection.attempt(undefined, ({ deleteInstance, letAllGoOf }) => {
      deleteInstance.run(name);
      if (this.#name !== undefined) letAllGoOf.run(name);
    });
  }

  /** Bytes that the other processes have reserved, including dead processes whose files were not swept yet. */
  get reservedByOthers(): number {
    if (this.#name === undefined) return this.#leftOverBytes;
    return this.#readOthers();
  }

  /**
   * Records that `bytes` are reserved, of which `knownBytes` were recorded before, and up to `moreBytes` more where there is room
   * for them within `limitBytes`. Returns the bytes that are recorded now; undefined when there is not enough room. Throws
   * `StoreFault`.
   */
  claim(bytes: number, knownBytes: number, moreBytes: number, limitBytes: number): number | undefined {
    const name = this.#rowName;
    return this.#connection.change((statements) => {
      const free = limitBytes - Number(statements.room.get()?.allocated_bytes) - othersReserved(statements, name);
      if (bytes > free) return undefined;
      const claimed = Math.min(bytes + moreBytes, free);
      addReserved(statements, name, claimed - knownBytes);
      return claimed;
    });
  }

  /** Records that this many fewer bytes are reserved; returns whether that could be written. */
  disclaim(bytes: number): boolean {
    return this.#connection.attempt(false, (statements) => {
      addReserved(statements, this.#rowName, -bytes);
      return true;
    });
  }

  /** Makes the waiting changes of the index, which reserve and release room. Called before a value that depends on them is read. */
  settle(): void {
    this.#connection.flush();
  }

  /** Keeps the room of files reserved until they are gone. Called within the change that deletes their rows. */
  noteRemoval(statements: IndexStatements, rows: readonly Row[]): void {
    const bytes = fileBytesOf(rows);
    if (bytes > 0) addReserved(statements, this.#rowName, bytes);
  }

  /** Records within a change that this process is writing a generation. */
  noteHeld({ hold }: IndexStatements, generation: string): void {
    if (this.#name === undefined) return;
    this.#held.add(generation);
    this.#unreleased.delete(generation);
    hold.run(generation, this.#name);
  }

  /**
   * Holds a generation that has a row, so that no other process writes it. Throws `StoreFault` `io` when another process is
   * writing it.
   */
  hold(generation: string): void {
    if (this.#name === undefined) return;
    this.#connection.change((statements) => {
      if (this.isAnother(statements.holderOf.get(generation)?.instance)) {
        throw new StoreFault('io', `Generation ${generation} is being written by another process.`);
      }
      this.noteHeld(statements, generation);
    });
  }

  /** Lets other processes write a generation. If the record cannot be written now, it is written at the next release. */
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

  /** Checks whether a holder, as a row names it, is another process. */
  isAnother(holder: unknown): boolean {
    return typeof holder === 'string' && holder !== this.#name;
  }

  /** Checks whether another process may be writing a generation: the process that began it, if it lives, or one that took it over. */
  mayBeWrittenElsewhere(generation: string): boolean {
    if (this.#name === undefined) return false;
    const beginner = beginnerOf(generation);
    return this.#connection.ask(true, ({ instanceOf, holderOf }) => {
      if (beginner !== this.#name && instanceOf.get(beginner) !== undefined) return true;
      return this.isAnother(holderOf.get(generation)?.instance);
    });
  }

  /** Checks whether this process has begun a generation. */
  isOurs(generation: string): boolean {
    return this.#name !== undefined && beginnerOf(generation) === this.#name;
  }

  get #rowName(): string {
    return this.#name ?? aloneName;
  }

  #names(): string[] {
    return this.#connection.ask([], ({ allInstances }) => allInstances.all().map(({ name }) => String(name)));
  }

  #readOthers(): number {
    return this.#connection.ask(0, (statements) => othersReserved(statements, this.#rowName));
  }

  /** Only a process that is alone remembers the value, because it alone changes it; the others read it each time. */
  #readLeftOver(): void {
    if (this.#name === undefined) this.#leftOverBytes = this.#readOthers();
  }
}

/** Returns the bytes that deleted rows counted for entries with files. */
export function fileBytesOf(rows: readonly Row[]): number {
  return rows.reduce((sum, row) => sum + (row.is_inline === 1 ? 0 : Number(row.allocated_bytes)), 0);
}

/** Returns the name of the process that began a generation. */
function beginnerOf(generation: string): string {
  return generation.slice(generation.lastIndexOf('_') + 1);
}

function othersReserved({ reservedByOthers }: IndexStatements, name: string): number {
  return Number(reservedByOthers.get(name)?.reserved_bytes);
}

/** Adds bytes to those that a row has reserved, or takes them away; never below 0. */
function addReserved(statements: IndexStatements, name: string, bytes: number): void {
  statements.addReserved.run(name, bytes, bytes);
}
