/**
 * The index of the disk store: its entries, and how much they take. Read this file first. Also here: `RoomAccount`, the totals of
 * the index; `Removals`, generations that are removed although their rows cannot be deleted yet; `ChangeMessages`, which
 * announces changes to the processes that share the store, many at once.
 */

import type { StoredResponse } from '../../../http/stored-response.ts';
import type { Emit } from '../../../telemetry/events.ts';
import {
  findable,
  hasFallingRanks,
  hasText,
  isChosenBy,
  isRestricted,
  lowerCase,
  type RankSelection,
} from '../../entry-rules.ts';
import type { AnnounceChange, EntryChoice, EntryOrder, EntryRank, StoreChange } from '../../store.ts';
import { blockSum } from '../bodies/block-sums.ts';
import type { IndexConnection } from './index-connection.ts';
import {
  type ChosenRows,
  type IndexedEntry,
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

/** Options of the index. */
interface DiskIndexOptions extends RemovalListeners {
  readonly connection: IndexConnection;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly emit: Emit;
  /** The processes that share the index; without it this process is alone. */
  readonly instances?: Instances | undefined;
}

/** Number of expired pins that are removed at once. */
const expiredAtOnce = 64;
/** Minimum interval between two checks for expired pins, made by puts, in milliseconds. */
const expiredEveryMs = 1000;
/** Number of chosen entries that are removed at once. */
const chosenAtOnce = 64;

/** Number of rows that are ranked at once: some milliseconds. */
const rankedAtOnce = 2048;

/** What a ranked list asks of the index. */
interface RankQuestion {
  readonly choice: EntryChoice;
  readonly order: EntryOrder;
  readonly limit: number;
  readonly after: EntryRank | undefined;
  /** Returns when a generation was last used, in epoch milliseconds; undefined where no use is known. */
  readonly usedAt: (generation: string) => number | undefined;
}

/** One page of the chosen entries, and the cursor of the next page. */
interface IndexPage {
  readonly entries: readonly IndexedEntry[];
  readonly next: string | undefined;
}

/** The index. Look-ups find nothing when it cannot be read. Only `put`, `putSoon` and `hold` fail with `StoreFault`. */
export class DiskIndex {
  readonly #options: DiskIndexOptions;
  readonly #connection: IndexConnection;
  readonly #removals: Removals;
  /** Generations that lost a block, but whose rows could not be updated. */
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
    this.#connection.onReset(() => this.#startAfresh());
  }

  /** Bytes that all entries take on the disk. */
  get allocatedBytes(): number {
    return this.#account.allocatedBytes;
  }

  /** Number of rows, pinned ones too. */
  get entryCount(): number {
    return this.#account.entryCount;
  }

  /** Returns the entries of a key, the last put first, pinned ones after all others. Removes damaged rows. */
  find(key: string): readonly IndexedEntry[] {
    return findable(this.#allOf(key), this.#options.now);
  }

  /** Checks whether a generation exists; true where the index cannot be read. */
  has(generation: string): boolean {
    if (this.#removals.has(generation)) return false;
    return this.#connection.ask(true, ({ idOfGeneration }) => idOfGeneration.get(generation) !== undefined);
  }

  /** Returns a generation of a key, and the bytes that it takes; undefined when it no longer exists. */
  get(key: string, generation: string): { entry: IndexedEntry; allocatedBytes: number } | undefined {
    const row = this.#connection.ask(undefined, ({ entryOfGeneration }) => entryOfGeneration.get(generation));
    const entry = row === undefined ? undefined : this.#parse(row, key);
    return entry === undefined ? undefined : { entry, allocatedBytes: Number(row?.allocated_bytes) };
  }

  /**
   * Returns the inline body of a generation; undefined when it is gone or damaged, or the index cannot be read now. A damaged
   * one is removed.
   */
  body(generation: string): Uint8Array | undefined {
    if (this.#removals.has(generation)) return undefined;
    const row = this.#connection.ask<Row | undefined | 'unreadable'>('unreadable', ({ bodyOfGeneration }) =>
      bodyOfGeneration.get(generation),
    );
    if (row === 'unreadable') return undefined;
    const bytes = row?.bytes;
    if (bytes instanceof Uint8Array && row?.checksum === blockSum(generation, 0, bytes)) return bytes;
    this.removeDamaged(generation, `The body of generation ${generation} does not match its checksum.`);
    return undefined;
  }

  /**
   * Puts an entry in place of the one of the same key and variant, which is pinned if it is complete and a pin is wanted. Throws
   * `StoreFault`, with `removed` where the generation had a row before and is no longer the current one.
   */
  put(entry: PutEntry): void {
    const change = this.#connection.change((statements) => this.#put(statements, entry));
    this.#notePut(entry, change);
  }

  /**
   * As `put`, but in one transaction with the other puts of this turn. Calls `onPut` right after the transaction, before any
   * other change of the index. Rejects with what `put` throws.
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

  /**
   * Checks whether a generation that is being written has had a row in this index. Stays true after its removal, of which the
   * writer is notified.
   */
  isPublished(generation: string): boolean {
    return this.#published.has(generation);
  }

  /** Takes a generation that has a row for writing. Throws `StoreFault` when another process is writing it. */
  hold(generation: string): void {
    this.#options.instances?.hold(generation);
    this.#published.add(generation);
  }

  /** Notes that a generation is no longer written. */
  release(generation: string): void {
    this.#published.delete(generation);
    this.#options.instances?.release(generation);
  }

  /**
   * Replaces the metadata of a generation, and returns the new entry; undefined when the generation is no longer the current one.
   * When the write fails, the new entry is returned all the same, unless the old one must not be used any more: then it is removed.
   */
  replaceMetadata(key: string, generation: string, metadata: StoredResponse): IndexedEntry | undefined {
    const found = this.get(key, generation);
    if (found === undefined || found.entry.pinnedUntil !== undefined) return undefined;
    // Read again within the change, because another process may have replaced it since.
    const result = this.#connection.attempt('unwritten', (statements) =>
      updateMetadata(statements, { key, generation }, metadata),
    );
    this.#account.noteChange();
    if (result === 'written') this.#options.onChanged?.({ keys: [key], generations: [] });
    if (result === 'unwritten' && isRestricted(metadata)) this.remove([generation]);
    return result === 'gone' || !this.has(generation) ? undefined : { ...found.entry, metadata };
  }

  /** Records the bytes that a generation takes by now; returns false where it has no row or the write fails. */
  resize(generation: string, allocatedBytes: number): boolean {
    const isWritten = this.#connection.attempt(
      false,
      ({ updateAllocated }) => updateAllocated.run(allocatedBytes, generation).changes > 0,
    );
    this.#account.noteChange();
    return isWritten;
  }

  /** Records that a block of a generation is absent; returns whether the generation was complete until now. */
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
   * Removes generations that exist. They are not found again, even if their rows cannot be deleted now. Returns how many rows
   * were deleted.
   */
  remove(generations: readonly string[]): number {
    return this.#removals.remove(generations);
  }

  /** Notes that another process has removed generations whose rows still exist. */
  applyRemoval(generations: readonly string[]): void {
    this.#removals.note(generations);
  }

  /** Announces again the removed generations whose rows still exist, for a process that has just opened the index. */
  announceLost(): void {
    this.#removals.announceAgain();
  }

  /** Removes all entries of a key; returns how many of them could be found. */
  removeKey(key: string): number {
    const all = this.#allOf(key);
    const { length } = findable(all, this.#options.now);
    this.remove(all.map(({ generation }) => generation));
    return length;
  }

  /** Returns the chosen entries of one page that can be found. `next` is undefined after the last page. */
  list(choice: EntryChoice, limit: number, after: string | undefined): IndexPage {
    const { entries, next } = this.#chosen(choice, limit, after);
    return { entries: findable(entries, this.#options.now), next };
  }

  /**
   * Ranks the chosen entries with the next ids after `from`, for `selection`. Returns the last of these ids; undefined where there
   * are none. `usedAt` ranks by use.
   */
  rank(
    { choice, order, limit, after, usedAt }: RankQuestion,
    selection: RankSelection<EntryRank>,
    from: number,
  ): number | undefined {
    return this.#connection.ask(undefined, ({ windowEnd, rankedRows }) => {
      const end = windowEnd.get(from, rankedAtOnce)?.id;
      if (typeof end !== 'number') return undefined;
      const isByUse = order.by === 'used';
      const place = after === undefined || isByUse ? [1, 0, ''] : [0, after.rank, after.generation];
      // One more than the limit shows whether there is a next page.
      const most = isByUse ? 1 : limit + 1;
      const rows = rankedRows(order.by, hasFallingRanks(order)).all(
        from,
        end,
        ...place,
        ...filterOf(choice, order),
        most,
      );
      for (const row of rows) {
        if (isByUse) addByUse(selection, row, usedAt);
        else selection.add({ rank: rankOfRow(row), generation: String(row.generation) });
      }
      return end;
    });
  }

  /** Returns the entry of a generation that was ranked; undefined where it is not chosen, or cannot be found any more. */
  ranked(generation: string, choice: EntryChoice, contains = ''): IndexedEntry | undefined {
    const row = this.#connection.ask(undefined, ({ entryOfGeneration }) => entryOfGeneration.get(generation));
    const entry = row && this.#parse(row, String(row.key));
    if (entry === undefined || !isChosenBy(choice, entry) || !hasText(entry.key, lowerCase(contains))) return undefined;
    return findable([entry], this.#options.now)[0];
  }

  /**
   * Removes one page of the chosen entries. Returns the keys under which they could be found, and the cursor of the next page,
   * which is undefined after the last one.
   */
  removeChosen(choice: EntryChoice, after: string | undefined): { keys: readonly string[]; next: string | undefined } {
    const { entries, next } = this.#chosen(choice, chosenAtOnce, after);
    this.remove(entries.map(({ generation }) => generation));
    return { keys: findable(entries, this.#options.now).map(({ key }) => key), next };
  }

  /** Removes some expired pins; returns how many, 0 when no more of them can be removed. */
  removeExpired(): number {
    const now = this.#options.now();
    const rows = this.#connection.ask([], ({ expiredPins }) => expiredPins.all(now, expiredAtOnce));
    const expired = rows.map((row) => String(row.generation)).filter((generation) => !this.#removals.has(generation));
    if (expired.length > 0) this.remove(expired);
    return expired.length;
  }

  /** Removes a generation whose row or bytes are damaged, and logs that. */
  removeDamaged(generation: string, detail: string): void {
    if (!this.has(generation)) return;
    const message = 'A stored entry was damaged and has been removed.';
    this.#options.emit({ kind: 'store', level: 'warn', message, detail, count: { damagedBlocks: 1 } });
    this.remove([generation]);
  }

  /** Counts again what all entries take, for when damage may have made the account wrong. */
  recount(): void {
    this.#account.recount();
  }

  /** Deletes the rows that are still to be deleted. */
  flush(): void {
    this.#removals.flush();
  }

  /** Puts an entry within a change; returns what happened to other generations. */
  #put(statements: IndexStatements, put: PutEntry): PinChange {
    const { generation, isComplete } = put.entry;
    // A generation that had a row at its last write must still have it.
    if (this.#published.has(generation)) requireCurrent(statements, generation);
    const isFit = (current: IndexedEntry) =>
      !this.#removals.has(current.generation) && !this.#incomplete.has(current.generation);
    const change = putEntry(statements, put, { now: this.#options.now, isFit });
    if (!isComplete) this.#options.instances?.noteHeld(statements, generation);
    const others = change.deleted.filter((row) => row.generation !== generation);
    this.#options.instances?.noteRemoval(statements, others);
    return change;
  }

  /** Notes a put, and notifies the listeners. */
  #notePut({ entry: { key, generation } }: PutEntry, { pinned, deleted }: PinChange): void {
    this.#published.add(generation);
    this.#incomplete.delete(generation);
    const others = deleted.filter((row) => row.generation !== generation);
    const replaced = [...pinned, ...others].map((earlier) => String(earlier.generation));
    for (const earlier of replaced) this.#options.onRemoved(earlier);
    this.#options.onChanged?.({ keys: [key], generations: replaced });
    this.#removals.giveBack(others);
    const now = this.#options.now();
    // A clock that was set back must not delay the check.
    if (Math.abs(now - this.#expiredCheckedAt) < expiredEveryMs) return;
    this.#expiredCheckedAt = now;
    this.removeExpired();
  }

  #chosen(choice: EntryChoice, limit: number, after: string | undefined): IndexPage {
    const none: ChosenRows = { rows: [], next: undefined };
    const { rows, next } = this.#connection.ask(none, (statements) => selectRows(statements, choice, limit, after));
    const entries = rows.flatMap((row) => this.#parse(row, String(row.key)) ?? []);
    return { entries: entries.filter((entry) => isChosenBy(choice, entry)), next };
  }

  /** Returns all entries of a key, the last put first, expired pins included. */
  #allOf(key: string): IndexedEntry[] {
    const rows = this.#connection.ask([], ({ entriesOfKey }) => entriesOfKey.all(key));
    const entries = rows.flatMap((row) => this.#parse(row, key) ?? []);
    // In a damaged index a row may be found by its key, but not by its generation. Such an entry cannot be opened, so it is left
    // out.
    return entries.filter(({ generation }) => this.has(generation));
  }

  /** Returns the entry of a row; undefined where it was removed or is damaged. A damaged one is removed now. */
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

function rankOfRow({ rank }: Row): number | string {
  return typeof rank === 'string' ? rank : Number(rank);
}

/** Adds the generations of a row that has several; of none where no row was selected. */
function addByUse(selection: RankSelection<EntryRank>, { generation: all }: Row, usedAt: RankQuestion['usedAt']): void {
  if (typeof all !== 'string') return;
  for (const generation of all.split(' ')) selection.add({ rank: usedAt(generation) ?? 0, generation });
}

/** Returns the parameters by which a ranked list is limited: prefix, text, its pattern, and tag (twice). */
function filterOf(choice: EntryChoice, { contains = '' }: EntryOrder): readonly (string | null)[] {
  const prefix = choice.kind === 'prefix' ? choice.prefix : '';
  const tag = choice.kind === 'tag' ? choice.tag : null;
  // As `hasText`: the text follows a space. LIKE does not distinguish the case of ASCII letters either.
  const pattern = `% %${contains.replace(/[\\%_]/g, '\\$&')}%`;
  return [prefix, contains, pattern, tag, tag];
}

/** Keys whose entries have changed, and generations that were replaced or removed. */
interface IndexChange {
  readonly keys: readonly string[];
  readonly generations: readonly string[];
  /** Generations that were removed, but whose rows still exist. */
  readonly lost?: readonly string[];
}

/** Listeners for removals and other changes. */
interface RemovalListeners {
  /** Receives each generation that is no longer the current one, because it was pinned or removed. */
  readonly onRemoved: (generation: string) => void;
  /**
   * Receives each removed generation that has, or may have, files: they are no longer needed. `hasSidecar` is true in doubt.
   * `allocatedBytes` is what the deleted row counted, and 0 while the row still exists.
   */
  readonly onFilesUnneeded: (generation: string, hasSidecar: boolean, allocatedBytes: number) => void;
  /** Receives changes that other processes must know. */
  readonly onChanged?: ((change: IndexChange) => void) | undefined;
}

/** Removes generations, and remembers those whose rows cannot be deleted yet. */
class Removals {
  readonly #connection: IndexConnection;
  readonly #account: RoomAccount;
  readonly #listeners: RemovalListeners;
  readonly #instances: Instances | undefined;
  /** Removed generations whose rows are not deleted yet, which a full disk may delay. */
  readonly #removed = new Set<string>();
  /** Those of them that this process has removed and not announced yet. */
  readonly #unannounced = new Set<string>();

  constructor(
    connection: IndexConnection,
    account: RoomAccount,
    listeners: RemovalListeners & { readonly instances?: Instances | undefined },
  ) {
    this.#connection = connection;
    this.#instances = listeners.instances;
    this.#account = account;
    this.#listeners = listeners;
    connection.onReset(() => this.#forget());
  }

  /** Checks whether a generation was removed, although its row may still exist. */
  has(generation: string): boolean {
    return this.#removed.has(generation);
  }

  /** Removes generations that exist; returns how many rows were deleted. */
  remove(generations: readonly string[]): number {
    for (const generation of generations) this.#unannounced.add(generation);
    this.note(generations);
    return this.flush();
  }

  /** Notes that generations must not be found again. */
  note(generations: readonly string[]): void {
    for (const generation of generations) {
      if (!this.#removed.has(generation)) this.#listeners.onRemoved(generation);
      this.#removed.add(generation);
    }
  }

  /** Deletes the rows that are still to be deleted; returns how many it deleted. */
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
    const lost = [...this.#unannounced];
    this.#unannounced.clear();
    this.#announce(lost);
    // Their files can be removed nevertheless, which may free just the room that the index lacks.
    for (const generation of this.#removed) this.#listeners.onFilesUnneeded(generation, true, 0);
    return 0;
  }

  /** Announces all removed generations whose rows cannot be deleted now either. */
  announceAgain(): void {
    this.flush();
    if (this.#removed.size > 0) this.#announce([...this.#removed]);
  }

  #announce(lost: readonly string[]): void {
    this.#listeners.onChanged?.({ keys: this.#keysOf(lost), generations: [], lost });
  }

  #forget(): void {
    this.#removed.clear();
    this.#unannounced.clear();
  }

  #keysOf(generations: readonly string[]): string[] {
    return this.#connection.ask([], ({ entryOfGeneration }) =>
      generations.flatMap((generation) => {
        const row = entryOfGeneration.get(generation);
        return row === undefined ? [] : [String(row.key)];
      }),
    );
  }

  /** Reports the files of deleted rows as unneeded. */
  giveBack(rows: readonly Row[]): void {
    this.#account.noteChange();
    for (const row of rows) {
      if (row.is_inline === 1) continue;
      this.#listeners.onFilesUnneeded(String(row.generation), row.block_checksum === null, fileBytesOf([row]));
    }
  }
}

/** The totals, which the index keeps in one row. The row is read on demand: after a change, and each time in a shared index. */
class RoomAccount {
  readonly #connection: IndexConnection;
  readonly #isShared: boolean;
  #isOutdated = false;
  #allocatedBytes = 0;
  #entryCount = 0;

  constructor(connection: IndexConnection, isShared: boolean) {
    this.#connection = connection;
    this.#isShared = isShared;
    connection.onReset(() => this.#startAfresh());
    this.#read();
  }

  /** Bytes that all entries take on the disk. */
  get allocatedBytes(): number {
    if (this.#isShared || this.#isOutdated) this.#read();
    return this.#allocatedBytes;
  }

  /** Number of rows, pinned ones too. */
  get entryCount(): number {
    if (this.#isShared || this.#isOutdated) this.#read();
    return this.#entryCount;
  }

  /** Notes that the index was changed. */
  noteChange(): void {
    this.#isOutdated = true;
  }

  /** Reads the totals. Damaged totals are counted again. */
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

  /** Counts the totals again, where damage may have made them wrong. */
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

/**
 * Messages to the other processes: those to be sent, and those that were sent and are not applied yet. Does nothing in a process
 * that is alone.
 */
export class ChangeMessages {
  readonly #tell: AnnounceChange | undefined;
  readonly #keys = new Set<string>();
  readonly #generations = new Set<string>();
  readonly #lost = new Set<string>();
  readonly #sending = new Set<Promise<void>>();
  #isPending = false;

  constructor(tell: AnnounceChange | undefined) {
    this.#tell = tell;
  }

  /** Announces a change, together with the other changes of this turn. */
  note({ keys, generations, lost = [] }: IndexChange): void {
    if (this.#tell === undefined) return;
    for (const key of keys) this.#keys.add(key);
    for (const generation of generations) this.#generations.add(generation);
    for (const generation of lost) this.#lost.add(generation);
    if (this.#isPending) return;
    this.#isPending = true;
    queueMicrotask(() => this.#flush());
  }

  /** Announces another change at once. Resolves when all other processes have applied it, and everything noted before. */
  async announce(change: StoreChange): Promise<void> {
    this.#flush();
    this.#send(change);
    await this.settled();
  }

  /** Resolves when all other processes have applied everything noted until now. */
  async settled(): Promise<void> {
    if (this.#tell === undefined) return;
    this.#flush();
    if (this.#sending.size > 0) await Promise.all(this.#sending);
  }

  #flush(): void {
    this.#isPending = false;
    const [keys, generations, lost] = [this.#keys, this.#generations, this.#lost].map(drain);
    // The keys come last: a process that looks a key up again because of them must already know of the generations.
    if (generations !== undefined) this.#send({ kind: 'generations', generations });
    if (lost !== undefined) this.#send({ kind: 'lost', generations: lost });
    if (keys !== undefined) this.#send({ kind: 'keys', keys });
  }

  #send(change: StoreChange): void {
    if (this.#tell === undefined) return;
    const sending = this.#tell(change).finally(() => this.#sending.delete(sending));
    this.#sending.add(sending);
  }
}

/** Empties a set and returns its members; undefined where it was empty. */
function drain(noted: Set<string>): readonly string[] | undefined {
  if (noted.size === 0) return undefined;
  const all = [...noted];
  noted.clear();
  return all;
}
