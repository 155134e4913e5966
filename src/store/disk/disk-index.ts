/** The index of the disk store: which entries there are, and how much they take. */

import type { StoredResponse } from '../../http/stored-response.ts';
import type { Emit } from '../../telemetry/events.ts';
import { findable } from '../pins.ts';
import type { EntryChoice } from '../store.ts';
import { blockSum } from './block-sums.ts';
import type { IndexConnection } from './index-connection.ts';
import { type PutEntry, putEntry, requireCurrent, updateMetadata } from './index-put.ts';
import { type IndexedEntry, parseRow } from './index-row.ts';
import { type ChosenRows, isChosen, selectRows } from './index-selection.ts';
import type { IndexStatements, Row } from './index-statements.ts';
import type { Instances } from './instances.ts';
import type { PinChange } from './pinning.ts';
import { type RemovalListeners, Removals } from './removals.ts';
import { RoomAccount } from './room-account.ts';

/** What the index is made with. */
export interface DiskIndexOptions extends RemovalListeners {
  readonly connection: IndexConnection;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly emit: Emit;
  /** The processes that share the index; this one alone unless something else is said. */
  readonly instances?: Instances | undefined;
}

/** So many pinned generations whose time is over are removed at once. */
const expiredAtOnce = 64;
/** What is put looks for expired ones so often, in milliseconds. */
const expiredEveryMs = 1000;
/** So many chosen entries are removed at once. */
const chosenAtOnce = 64;

/** Some of the chosen entries, and where those after them begin. */
interface IndexPage {
  readonly entries: readonly IndexedEntry[];
  readonly next: string | undefined;
}

/** The index. Look-ups answer with nothing when it cannot be read; only `put` throws. */
export class DiskIndex {
  readonly #options: DiskIndexOptions;
  readonly #connection: IndexConnection;
  readonly #removals: Removals;
  /** Generations that lost a block, whose rows could not be told so. */
  readonly #incomplete = new Set<string>();
  /** Generations that are being written and have had a row. */
  readonly #published = new Set<string>();
  readonly #account: RoomAccount;
  #expiredCheckedAt = Number.NEGATIVE_INFINITY;

  constructor(options: DiskIndexOptions) {
    this.#options = options;
    this.#connection = options.connection;
    this.#account = new RoomAccount(options.connection, options.instances?.isShared ?? false);
    this.#removals = new Removals(options.connection, this.#account, options);
    this.#connection.onFresh(() => this.#startAfresh());
  }

  /** What all entries take on the disk, in bytes. */
  get allocatedBytes(): number {
    return this.#account.allocatedBytes;
  }

  /** How many rows there are, pinned ones too. */
  get entryCount(): number {
    return this.#account.entryCount;
  }

