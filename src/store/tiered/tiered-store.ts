/**
 * A store with memory in front of it. Entries that were found before and blocks that memory has are returned in the same tick.
 * `TieredBlocks` decides which blocks are worth their room in memory. Read memory-tier.ts next.
 */

import { SpanSet } from '../../bytes/span.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import { findable } from '../entry-rules.ts';
import type {
  BlockSource,
  EntryChoice,
  EntryName,
  EntryOrder,
  EntryPage,
  EntryRank,
  EntryReader,
  EntryWriter,
  NewEntry,
  RankedPage,
  Store,
  StoreChange,
  StoredEntry,
  StoreUsage,
  WholeWriter,
} from '../store.ts';
import { type MemoryTier, RecentTouches } from './memory-tier.ts';

const noEntries: readonly StoredEntry[] = [];

/** A store with memory in front of it. */
export interface TieredStore extends Store {
  /** Drops from memory what the store below has changed by itself. */
  forget(change: StoreChange): void;
}

/** Until when memory may answer, where other machines change the store below. */
export interface MemoryLease {
  /** Whether memory may answer now. Asked for each hit. */
  isMemoryCurrent(): boolean;
  /** Resolves when memory has forgotten what was changed before the call, or that is not known; undefined where it has. Never rejects. */
  current(): Promise<void> | undefined;
}

/**
 * Puts memory in front of a store, and takes the store over: all changes must go through the tiered store. An entry that the
 * store below evicts by itself may still be returned until it is opened; its blocks in memory are right. `now` returns epoch
 * milliseconds. Without a lease memory may always answer.
 */
export function createTieredStore(
  memory: MemoryTier,
  store: Store,
  now: () => number,
  lease?: MemoryLease,
): TieredStore {
  return new MemoryBefore(memory, store, now, lease);
}

/** From how many entries of a key on a change is put into the list in memory, which is read anew after a change otherwise. */
const longList = 16;

class MemoryBefore implements TieredStore {
  readonly blockSizeBytes: number;
  readonly maxEntryBytes: number;
  readonly #memory: MemoryTier;
  readonly #store: Store;
  readonly #now: () => number;
  readonly #lease: MemoryLease | undefined;
  readonly #blocks: TieredBlocks;
  readonly #absent: AbsentKeys;
  /** The look-ups in progress. A change removes the look-up of its key, whose result is then not kept. */
  readonly #finding = new Map<string, Promise<readonly StoredEntry[]>>();

  constructor(memory: MemoryTier, store: Store, now: () => number, lease?: MemoryLease) {
    this.blockSizeBytes = store.blockSizeBytes;
    this.maxEntryBytes = store.maxEntryBytes;
    this.#memory = memory;
    this.#store = store;
    this.#now = now;
    this.#lease = lease;
    this.#blocks = new TieredBlocks(memory);
    this.#absent = new AbsentKeys(now);
  }

