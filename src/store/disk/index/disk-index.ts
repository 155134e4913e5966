/**
 * The index of the disk store: which entries there are, and how much they take. Read this file first. With it: `RoomAccount`,
 * the totals of the index; `Removals`, generations that are removed although their rows cannot be deleted yet; `ChangeMessages`,
 * which announces changes to the processes that share the store, many at once.
 */

import type { StoredResponse } from '../../../http/stored-response.ts';
import type { Emit } from '../../../telemetry/events.ts';
import { findable } from '../../entry-rules.ts';
import type { EntryChoice, StoreChange, TellChange } from '../../store.ts';
import { blockSum } from '../bodies/block-sums.ts';
import type { IndexConnection } from './index-connection.ts';
import {
  type ChosenRows,
  type IndexedEntry,
  isChosen,
  type PinChange,
  type PutEntry,
  parseRow,
  putEntry,
  requireCurrent,
  selectRows,
  updateMetadata,
} from './index-rows.ts';
import type { IndexStatements, Row } from './index-tables.ts';
import { fileBytesOf, type Instances } from './instances.ts';

/** What the index is made with. */
interface DiskIndexOptions extends RemovalListeners {
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

/** Keys under which something else is stored now, and generations that were replaced or removed. */
interface IndexChange {
  readonly keys: readonly string[];
  readonly generations: readonly string[];
  /** Generations that were removed, whose rows are there still. */
  readonly lost?: readonly string[];
}

/** Who is told of what. */
interface RemovalListeners {
  /** Is told of each generation that is not the current one any more: it is pinned or removed. */
  readonly onRemoved: (generation: string) => void;
  /**
   * Is told of generations that were removed: their files, if they have any, are of no use any more. In doubt there is a
   * sidecar. `allocatedBytes` is what their deleted row counted, and 0 while the row is there still.
   */
  readonly onFilesUnneeded: (generation: string, hasSidecar: boolean, allocatedBytes: number) => void;
  /** Is told of what other processes have to know. */
  readonly onChanged?: ((change: IndexChange) => void) | undefined;
}

/** What is removed. */
class Removals {
  readonly #connection: IndexConnection;
  readonly #account: RoomAccount;
  readonly #listeners: RemovalListeners;
  readonly #instances: Instances | undefined;
  /** Generations that were removed, until their rows could be deleted, which a full disk may delay. */
  readonly #removed = new Set<string>();
  /** Those of them that this process has removed and told nobody of. */
  readonly #untold = new Set<string>();

  constructor(
    connection: IndexConnection,
    account: RoomAccount,
    listeners: RemovalListeners & { readonly instances?: Instances | undefined },
  ) {
    this.#connection = connection;
    this.#instances = listeners.instances;
    this.#account = account;
    this.#listeners = listeners;
    connection.onFresh(() => this.#forget());
  }

  /** Whether a generation was removed whose row may be there still. */
  has(generation: string): boolean {
    return this.#removed.has(generation);
  }

  /** Removes generations, where they are there; tells how many rows were deleted. */
  remove(generations: readonly string[]): number {
    for (const generation of generations) this.#untold.add(generation);
    this.note(generations);
    return this.flush();
  }

  /** Notes that generations are not to be found again. */
  note(generations: readonly string[]): void {
    for (const generation of generations) {
      if (!this.#removed.has(generation)) this.#listeners.onRemoved(generation);
      this.#removed.add(generation);
    }
  }

  /** Deletes the rows that are still to be deleted; tells how many there were. */
  flush(): number {
    if (this.#removed.size === 0) return 0;
    const rows = this.#connection.attempt(undefined, (statements) => {
      const deleted = [...this.#removed].flatMap((generation) => statements.deleteGeneration.all(generation));
      this.#instances?.noteRemoval(statements, deleted);
      return deleted;
    });
    if (rows !== undefined) {
      this.#forget();
      const generations = rows.map((row) => String(row.generation));
      this.#listeners.onChanged?.({ keys: rows.map((row) => String(row.key)), generations });
      this.giveBack(rows);
      return rows.length;
    }
    const lost = [...this.#untold];
    this.#untold.clear();
    this.#listeners.onChanged?.({ keys: this.#keysOf(lost), generations: [], lost });
    // What is in files can be given back nevertheless, and may be just the room that the index lacks.
    for (const generation of this.#removed) this.#listeners.onFilesUnneeded(generation, true, 0);
    return 0;
  }

  #forget(): void {
    this.#removed.clear();
    this.#untold.clear();
  }

  #keysOf(generations: readonly string[]): string[] {
    return this.#connection.ask([], ({ entryOfGeneration }) =>
      generations.flatMap((generation) => {
        const row = entryOfGeneration.get(generation);
        return row === undefined ? [] : [String(row.key)];
      }),
    );
  }

  /** Tells of the files of deleted rows. */
  giveBack(rows: readonly Row[]): void {
    this.#account.noteChange();
    for (const row of rows) {
      if (row.is_inline === 1) continue;
      this.#listeners.onFilesUnneeded(String(row.generation), row.block_checksum === null, fileBytesOf([row]));
    }
  }
}

/** The account, which the index keeps in one row. Read when it is asked for: after a change, and always where others change it too. */
class RoomAccount {
  readonly #connection: IndexConnection;
  readonly #isShared: boolean;
  #isOutdated = false;
  #allocatedBytes = 0;
  #entryCount = 0;

