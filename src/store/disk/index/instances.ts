/**
 * The processes that have the index open, as its rows name them: what room each has reserved, and, where several share it, what
 * each is writing. The room that a dead process had reserved counts until a sweep has removed its files.
 */

import { type Sharing, StoreFault } from '../../store.ts';
import { type IndexConnection, isLeftOverName, leftOverName } from './index-connection.ts';
import type { IndexStatements, Row } from './index-tables.ts';

/** The name of a process that shares the index with no other one. */
const aloneName = 'alone';

/** The processes. One that shares the index with no other one only notes the room that it has reserved. */
export class Instances {
  readonly #connection: IndexConnection;
  readonly #name: string | undefined;
  /** The generations of which a row may say that this process is writing them. */
  readonly #held = new Set<string>();
  /** Those of them that it does not write any more. */
  readonly #unreleased = new Set<string>();
  /** What a process that shares the index with no other one knows of the room for what was left over. */
  #leftOverBytes = 0;

  /** Notes that this process has the index open, and forgets those that are not there any more. */
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

  /** A name for a generation of this process, from one that was never given before. */
  generationOf(id: string): string {
    return this.#name === undefined ? id : `${id}_${this.#name}`;
  }

  /** Notes this process and what it is writing in an index that says nothing of it. */
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

  /** Forgets processes that have died. The room that they had reserved counts on, as that of what they have left over. */
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

  /** Names what was left over so far: what a sweep that begins now removes. */
  get leftOver(): readonly string[] {
    return this.#names().filter(isLeftOverName);
  }

  /** A sweep is over that began when these were left over: their files are gone, and count no longer. */
  noteSwept(leftOver: readonly string[]): void {
    if (leftOver.length === 0) return;
    this.#connection.attempt(undefined, ({ deleteInstance }) => {
      for (const name of leftOver) deleteInstance.run(name);
    });
    this.#readLeftOver();
  }

  /** Forgets this process, which has finished all that it has begun. */
  leave(): void {
    const name = this.#rowName;
    if (!this.#names().includes(name)) return;
    this.#connection.attempt(undefined, ({ deleteInstance, letAllGoOf }) => {
      deleteInstance.run(name);
      if (this.#name !== undefined) letAllGoOf.run(name);
    });
  }

  /** What the other processes have reserved, in bytes, dead ones included whose files were not swept yet. */
  get reservedByOthers(): number {
    if (this.#name === undefined) return this.#leftOverBytes;
    return this.#readOthers();
  }

  /**
   * Notes that so much room is reserved of which `knownBytes` were noted before, or up to so much more where there is room for
   * that too: of all that is free of `limitBytes`. Gives how much is noted now; undefined when there is not enough room.
   * Throws `StoreFault`.
   */
  claim(bytes: number, knownBytes: number, moreBytes: number, limitBytes: number): number | undefined {
    const name = this.#rowName;
    return this.#connection.change((statements) => {
      const free = limitBytes - Number(statements.room.get()?.allocated_bytes) - othersReserved(statements, name);
      if (bytes > free) return undefined;
      const claimed = Math.min(bytes + moreBytes, free);
      statements.addReserved.run(name, claimed - knownBytes);
      return claimed;
    });
  }

  /** Notes that so much less room is reserved; tells whether that could be written. */
  disclaim(bytes: number): boolean {
    return this.#connection.attempt(false, ({ addReserved }) => {
      addReserved.run(this.#rowName, -bytes);
      return true;
    });
  }

  /** Makes the changes of the index that wait, which release room and reserve it: before what depends on that is read. */
  settle(): void {
    this.#connection.flush();
  }

  /** Within the change that deletes rows: the room of their files stays reserved until the files are gone. */
  noteRemoval({ addReserved }: IndexStatements, rows: readonly Row[]): void {
    const bytes = fileBytesOf(rows);
    if (bytes > 0) addReserved.run(this.#rowName, bytes);
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

  get #rowName(): string {
    return this.#name ?? aloneName;
  }

  #names(): string[] {
    return this.#connection.ask([], ({ allInstances }) => allInstances.all().map(({ name }) => String(name)));
  }

  #readOthers(): number {
    return this.#connection.ask(0, (statements) => othersReserved(statements, this.#rowName));
  }

  /** One that is alone is the only one to change it; others ask for it each time. */
  #readLeftOver(): void {
    if (this.#name === undefined) this.#leftOverBytes = this.#readOthers();
  }
}

/** What deleted rows counted for files, in bytes. */
export function fileBytesOf(rows: readonly Row[]): number {
  return rows.reduce((sum, row) => sum + (row.is_inline === 1 ? 0 : Number(row.allocated_bytes)), 0);
}

/** The process that has begun a generation. */
function beginnerOf(generation: string): string {
  return generation.slice(generation.lastIndexOf('_') + 1);
}

function othersReserved({ reservedByOthers }: IndexStatements, name: string): number {
  return Number(reservedByOthers.get(name)?.reserved_bytes);
}