  /** The entries of a key, the last put first, pinned ones after all others. Rows that are damaged are removed. */
  find(key: string): readonly IndexedEntry[] {
    return findable(this.#kept(key), this.#options.now);
  }

  /** Whether there is such a generation; in doubt, yes. */
  has(generation: string): boolean {
    if (this.#removals.has(generation)) return false;
    return this.#connection.ask(true, ({ idOfGeneration }) => idOfGeneration.get(generation) !== undefined);
  }

  /** A generation of a key, and what it takes, in bytes; undefined when it is not there any more. */
  get(key: string, generation: string): { entry: IndexedEntry; allocatedBytes: number } | undefined {
    const row = this.#connection.ask(undefined, ({ entryOfGeneration }) => entryOfGeneration.get(generation));
    const entry = row === undefined ? undefined : this.#parse(row, key);
    return entry === undefined ? undefined : { entry, allocatedBytes: Number(row?.allocated_bytes) };
  }

  /** The body of a generation that is kept inline, or undefined when it is gone or damaged; it is then removed. */
  body(generation: string): Uint8Array | undefined {
    if (this.#removals.has(generation)) return undefined;
    const row = this.#connection.ask(undefined, ({ bodyOfGeneration }) => bodyOfGeneration.get(generation));
    const bytes = row?.bytes;
    if (bytes instanceof Uint8Array && row?.checksum === blockSum(generation, 0, bytes)) return bytes;
    this.removeDamaged(generation, `The body of generation ${generation} does not match its checksum.`);
    return undefined;
  }

  /**
   * Puts an entry in place of the one of the same key and variant, which is pinned if it is complete and that is wanted.
   * Throws `StoreFault`, `removed` where it had a row before, which is not the current one any more.
   */
  put(entry: PutEntry): void {
    const change = this.#connection.change((statements) => this.#put(statements, entry));
    this.#notePut(entry, change);
  }

  /**
   * As `put`, but together with what else is put in this turn. Calls `onPut` at once when it is done; then no change of the
   * index has come in between. Rejects with what `put` throws.
   */
  putSoon(entry: PutEntry, onPut: () => void): Promise<void> {
    return this.#connection.changeSoon(
      (statements) => this.#put(statements, entry),
      (change) => {
        onPut();
        this.#notePut(entry, change);
      },
    );
  }

  /** Whether a generation that is being written has a row, unless it was removed: of that its writer was told. */
  isPublished(generation: string): boolean {
    return this.#published.has(generation);
  }

  /** Takes a generation that has a row for writing. Throws `StoreFault` when another process writes it. */
  hold(generation: string): void {
    this.#options.instances?.hold(generation);
    this.#published.add(generation);
  }

  /** A generation is not written any more. */
  release(generation: string): void {
    this.#published.delete(generation);
    this.#options.instances?.release(generation);
  }

  /**
   * Replaces the metadata of a generation and gives the new entry; undefined when the generation is not current any more.
   * When that cannot be written now, the new entry is given all the same.
   */
  replaceMetadata(key: string, generation: string, metadata: StoredResponse): IndexedEntry | undefined {
    const found = this.get(key, generation);
    if (found === undefined || found.entry.pinnedUntil !== undefined) return undefined;
    // Looked up again within the change, for another process may have replaced it since.
    const result = this.#connection.attempt('unwritten', (statements) =>
      updateMetadata(statements, { key, generation }, metadata),
    );
    this.#account.noteChange();
    if (result === 'written') this.#options.onChanged?.({ keys: [key], generations: [] });
    return result === 'gone' || !this.has(generation) ? undefined : { ...found.entry, metadata };
  }

  /** Notes what a generation takes by now, in bytes; tells whether there is a row where that could be written. */
  resize(generation: string, allocatedBytes: number): boolean {
    const isWritten = this.#connection.attempt(
      false,
      ({ updateAllocated }) => updateAllocated.run(allocatedBytes, generation).changes > 0,
    );
    this.#account.noteChange();
    return isWritten;
  }