  constructor(connection: IndexConnection, isShared: boolean) {
    this.#connection = connection;
    this.#isShared = isShared;
    connection.onFresh(() => this.#startAfresh());
    this.#read();
  }

  /** What all entries take on the disk, in bytes. */
  get allocatedBytes(): number {
    if (this.#isShared || this.#isOutdated) this.#read();
    return this.#allocatedBytes;
  }

  /** How many rows there are, pinned ones too. */
  get entryCount(): number {
    if (this.#isShared || this.#isOutdated) this.#read();
    return this.#entryCount;
  }

  /** Something was changed. */
  noteChange(): void {
    this.#isOutdated = true;
  }

  /** One that is damaged is made anew. */
  #read(): void {
    this.#isOutdated = false;
    const row = this.#connection.ask(undefined, ({ room }) => room.get());
    const bytes = Number(row?.allocated_bytes);
    if (bytes >= 0 && bytes === -Number(row?.negated_bytes)) {
      this.#allocatedBytes = bytes;
      this.#entryCount = Number(row?.entry_count);
    } else {
      this.recount();
    }
  }

  /** Makes it anew, where it may be wrong because something was damaged. */
  recount(): void {
    this.#isOutdated = false;
    this.#connection.attempt(undefined, ({ recount }) => void recount.run());
    const row = this.#connection.ask(undefined, ({ room }) => room.get());
    if (row === undefined) return;
    this.#allocatedBytes = Math.max(0, Number(row.allocated_bytes));
    this.#entryCount = Number(row.entry_count);
  }

  #startAfresh(): void {
    this.#isOutdated = false;
    this.#allocatedBytes = 0;
    this.#entryCount = 0;
  }
}

/** What is to be told, and what was told and is not heeded yet. Without anybody to tell, nothing. */
export class ChangeMessages {
  readonly #tell: TellChange | undefined;
  readonly #keys = new Set<string>();
  readonly #generations = new Set<string>();
  readonly #lost = new Set<string>();
  readonly #telling = new Set<Promise<void>>();
  #isPending = false;

  constructor(tell: TellChange | undefined) {
    this.#tell = tell;
  }

  /** Tells of a change together with what else changes in this turn. */
  note({ keys, generations, lost = [] }: IndexChange): void {
    if (this.#tell === undefined) return;
    for (const key of keys) this.#keys.add(key);
    for (const generation of generations) this.#generations.add(generation);
    for (const generation of lost) this.#lost.add(generation);
    if (this.#isPending) return;
    this.#isPending = true;
    queueMicrotask(() => this.#flush());
  }

  /** Tells of something else. Resolves when all others have heeded it. */
  async say(change: StoreChange): Promise<void> {
    this.#flush();
    this.#send(change);
    await this.told();
  }

  /** Resolves when all others have heeded all that was noted until now. */
  async told(): Promise<void> {
    if (this.#tell === undefined) return;
    this.#flush();
    if (this.#telling.size > 0) await Promise.all(this.#telling);
  }

  #flush(): void {
    this.#isPending = false;
    const [keys, generations, lost] = [this.#keys, this.#generations, this.#lost].map(taken);
    // The keys come last: whoever looks one of them up anew because of it should know of the generations already.
    if (generations !== undefined) this.#send({ kind: 'generations', generations });
    if (lost !== undefined) this.#send({ kind: 'lost', generations: lost });
    if (keys !== undefined) this.#send({ kind: 'keys', keys });
  }

  #send(change: StoreChange): void {
    if (this.#tell === undefined) return;
    const telling = this.#tell(change).finally(() => this.#telling.delete(telling));
    this.#telling.add(telling);
  }
}

/** What is in a set, which is empty afterwards; undefined where there was nothing. */
function taken(noted: Set<string>): readonly string[] | undefined {
  if (noted.size === 0) return undefined;
  const all = [...noted];
  noted.clear();
  return all;
}
