/** The index of the disk store: which entries there are, and how much they take. */

import type { StoredResponse } from '../../http/stored-response.ts';
import type { Emit } from '../../telemetry/events.ts';
import { findable, maxPins, pinInstant } from '../pins.ts';
import { rowBytes } from './allocated-bytes.ts';
import { blockSum } from './block-sums.ts';
import type { IndexConnection } from './index-connection.ts';
import { type EntryPlace, type IndexedEntry, parseRow, rowSum } from './index-row.ts';
import type { IndexStatements, Row } from './index-statements.ts';

/** What the index is made with. */
export interface DiskIndexOptions {
  readonly connection: IndexConnection;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly emit: Emit;
  /** Is told of each generation that is not the current one any more: it is pinned or removed. */
  readonly onRemoved: (generation: string) => void;
  /** Is told of generations that were removed: their files, if they have any, are of no use any more. */
  readonly onFilesUnneeded: (generation: string) => void;
}

/** So many pinned generations whose time is over are removed at once. */
const expiredAtOnce = 64;
/** So many entries that have a tag are removed at once. */
const taggedAtOnce = 64;

/** What pinning has done: the generations that are pinned now, and the rows that had to go for them. */
interface PinChange {
  readonly pinned: readonly { readonly generation: string }[];
  readonly deleted: readonly Row[];
}

const unpinned: PinChange = { pinned: [], deleted: [] };

/** The index. Look-ups answer with nothing when it cannot be read; only `put` throws. */
export class DiskIndex {
  readonly #options: DiskIndexOptions;
  readonly #connection: IndexConnection;
  /** Generations that were removed, until their rows could be deleted, which a full disk may delay. */
  readonly #removed = new Set<string>();
  /** Generations that lost a block, whose rows could not be told so. */
  readonly #incomplete = new Set<string>();
  #allocatedBytes = 0;

  constructor(options: DiskIndexOptions) {
    this.#options = options;
    this.#connection = options.connection;
    this.#connection.onFresh(() => this.#startAfresh());
    this.#readAllocated();
  }

  /** What all entries take on the disk, in bytes. */
  get allocatedBytes(): number {
    return this.#allocatedBytes;
  }