  peek(key: string): readonly StoredEntry[] | undefined {
    if (this.#lease?.isMemoryCurrent() === false) return undefined;
    const cached = this.#memory.entriesOf(key);
    if (cached === undefined) return this.#store.peek(key)?.map((entry) => this.#wrap(entry));
    return cached.length === 1 && cached[0]?.pinnedUntil === undefined ? cached : findable(cached, this.#now);
  }

  async find(key: string): Promise<readonly StoredEntry[]> {
    if (this.#lease?.isMemoryCurrent() === false) {
      await this.#lease.current();
      if (!this.#lease.isMemoryCurrent()) return await this.#findBelow(key);
    }
    const cached = this.#inMemory(key) ?? (this.#absent.has(key) ? noEntries : undefined);
    return cached ?? this.#finding.get(key) ?? this.#findBelow(key);
  }

  async openWriter(entry: NewEntry): Promise<EntryWriter> {
    return this.#wrapWriter(entry.key, await this.#store.openWriter(entry));
  }

  openWhole(entry: NewEntry, bytes: Uint8Array): WholeWriter | undefined {
    const writer = this.#store.openWhole?.(entry, bytes);
    if (writer === undefined) return undefined;
    const { generation } = writer;
    return {
      generation,
      commit: async (final) => {
        this.#blocks.keepSmall(generation, 0, bytes);
        return await this.#committing(entry.key, writer.commit(final));
      },
      [Symbol.asyncDispose]: () => writer[Symbol.asyncDispose](),
    };
  }

  async resume(entry: StoredEntry): Promise<EntryWriter | undefined> {
    const writer = await this.#store.resume(entry);
    if (writer !== undefined) return this.#wrapWriter(entry.key, writer);
    this.#forget(entry.key);
    return undefined;
  }

  async replaceMetadata(entry: StoredEntry, metadata: StoredResponse): Promise<StoredEntry | undefined> {
    const replaced = await this.#changing(entry.key, this.#store.replaceMetadata(entry, metadata));
    return replaced === undefined ? undefined : this.#wrap(replaced);
  }

  async removeEntry(entry: EntryName): Promise<void> {
    const before = this.#longListOf(entry.key);
    await this.#changing(entry.key, this.#store.removeEntry(entry), () =>
      this.#keepInPlace(before, (all) => all.filter(({ generation }) => generation !== entry.generation)),
    );
  }

  removeKey(key: string): Promise<number> {
    return this.#changing(key, this.#store.removeKey(key));
  }

  removeTagged(tag: string): Promise<readonly string[]> {
    return this.#removing(this.#store.removeTagged(tag), () => this.#memory.taggedEntries(tag));
  }

  removePrefixed(prefix: string): Promise<readonly string[]> {
    return this.#removing(this.#store.removePrefixed(prefix), () => this.#memory.prefixedEntries(prefix));
  }

  async list(choice: EntryChoice, limit: number, after?: string): Promise<EntryPage> {
    const { entries, next } = await this.#store.list(choice, limit, after);
    return { entries: entries.map((entry) => this.#wrap(entry)), next };
  }

  async listRanked(choice: EntryChoice, order: EntryOrder, limit: number, after?: EntryRank): Promise<RankedPage> {
    const { entries, next } = await this.#store.listRanked(choice, order, limit, after);
    return { entries: entries.map((ranked) => ({ ...ranked, entry: this.#wrap(ranked.entry) })), next };
  }

  usedAt(generation: string): number | undefined {
    return this.#store.usedAt(generation);
  }

  blocksInMemory(generation: string, count: number): SpanSet {
    const below = this.#store.blocksInMemory(generation, count);
    return SpanSet.where(count, (index) => below.has(index) || this.#memory.hasBlock(generation, index));
  }

  readUsage(): StoreUsage {
    const { sizeBytes: memoryBytes, maxSizeBytes: maxMemoryBytes } = this.#memory;
    return { ...this.#store.readUsage(), memoryBytes, maxMemoryBytes };
  }

  applyChange(change: StoreChange): void {
    this.forget(change);
    this.#store.applyChange(change);
  }

  forget(change: StoreChange): void {
    if (change.kind === 'keys') for (const key of change.keys) this.#forget(key);
    if (change.kind === 'tag') this.#forgetEntries(this.#memory.taggedEntries(change.tag));
    if (change.kind === 'prefix') this.#forgetEntries(this.#memory.prefixedEntries(change.prefix));
    if (change.kind !== 'fresh') return;
    this.#memory.clear();
    this.#absent.clear();
    this.#finding.clear();
  }

  async close(): Promise<void> {
    this.#memory.clear();
    await this.#store.close();
  }

  /** Waits for a removal by choice, successful or not, and forgets the chosen entries in memory. */
  async #removing(
    removal: Promise<readonly string[]>,
    entriesInMemory: () => readonly StoredEntry[],
  ): Promise<readonly string[]> {
    const keys = new Set<string>();
    try {
      for (const key of await removal) keys.add(key);
    } finally {
      // Memory may still have, or be about to receive, entries that the store below has evicted by itself.
      const cached = entriesInMemory();
      for (const { key } of findable(cached, this.#now)) keys.add(key);
      for (const key of keys) this.#memory.forgetEntries(key);
      this.#forgetEntries(cached);
    }
    return [...keys];
  }

  #inMemory(key: string): readonly StoredEntry[] | undefined {
    const cached = this.#memory.entriesOf(key);
    return cached && findable(cached, this.#now);
  }

  async #findBelow(key: string): Promise<readonly StoredEntry[]> {
    const finding = this.#store.find(key).then((entries) => entries.map((entry) => this.#wrap(entry)));
    this.#finding.set(key, finding);
    try {
      const entries = await finding;
      // A key without entries is not kept in memory: requests for resources that do not exist must not push out entries.
      if (this.#finding.get(key) !== finding) return entries;
      if (entries.length > 0) this.#memory.keepEntries(key, entries);
      else this.#absent.add(key);
      return entries;
    } finally {
      if (this.#finding.get(key) === finding) this.#finding.delete(key);
    }
  }

  /**
   * Waits for a change of a key, successful or not, and forgets what was found before and during the change, unless `onChanged`
   * returns true: it has put the change into what memory has.
   */
  async #changing<T>(key: string, change: Promise<T>, onChanged?: (changed: T) => boolean): Promise<T> {
    let isKept = false;
    try {
      const changed = await change;
      isKept = onChanged?.(changed) === true;
      return changed;
    } finally {
      if (!isKept) this.#forget(key);
    }
  }

  async #committing(key: string, commit: Promise<StoredEntry>): Promise<StoredEntry> {
    const before = this.#longListOf(key);
    let wrapped: StoredEntry | undefined;
    const committed = await this.#changing(key, commit, (entry) => {
      const own = this.#wrap(entry);
      wrapped = own;
      // What becomes of an earlier generation of the variant, only the store below knows.
      const isNew = before?.every(({ variant }) => variant !== entry.variant) === true;
      return isNew && this.#keepInPlace(before, (all) => [own, ...all]);
    });
    return wrapped ?? this.#wrap(committed);
  }

  /** The entries of a key in memory, where they are so many that to read them anew costs more than the change. */
  #longListOf(key: string): readonly StoredEntry[] | undefined {
    // Where other machines change the store, it is asked again.
    if (this.#lease !== undefined) return undefined;
    const cached = this.#memory.entriesOf(key);
    return cached !== undefined && cached.length >= longList ? cached : undefined;
  }

  /** Changes the entries of a key in memory; returns false where memory has others by now, or a look-up is in progress. */
  #keepInPlace(
    before: readonly StoredEntry[] | undefined,
    change: (before: readonly StoredEntry[]) => readonly StoredEntry[],
  ): boolean {
    const key = before?.[0]?.key;
    if (before === undefined || key === undefined) return false;
    if (this.#finding.has(key) || this.#memory.entriesOf(key) !== before) return false;
    this.#memory.keepEntries(key, change(before));
    return true;
  }

  #forget(key: string): void {
    this.#memory.forgetEntries(key);
    this.#absent.delete(key);
    this.#finding.delete(key);
  }

  /** Forgets entries in memory, and the results of all look-ups in progress. */
  #forgetEntries(cached: readonly StoredEntry[]): void {
    for (const { key } of cached) this.#memory.forgetEntries(key);
    this.#finding.clear();
  }

  #wrapWriter(key: string, writer: EntryWriter): EntryWriter {
    const { generation } = writer;
    const writing = new Set<number>();
    return {
      generation,
      hasBlock: (index) => writer.hasBlock(index),
      peekBlock: (index) => this.#blocks.peek(generation, writer, index),
      readBlock: (index) => this.unlessGone(key, this.#blocks.read(generation, writer, index)),
      writeBlock: async (index, bytes) => {
        // The writer ignores these bytes when it already has the block, so memory must not keep them either.
        if (writer.hasBlock(index) || writing.has(index)) return await writer.writeBlock(index, bytes);
        writing.add(index);
        try {
          await writer.writeBlock(index, bytes);
          this.#blocks.keepWritten(generation, writer, index, bytes);
        } finally {
          writing.delete(index);
        }
      },
      publish: (metadata, pinPreviousUntil) => this.#changing(key, writer.publish(metadata, pinPreviousUntil)),
      commit: (final) => this.#committing(key, writer.commit(final)),
      [Symbol.asyncDispose]: () => writer[Symbol.asyncDispose](),
    };
  }

  #wrap(entry: StoredEntry): StoredEntry {
    return new TieredEntry(entry, this, this.#memory);
  }

  /**
   * Reads bytes in the same tick. A block that is read as a whole is kept in memory. A block of which pieces are read often is
   * read into memory in the background.
   */
  readNow(entry: StoredEntry, offset: number, end: number): Uint8Array | undefined {
    const index = Math.floor(offset / this.blockSizeBytes);
    const block = entry.readBlockNow?.(index);
    if (block !== undefined) {
      this.#memory.keepBlock(entry.generation, index, block);
      return block.subarray(offset % this.blockSizeBytes, end - index * this.blockSizeBytes);
    }
    const bytes = entry.readNow?.(offset, end);
    if (bytes !== undefined) this.#noteRead(entry, index);
    return bytes;
  }

  /** Notes that a block was read that is not in memory, and reads it into memory where that happens often. */
  #noteRead(entry: StoredEntry, index: number): void {
    if (this.#blocks.isWanted(entry.generation, index, this.blockSizeBytes)) void this.#readIntoMemory(entry, index);
  }

  async open(entry: StoredEntry, first?: number): Promise<EntryReader> {
    const { key, generation } = entry;
    const isKept = first !== undefined && this.#memory.hasBlock(generation, first);
    const reader = await this.unlessGone(key, entry.open(isKept ? undefined : first));
    let position: number | undefined;
    return {
      peekBlock: (index) => this.#blocks.peekOpened(generation, reader, index),
      readBlock: async (index) =>
        this.#blocks.peekOpened(generation, reader, index) ??
        (await this.unlessGone(key, this.#blocks.readInPassing(generation, reader, index))),
      readNow: (offset, end) => {
        const bytes = reader.readNow?.(offset, end);
        const index = Math.floor(offset / this.blockSizeBytes);
        // A reader counts one touch per block, however small its steps are.
        if (bytes !== undefined && index !== position) this.#noteRead(entry, index);
        position = index;
        return bytes;
      },
      giveBack: (bytes) => reader.giveBack?.(bytes),
      move: (...bytes) => reader.move?.(...bytes) ?? 0,
      close: () => reader.close(),
    };
  }

  async #readIntoMemory(entry: StoredEntry, index: number): Promise<void> {
    try {
      const reader = await entry.open();
      await this.#blocks.read(entry.generation, reader, index).finally(() => reader.close());
    } catch {
      // The next read of the block reports the error.
    }
  }

  /** Waits for an operation on an entry, and forgets the entries of its key when its bytes are gone. */
  async unlessGone<T>(key: string, operation: Promise<T>): Promise<T> {
    try {
      return await operation;
    } catch (error) {
      if (error instanceof ProxyError && error.code === 'bytes_gone') this.#forget(key);
      throw error;
    }
  }
}

/** An entry of the store below whose blocks may be in memory. Many entries are in memory, so they share methods and have no closures. */
class TieredEntry implements StoredEntry {
  readonly key: string;
  readonly generation: string;
  readonly sizeBytes: number;
  readonly isComplete: boolean;
  readonly pinnedUntil: number | undefined;
  knownByHits: object | undefined;
  readonly #below: StoredEntry;
  readonly #store: MemoryBefore;
  readonly #memory: MemoryTier;

  constructor(below: StoredEntry, store: MemoryBefore, memory: MemoryTier) {
    this.key = below.key;
    this.generation = below.generation;
    this.sizeBytes = below.sizeBytes;
    this.isComplete = below.isComplete;
    this.pinnedUntil = below.pinnedUntil;
    this.knownByHits = undefined;
    this.#below = below;
    this.#store = store;
    this.#memory = memory;
  }

  get variant(): string {
    return this.#below.variant;
  }

  get metadata(): StoredResponse {
    return this.#below.metadata;
  }

  get fieldText(): string | undefined {
    return this.#below.fieldText;
  }

  pack(): number | undefined {
    return this.#below.pack?.();
  }

  /** Asks the store below first: it thereby learns that the entry is in use. */
  peekBlock(index: number): Uint8Array | undefined {
    return this.#below.peekBlock(index) ?? this.#memory.block(this.generation, index);
  }

  readNow(offset: number, end: number): Uint8Array | undefined {
    return this.#store.readNow(this.#below, offset, end);
  }

  canMove(offset: number, end: number): boolean {
    return this.#below.canMove?.(offset, end) === true;
  }

  move(socket: number, head: Uint8Array, offset: number, end: number): number {
    return this.#below.move?.(socket, head, offset, end) ?? 0;
  }

  giveBack(bytes: Uint8Array): void {
    this.#below.giveBack?.(bytes);
  }

  open(first?: number): Promise<EntryReader> {
    return this.#store.open(this.#below, first);
  }

  readPresence(): Promise<SpanSet> {
    return this.#store.unlessGone(this.key, this.#below.readPresence());
  }
}

/** Maximum number of keys in one of the two sets: at least this many recent absent keys are known. */
const MAX_KEYS = 512;
/** Maximum length of a key that is remembered, in UTF-16 code units. */
const MAX_KEY_LENGTH = 512;
/**
 * Length of a round, in milliseconds. A key is known for two rounds at most: a store that could not read its index may find
 * entries later.
 */
const ROUND_MS = 1000;

/**
 * Keys under which the store below found no entries a moment ago: a miss looks its key up again before it is stored. Two sets
 * take turns, so that old keys go with a whole set and not one by one: see `http/collections.ts`.
 */
class AbsentKeys {
  readonly #now: () => number;
  #keys = new Set<string>();
  #earlier = new Set<string>();
  #begunAt = Number.NEGATIVE_INFINITY;

  /** `now` returns epoch milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  has(key: string): boolean {
    this.#turn();
    return this.#keys.has(key) || this.#earlier.has(key);
  }

  add(key: string): void {
    if (key.length > MAX_KEY_LENGTH) return;
    this.#turn();
    this.#keys.add(key);
  }

  /** Forgets a key under which something may be stored now. */
  delete(key: string): void {
    this.#keys.delete(key);
    this.#earlier.delete(key);
  }

  clear(): void {
    this.#keys = new Set();
    this.#earlier = new Set();
  }

  /** Begins another round when the current one is over. A clock that was set back ends it too. */
  #turn(): void {
    const now = this.#now();
    const elapsedMs = now - this.#begunAt;
    if (this.#keys.size < MAX_KEYS && elapsedMs >= 0 && elapsedMs < ROUND_MS) return;
    this.#earlier = elapsedMs < 2 * ROUND_MS && elapsedMs >= 0 ? this.#keys : new Set();
    this.#keys = new Set();
    this.#begunAt = now;
  }
}

/** Number of recent touches after which a block is read into memory although another block must leave for it. */
const touchesToEvict = 4;
/** The same where there is room for the block. One touch is not enough: a block that is wanted only once would be read twice. */
const touchesWithRoom = 2;
/** Minimum number of touches that count as recent, however few blocks are in memory. */
const minWindow = 4096;
/** A written block up to this size, in bytes, is always kept. */
const smallBytes = 32 * 1024;
/** While this many blocks are being read, no block is read into memory in the background. */
const readsAtOnce = 4;

/** Returns a number for a block. Other blocks may have the same number. */
function blockNumber(generation: string, index: number): number {
  let number = index;
  for (let at = Math.max(0, generation.length - 6); at < generation.length; at += 1) {
    number = (Math.imul(number, 31) + generation.charCodeAt(at)) | 0;
  }
  return number;
}

/** The blocks in memory, and the reads of blocks in progress. Concurrent requests for a block cause one read below. */
class TieredBlocks {
  readonly #memory: MemoryTier;
  readonly #reading = new Map<string, Promise<Uint8Array>>();
  readonly #touches = new RecentTouches();

  constructor(memory: MemoryTier) {
    this.#memory = memory;
  }

  /** Asks the store below first: it thereby learns that the entry is in use. */
  peek(generation: string, below: Pick<BlockSource, 'peekBlock'>, index: number): Uint8Array | undefined {
    return below.peekBlock(index) ?? this.#memory.block(generation, index);
  }

  /**
   * As `peek`, for an opened entry. A block that the opened entry has at hand, such as an inline body, is kept, so that the entry
   * need not be opened for it again.
   */
  peekOpened(generation: string, opened: Pick<BlockSource, 'peekBlock'>, index: number): Uint8Array | undefined {
    const cached = this.#memory.block(generation, index);
    if (cached !== undefined) return cached;
    const bytes = opened.peekBlock(index);
    if (bytes !== undefined) this.#memory.keepBlock(generation, index, bytes);
    return bytes;
  }

  /**
   * Checks whether a block, of which a piece was just read below, is wanted so often that it should be in memory. Where another
   * block must leave for it, that takes `touchesToEvict` within as many touches as there are blocks in memory, which hardly ever
   * happen by chance; otherwise `touchesWithRoom`.
   */
  isWanted(generation: string, index: number, blockSizeBytes: number): boolean {
    const hasRoom = this.#memory.hasRoomFor(blockSizeBytes);
    const windowSize = hasRoom ? Math.max(minWindow, this.#memory.blockCount) : this.#memory.blockCount;
    const touches = this.#touches.touch(blockNumber(generation, index), windowSize);
    return touches >= (hasRoom ? touchesWithRoom : touchesToEvict) && this.#reading.size < readsAtOnce;
  }

  /**
   * Keeps a block that was just written, for clients that read along. A block that the writer itself can peek, such as the body
   * of one block, is kept only if it is small: most such blocks are never read again, and fresh memory for all of them costs more
   * than reading the few that are.
   */
  keepWritten(generation: string, writer: Pick<BlockSource, 'peekBlock'>, index: number, bytes: Uint8Array): void {
    if (bytes.length <= smallBytes || writer.peekBlock(index) === undefined) {
      this.#memory.keepBlock(generation, index, bytes);
    }
  }

  /** As `keepWritten`, for a body of one block that is written at once. */
  keepSmall(generation: string, index: number, bytes: Uint8Array): void {
    if (bytes.length <= smallBytes) this.#memory.keepBlock(generation, index, bytes);
  }

  /** Reads a block and keeps it in memory. */
  read(generation: string, below: BlockSource, index: number): Promise<Uint8Array> {
    return this.#read(generation, below, index, true);
  }

  /** As `read`, for a reader that may read each block once: the first recent read of a block pushes nothing out of memory. */
  readInPassing(generation: string, below: BlockSource, index: number): Promise<Uint8Array> {
    const touches = this.#touches.touch(blockNumber(generation, index), this.#memory.blockCount);
    return this.#read(generation, below, index, touches > 1);
  }

  async #read(generation: string, below: BlockSource, index: number, isWanted: boolean): Promise<Uint8Array> {
    const cached = this.peek(generation, below, index);
    if (cached !== undefined) return cached;
    const place = `${generation}/${index}`;
    return this.#reading.get(place) ?? this.#readBelow(place, generation, below, index, isWanted);
  }

  async #readBelow(
    place: string,
    generation: string,
    below: BlockSource,
    index: number,
    isWanted: boolean,
  ): Promise<Uint8Array> {
    const reading = below.readBlock(index);
    this.#reading.set(place, reading);
    try {
      const bytes = await reading;
      if (isWanted || this.#memory.hasRoomFor(bytes.length)) this.#memory.keepBlock(generation, index, bytes);
      return bytes;
    } finally {
      this.#reading.delete(place);
    }
  }
}
