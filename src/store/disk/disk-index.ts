/** The index of the disk store: which entries there are, how much they take, and in which order they were used. */

import type { StoredResponse } from '../../http/stored-response.ts';
import type { Emit } from '../../telemetry/events.ts';
import { bodyBytes, rowBytes } from './allocated-bytes.ts';
import { blockSum } from './block-sums.ts';
import { IndexConnection } from './index-connection.ts';
import { type EntryPlace, type IndexedEntry, parseRow, rowSum } from './index-row.ts';
import type { Row } from './index-statements.ts';

/** What the index is opened with. */
export interface DiskIndexOptions {
  readonly dir: string;
  readonly blockSizeBytes: number;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly emit: Emit;
  /** Is told of generations that were removed: their files, if they have any, are of no use any more. */
  readonly onFilesUnneeded: (generation: string) => void;
  /** Is told when all entries are gone, because a damaged index was replaced by a fresh one. */
  readonly onFresh: () => void;
}

/** So many entries may have uses that are not written yet: those in steady use are then seldom written. */
const maxUnwrittenUses = 8192;
/** So many uses are written in one transaction. */
const usesAtOnce = 128;
/** Free pages that the index keeps for what comes: so many, and this share of all. More go back to the file system. */
const keptFreePages = 1024;
const keptFreePageShare = 1 / 8;

/** The index. Look-ups answer with nothing when it cannot be read; only `put` throws. */
export class DiskIndex {
  readonly #options: DiskIndexOptions;
  readonly #connection: IndexConnection;
  /** When generations were used, as far as it is not written yet; the one that waits longest is the first. */
  readonly #uses = new Map<string, number>();
  /** Generations that were removed, until their rows could be deleted, which a full disk may delay. */
  readonly #removed = new Set<string>();
  #allocatedBytes: number;

  /** Opens the index of a directory. Throws `StoreFault`. */
  constructor(options: DiskIndexOptions) {
    this.#options = options;
    this.#connection = new IndexConnection({ ...options, onFresh: () => this.#startAfresh() });
    this.#allocatedBytes = this.#connection.ask(0, ({ allocatedBytes }) => Number(allocatedBytes.get()?.bytes));
  }

  /** What all entries take on the disk, in bytes. */
  get allocatedBytes(): number {
    return this.#allocatedBytes;
  }