  /** The entries of a key, the last put first, pinned ones after all others. Rows that are damaged are removed. */
  find(key: string): readonly IndexedEntry[] {
    return findable(this.#kept(key), this.#options.now);
  }

  /** Whether there is such a generation; in doubt, yes. */
  has(generation: string): boolean {
    if (this.#removed.has(generation)) return false;
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
    if (this.#removed.has(generation)) return undefined;
    const row = this.#connection.ask(undefined, ({ bodyOfGeneration }) => bodyOfGeneration.get(generation));
    const bytes = row?.bytes;
    if (bytes instanceof Uint8Array && row?.checksum === blockSum(generation, 0, bytes)) return bytes;
    this.removeDamaged(generation, `The body of generation ${generation} does not match its checksum.`);
    return undefined;
  }

  /**
   * Puts an entry in place of the one of the same key and variant, which is pinned if it is complete and that is wanted;
   * `body` for one inline. Throws `StoreFault`.
   */
  put(
    entry: Omit<IndexedEntry, 'pinnedUntil'>,
    allocatedBytes: number,
    body: Uint8Array | undefined,
    pinPreviousUntil?: number,
  ): void {
    const { key, variant, generation, sizeBytes, isInline, isComplete } = entry;
    const metadata = JSON.stringify(entry.metadata);
    const sum = rowSum(entry, metadata);
    const flags = [Number(isInline), Number(isComplete)];
    const columns = [key, variant, generation, metadata, sizeBytes, allocatedBytes, ...flags, sum, this.#options.now()];
    const pinnedUntil = pinInstant(pinPreviousUntil, this.#options.now);
    const { pinned, deleted } = this.#connection.change((statements) => {
      const { deleteCurrent, insertEntry, insertBody, insertTag } = statements;
      const change = pinnedUntil === undefined ? unpinned : this.#pin(statements, entry, pinnedUntil);
      const rows = [...change.deleted, ...deleteCurrent.all(key, variant)];
      const { lastInsertRowid } = insertEntry.run(...columns);
      if (body !== undefined) insertBody.run(lastInsertRowid, body, blockSum(generation, 0, body));
      for (const tag of entry.metadata.tags ?? []) insertTag.run(tag, generation);
      return { pinned: change.pinned, deleted: rows };
    });
    this.#incomplete.delete(generation);
    const others = deleted.filter((row) => row.generation !== generation);
    for (const { generation: earlier } of [...pinned, ...others]) this.#options.onRemoved(String(earlier));
    this.#giveBack(others);
    this.removeExpired();
  }

  /**
   * Replaces the metadata of a generation and gives the new entry; undefined when the generation is not current any more.
   * When that cannot be written now, the new entry is given all the same.
   */
  replaceMetadata(key: string, generation: string, metadata: StoredResponse): IndexedEntry | undefined {
    const found = this.get(key, generation);
    if (found === undefined || found.entry.pinnedUntil !== undefined) return undefined;
    const { entry } = found;
    const text = JSON.stringify(metadata);
    const growthBytes = rowBytes(key, entry.variant, metadata) - rowBytes(key, entry.variant, entry.metadata);
    const isWritten = this.#connection.attempt(false, (statements) => {
      statements.updateMetadata.run(text, rowSum(entry, text), found.allocatedBytes + growthBytes, generation);
      replaceTags(statements, entry, metadata.tags);
      return true;
    });
    this.#readAllocated();
    return isWritten || this.has(generation) ? { ...entry, metadata } : undefined;
  }

  /** Notes what a generation takes by now, in bytes; tells whether that could be written. */
  resize(generation: string, allocatedBytes: number): boolean {
    const isWritten = this.#connection.attempt(false, ({ updateAllocated }) => {
      updateAllocated.run(allocatedBytes, generation);
      return true;
    });
    this.#readAllocated();
    return isWritten;
  }

  /** Notes that a block of a generation is absent; tells whether the generation was complete until now. */
  markIncomplete(generation: string): boolean {
    const row = this.#connection.ask(undefined, ({ entryOfGeneration }) => entryOfGeneration.get(generation));
    if (row?.is_complete !== 1 || this.#removed.has(generation) || this.#incomplete.has(generation)) return false;
    const isWritten = this.#connection.attempt(false, ({ updateIncomplete }) => {
      updateIncomplete.run(generation);
      return true;
    });
    if (!isWritten) this.#incomplete.add(generation);
    return true;
  }

  /** Removes generations, where they are there. They are not found again, even if their rows cannot be deleted now. */
  remove(generations: Iterable<string>): void {
    for (const generation of generations) {
      if (!this.#removed.has(generation)) this.#options.onRemoved(generation);
      this.#removed.add(generation);
    }
    this.#deleteRemoved();
  }

  /** Removes all entries of a key; tells how many of them could be found. */
  removeKey(key: string): number {
    const kept = this.#kept(key);
    const { length } = findable(kept, this.#options.now);
    this.remove(kept.map(({ generation }) => generation));
    return length;
  }

  /**
   * Removes the next entries after a row that have a tag, only a few of them at once. Tells the keys under which they
   * could be found, and after which row to go on; undefined for the latter when there are no more.
   */
  removeTagged(tag: string, afterRow: number): { keys: readonly string[]; lastRow: number | undefined } {
    const rows = this.#connection.ask([], ({ taggedEntries }) => taggedEntries.all(tag, afterRow, taggedAtOnce));
    const entries = rows.flatMap((row) => this.#parse(row, String(row.key)) ?? []);
    // SQLite cannot tell texts apart that differ in lone surrogates only.
    const tagged = entries.filter(({ metadata }) => metadata.tags?.includes(tag));
    this.remove(tagged.map(({ generation }) => generation));
    const keys = findable(tagged, this.#options.now).map(({ key }) => key);
    return { keys, lastRow: rows.length < taggedAtOnce ? undefined : Number(rows.at(-1)?.id) };
  }

  /** Removes some of the pinned generations whose time is over; tells how many, 0 when no more of them can be. */
  removeExpired(): number {
    const now = this.#options.now();
    const rows = this.#connection.ask([], ({ expiredPins }) => expiredPins.all(now, expiredAtOnce));
    const expired = rows.map((row) => String(row.generation)).filter((generation) => !this.#removed.has(generation));
    if (expired.length > 0) this.remove(expired);
    return expired.length;
  }

  /** Removes a generation whose row or bytes are damaged, and tells of it. */
  removeDamaged(generation: string, detail: string): void {
    if (!this.has(generation)) return;
    const message = 'A stored entry was damaged and has been removed.';
    this.#options.emit({ kind: 'store', level: 'warn', message, detail });
    this.remove([generation]);
  }

  /** Counts anew what all entries take, where the account may be wrong because something was damaged. */
  recount(): void {
    this.#connection.attempt(undefined, ({ recount }) => void recount.run());
    const row = this.#connection.ask(undefined, ({ room }) => room.get());
    if (row !== undefined) this.#allocatedBytes = Math.max(0, Number(row.allocated_bytes));
  }

  /** Writes what is still to be written. */
  flush(): void {
    this.#deleteRemoved();
  }

  /** All entries of a key, the last put first, also those whose time is over. */
  #kept(key: string): IndexedEntry[] {
    const rows = this.#connection.ask([], ({ entriesOfKey }) => entriesOfKey.all(key));
    const entries = rows.flatMap((row) => this.#parse(row, key) ?? []);
    // In a damaged index a row may be found by its key alone. Nobody can open it, so it must not be in the way.
    return entries.filter(({ generation }) => this.has(generation));
  }

  /** Pins the current generation of a place if it is another one and complete, and deletes what is pinned too many. */
  #pin(statements: IndexStatements, { key, variant, generation }: EntryPlace, pinnedUntil: number): PinChange {
    const { currentOfVariant, updatePin, superfluousPins, deleteGeneration } = statements;
    const row = currentOfVariant.get(key, variant);
    const current = row && parseRow(row, key);
    if (current?.isComplete !== true || current.generation === generation) return unpinned;
    if (this.#removed.has(current.generation) || this.#incomplete.has(current.generation)) return unpinned;
    updatePin.run(pinnedUntil, rowSum(current, String(row?.metadata), pinnedUntil), current.generation);
    const superfluous = superfluousPins.all(key, variant, this.#options.now(), maxPins);
    return {
      pinned: [current],
      deleted: superfluous.flatMap((pin) => deleteGeneration.all(String(pin.generation))),
    };
  }

  /** The entry of a row, unless it was removed or is damaged; then it is removed now. */
  #parse(row: Row, key: string): IndexedEntry | undefined {
    const generation = String(row.generation);
    if (this.#removed.has(generation)) return undefined;
    const entry = parseRow(row, key);
    if (entry !== undefined) return this.#incomplete.has(generation) ? { ...entry, isComplete: false } : entry;
    this.removeDamaged(generation, `The row of generation ${generation} does not match its checksum.`);
    return undefined;
  }

  #deleteRemoved(): void {
    if (this.#removed.size === 0) return;
    const rows = this.#connection.attempt(undefined, ({ deleteGeneration }) =>
      [...this.#removed].flatMap((generation) => deleteGeneration.all(generation)),
    );
    if (rows !== undefined) {
      this.#removed.clear();
      this.#giveBack(rows);
      return;
    }
    // What is in files can be given back nevertheless, and may be just the room that the index lacks.
    for (const generation of this.#removed) this.#options.onFilesUnneeded(generation);
  }

  /** Tells of the files of deleted rows. */
  #giveBack(rows: readonly Row[]): void {
    this.#readAllocated();
    for (const row of rows) if (row.is_inline !== 1) this.#options.onFilesUnneeded(String(row.generation));
  }

  #readAllocated(): void {
    const row = this.#connection.ask(undefined, ({ room }) => room.get());
    const bytes = Number(row?.allocated_bytes);
    if (bytes >= 0 && bytes === -Number(row?.negated_bytes)) this.#allocatedBytes = bytes;
    else this.recount();
  }

  #startAfresh(): void {
    this.#allocatedBytes = 0;
    this.#removed.clear();
    this.#incomplete.clear();
  }
}

/** Gives an entry these tags instead of its own; where they are the same, nothing is written. */
function replaceTags(
  { deleteTags, insertTag }: IndexStatements,
  { generation, metadata: { tags: earlier = [] } }: IndexedEntry,
  tags: readonly string[] = [],
): void {
  if (tags.length === earlier.length && tags.every((tag, at) => tag === earlier[at])) return;
  if (earlier.length > 0) deleteTags.run(generation);
  for (const tag of tags) insertTag.run(tag, generation);
}