  /** Notes that a block of a generation is absent; tells whether the generation was complete until now. */
  markIncomplete(generation: string): boolean {
    const row = this.#connection.ask(undefined, ({ entryOfGeneration }) => entryOfGeneration.get(generation));
    if (row?.is_complete !== 1 || this.#removals.has(generation) || this.#incomplete.has(generation)) return false;
    const isWritten = this.#connection.attempt(false, ({ updateIncomplete }) => {
      updateIncomplete.run(generation);
      return true;
    });
    if (!isWritten) this.#incomplete.add(generation);
    this.#options.onChanged?.({ keys: [String(row.key)], generations: [] });
    return true;
  }

  /**
   * Removes generations, where they are there. They are not found again, even if their rows cannot be deleted now. Tells
   * how many rows were deleted.
   */
  remove(generations: readonly string[]): number {
    return this.#removals.remove(generations);
  }

  /** Heeds that another process has removed generations although their rows are there still. */
  heedRemoval(generations: readonly string[]): void {
    this.#removals.note(generations);
  }

  /** Removes all entries of a key; tells how many of them could be found. */
  removeKey(key: string): number {
    const kept = this.#kept(key);
    const { length } = findable(kept, this.#options.now);
    this.remove(kept.map(({ generation }) => generation));
    return length;
  }

  /** Some of the chosen entries that can be found, and where to go on; undefined for the latter when there are no more. */
  list(choice: EntryChoice, limit: number, after: string | undefined): IndexPage {
    const { entries, next } = this.#chosen(choice, limit, after);
    return { entries: findable(entries, this.#options.now), next };
  }

  /**
   * Removes some of the chosen entries. Tells the keys under which they could be found, and where to go on; undefined for
   * the latter when there are no more.
   */
  removeChosen(choice: EntryChoice, after: string | undefined): { keys: readonly string[]; next: string | undefined } {
    const { entries, next } = this.#chosen(choice, chosenAtOnce, after);
    this.remove(entries.map(({ generation }) => generation));
    return { keys: findable(entries, this.#options.now).map(({ key }) => key), next };
  }

  /** Removes some of the pinned generations whose time is over; tells how many, 0 when no more of them can be. */
  removeExpired(): number {
    const now = this.#options.now();
    const rows = this.#connection.ask([], ({ expiredPins }) => expiredPins.all(now, expiredAtOnce));
    const expired = rows.map((row) => String(row.generation)).filter((generation) => !this.#removals.has(generation));
    if (expired.length > 0) this.remove(expired);
    return expired.length;
  }

  /** Removes a generation whose row or bytes are damaged, and tells of it. */
  removeDamaged(generation: string, detail: string): void {
    if (!this.has(generation)) return;
    const message = 'A stored entry was damaged and has been removed.';
    this.#options.emit({ kind: 'store', level: 'warn', message, detail, count: { damagedBlocks: 1 } });
    this.remove([generation]);
  }

  /** Counts anew what all entries take, where the account may be wrong because something was damaged. */
  recount(): void {
    this.#account.recount();
  }

  /** Writes what is still to be written. */
  flush(): void {
    this.#removals.flush();
  }

  /** Puts an entry within a change; tells what became of others. */
  #put(statements: IndexStatements, put: PutEntry): PinChange {
    const { generation, isComplete } = put.entry;
    // One that had a row when it was written last must have it still.
    if (this.#published.has(generation)) requireCurrent(statements, generation);
    const isFit = (current: IndexedEntry) =>
      !this.#removals.has(current.generation) && !this.#incomplete.has(current.generation);
    const change = putEntry(statements, put, { now: this.#options.now, isFit });
    if (!isComplete) this.#options.instances?.noteHeld(statements, generation);
    const others = change.deleted.filter((row) => row.generation !== generation);
    this.#options.instances?.noteRemoval(statements, others);
    return change;
  }

  /** Notes what was put, and tells of it. */
  #notePut({ entry: { key, generation } }: PutEntry, { pinned, deleted }: PinChange): void {
    this.#published.add(generation);
    this.#incomplete.delete(generation);
    const others = deleted.filter((row) => row.generation !== generation);
    const replaced = [...pinned, ...others].map((earlier) => String(earlier.generation));
    for (const earlier of replaced) this.#options.onRemoved(earlier);
    this.#options.onChanged?.({ keys: [key], generations: replaced });
    this.#removals.giveBack(others);
    const now = this.#options.now();
    // A clock that was set back must not keep them.
    if (Math.abs(now - this.#expiredCheckedAt) < expiredEveryMs) return;
    this.#expiredCheckedAt = now;
    this.removeExpired();
  }

  #chosen(choice: EntryChoice, limit: number, after: string | undefined): IndexPage {
    const none: ChosenRows = { rows: [], next: undefined };
    const { rows, next } = this.#connection.ask(none, (statements) => selectRows(statements, choice, limit, after));
    const entries = rows.flatMap((row) => this.#parse(row, String(row.key)) ?? []);
    return { entries: entries.filter((entry) => isChosen(choice, entry)), next };
  }

  /** All entries of a key, the last put first, also those whose time is over. */
  #kept(key: string): IndexedEntry[] {
    const rows = this.#connection.ask([], ({ entriesOfKey }) => entriesOfKey.all(key));
    const entries = rows.flatMap((row) => this.#parse(row, key) ?? []);
    // In a damaged index a row may be found by its key alone. Nobody can open it, so it must not be in the way.
    return entries.filter(({ generation }) => this.has(generation));
  }

  /** The entry of a row, unless it was removed or is damaged; then it is removed now. */
  #parse(row: Row, key: string): IndexedEntry | undefined {
    const generation = String(row.generation);
    if (this.#removals.has(generation)) return undefined;
    const entry = parseRow(row, key);
    if (entry !== undefined) return this.#incomplete.has(generation) ? { ...entry, isComplete: false } : entry;
    this.removeDamaged(generation, `The row of generation ${generation} does not match its checksum.`);
    return undefined;
  }

  #startAfresh(): void {
    this.#incomplete.clear();
    this.#published.clear();
  }
}