  /** The entries of a key, the last put first. Rows that are damaged are removed. */
  find(key: string): IndexedEntry[] {
    const rows = this.#connection.ask([], ({ entriesOfKey }) => entriesOfKey.all(key));
    return rows.flatMap((row) => this.#parse(row, key) ?? []);
  }

  /** Whether there is such a generation; in doubt, yes. */
  has(generation: string): boolean {
    if (this.#removed.has(generation)) return false;
    return this.#connection.ask(true, ({ entryOfGeneration }) => entryOfGeneration.get(generation) !== undefined);
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

  /** Puts an entry in place of the one of the same key and variant; `body` for one inline. Throws `StoreFault`. */
  put(entry: IndexedEntry, body: Uint8Array | undefined): void {
    const { key, variant, generation, sizeBytes, isInline } = entry;
    const metadata = JSON.stringify(entry.metadata);
    const allocated = this.#allocated(entry, metadata);
    const sum = rowSum(entry, metadata);
    const now = this.#options.now();
    const columns = [key, variant, generation, metadata, sizeBytes, allocated, Number(isInline), sum, now, now];
    const replaced = this.#connection.change(({ deleteVariant, insertEntry, insertBody }) => {
      const rows = deleteVariant.all(key, variant);
      const { lastInsertRowid } = insertEntry.run(...columns);
      if (body !== undefined) insertBody.run(lastInsertRowid, body, blockSum(generation, 0, body));
      return rows;
    });
    this.#allocatedBytes += allocated;
    this.#giveBack(replaced);
  }

  /**
   * Replaces the metadata of a generation and gives the new entry; undefined when the generation is not there any more.
   * When that cannot be written now, the new entry is given all the same.
   */
  replaceMetadata(key: string, generation: string, metadata: StoredResponse): IndexedEntry | undefined {
    const row = this.#connection.ask(undefined, ({ entryOfGeneration }) => entryOfGeneration.get(generation));
    const entry = row === undefined ? undefined : this.#parse(row, key);
    if (row === undefined || entry === undefined) return undefined;
    const text = JSON.stringify(metadata);
    const allocated = this.#allocated(entry, text);
    const isWritten = this.#connection.attempt(false, ({ updateMetadata }) => {
      updateMetadata.run(text, rowSum(entry, text), allocated, generation);
      return true;
    });
    if (isWritten) this.#allocatedBytes += allocated - Number(row.allocated_bytes);
    return isWritten || this.has(generation) ? { ...entry, metadata } : undefined;
  }

  /** Removes generations, where they are there. They are not found again, even if their rows cannot be deleted now. */
  remove(generations: Iterable<string>): void {
    for (const generation of generations) this.#removed.add(generation);
    this.#deleteRemoved();
  }

  /** Notes that a generation is in use. Written later, with others. */
  touch(generation: string): void {
    this.#uses.set(generation, this.#options.now());
    if (this.#uses.size > maxUnwrittenUses) this.#writeUses([...this.#uses.keys().take(usesAtOnce)]);
  }

  /**
   * Takes a step toward so many free bytes: removes the least used entries, but not more than `atMost`; or, where these
   * have uses that are not written yet, writes them. Tells whether there was anything to be done.
   */
  evict(bytes: number, atMost: number): boolean {
    const leastUsed = this.#connection.ask([], (statements) => statements.leastUsed.all(atMost));
    const inUse = leastUsed.map((row) => String(row.generation)).filter((generation) => this.#uses.has(generation));
    if (inUse.length > 0) {
      this.#writeUses(inUse);
      return true;
    }
    const before = this.#allocatedBytes;
    const evicted: string[] = [];
    let freed = 0;
    for (const row of leastUsed) {
      if (freed >= bytes) break;
      freed += Number(row.allocated_bytes);
      evicted.push(String(row.generation));
    }
    this.remove(evicted);
    this.#giveBackPages();
    return this.#allocatedBytes < before;
  }

  /** Writes what is still to be written and closes the file. */
  close(): void {
    this.#writeUses([...this.#uses.keys()]);
    this.#deleteRemoved();
    this.#connection.close();
  }

  /** Removes a generation whose row or bytes are damaged, and tells of it. */
  removeDamaged(generation: string, detail: string): void {
    if (!this.has(generation)) return;
    const message = 'A stored entry was damaged and has been removed.';
    this.#options.emit({ kind: 'store', level: 'warn', message, detail });
    this.remove([generation]);
  }

  /** The entry of a row, unless it was removed or is damaged; then it is removed now. */
  #parse(row: Row, key: string): IndexedEntry | undefined {
    const generation = String(row.generation);
    if (this.#removed.has(generation)) return undefined;
    const entry = parseRow(row, key);
    if (entry !== undefined) return entry;
    this.removeDamaged(generation, `The row of generation ${generation} does not match its checksum.`);
    return undefined;
  }

  /** Writes when these were used. Where that cannot be written now, it is forgotten: it decides on evictions only. */
  #writeUses(generations: readonly string[]): void {
    if (generations.length === 0) return;
    this.#connection.attempt(undefined, ({ updateUse }) => {
      for (const generation of generations) {
        const usedAt = this.#uses.get(generation);
        if (usedAt !== undefined) updateUse.run(usedAt, generation);
      }
    });
    for (const generation of generations) this.#uses.delete(generation);
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

  /** Makes the index's file smaller, a little at a time, when it has too many pages that nothing is in. */
  #giveBackPages(): void {
    const free = this.#connection.ask(0, ({ freePageCount }) => Number(freePageCount.get()?.freelist_count));
    const all = this.#connection.ask(0, ({ pageCount }) => Number(pageCount.get()?.page_count));
    if (free <= keptFreePages + all * keptFreePageShare) return;
    this.#connection.attempt(undefined, ({ giveBackPages }) => giveBackPages.all());
  }

  /** Takes deleted rows out of the account, and tells of their files. */
  #giveBack(rows: readonly Row[]): void {
    for (const row of rows) {
      this.#allocatedBytes -= Number(row.allocated_bytes);
      if (row.is_inline !== 1) this.#options.onFilesUnneeded(String(row.generation));
    }
  }

  #allocated({ key, variant, sizeBytes }: EntryPlace, metadata: string): number {
    return rowBytes(key, variant, metadata) + bodyBytes(sizeBytes, this.#options.blockSizeBytes);
  }

  #startAfresh(): void {
    this.#allocatedBytes = 0;
    this.#uses.clear();
    this.#removed.clear();
    this.#options.onFresh();
  }
}
