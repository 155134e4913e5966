/**
 * A store with memory in front of it. Entries that were found once and blocks that were read once are answered in the same
 * tick. `TieredBlocks` decides which blocks are worth their room in memory. Read memory-tier.ts next.
 */

import type { SpanSet } from '../../bytes/span.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import { findable } from '../entry-rules.ts';
import type {
  BlockSource,
  EntryChoice,
  EntryPage,
  EntryReader,
  EntryWriter,
  NewEntry,
  Store,
  StoreChange,
  StoredEntry,
  StoreUsage,
  WholeWriter,
} from '../store.ts';
import { type MemoryTier, RecentTouches } from './memory-tier.ts';

const nothing: readonly StoredEntry[] = [];

/** A store with memory in front of it. */
export interface TieredStore extends Store {
  /** Forgets what memory has of what the store below has changed by itself. */
  forget(change: StoreChange): void;
}

/**
 * Puts memory in front of a store. All changes must go through the tiered store, which owns the one below from now on.
 * An entry that the store below evicts by itself may be told until it is opened; those bytes of it that are in memory
 * are right still. `now` tells epoch milliseconds.
 */
export function createTieredStore(memory: MemoryTier, store: Store, now: () => number): TieredStore {
  return new MemoryBefore(memory, store, now);
}

class MemoryBefore implements TieredStore {
  readonly blockSizeBytes: number;
  readonly maxEntryBytes: number;
  readonly #memory: MemoryTier;
  readonly #store: Store;
  readonly #now: () => number;
  readonly #blocks: TieredBlocks;
  readonly #absent: AbsentKeys;
  /** The look-ups under way. One that a change overtook is no longer in here, and what it finds is not kept. */
  readonly #finding = new Map<string, Promise<readonly StoredEntry[]>>();

  constructor(memory: MemoryTier, store: Store, now: () => number) {
    this.blockSizeBytes = store.blockSizeBytes;
    this.maxEntryBytes = store.maxEntryBytes;
    this.#memory = memory;
    this.#store = store;
    this.#now = now;
    this.#blocks = new TieredBlocks(memory);
    this.#absent = new AbsentKeys(now);
  }

  peek(key: string): readonly StoredEntry[] | undefined {
    const kept = this.#memory.entriesOf(key);
    if (kept === undefined) return this.#store.peek(key)?.map((entry) => this.#wrap(entry));
    return kept.length === 1 && kept[0]?.pinnedUntil === undefined ? kept : findable(kept, this.#now);
  }

  async find(key: string): Promise<readonly StoredEntry[]> {
    const kept = this.#inMemory(key) ?? (this.#absent.has(key) ? nothing : undefined);
    return kept ?? this.#finding.get(key) ?? this.#findBelow(key);
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
        return this.#wrap(await this.#changing(entry.key, writer.commit(final)));
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

  removeEntry(entry: StoredEntry): Promise<void> {
    return this.#changing(entry.key, this.#store.removeEntry(entry));
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

  readUsage(): StoreUsage {
    return { ...this.#store.readUsage(), memoryBytes: this.#memory.sizeBytes };
  }

  heed(change: StoreChange): void {
    this.forget(change);
    this.#store.heed(change);
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

  /** Waits for a removal by choice, done or failed, and forgets what memory has of the choice. */
  async #removing(
    removal: Promise<readonly string[]>,
    entriesInMemory: () => readonly StoredEntry[],
  ): Promise<readonly string[]> {
    const keys = new Set<string>();
    try {
      for (const key of await removal) keys.add(key);
    } finally {
      // What the store below has evicted by itself may be told from here still, or be on its way here.
      const kept = entriesInMemory();
      for (const { key } of findable(kept, this.#now)) keys.add(key);
      for (const key of keys) this.#memory.forgetEntries(key);
      this.#forgetEntries(kept);
    }
    return [...keys];
  }

  #inMemory(key: string): readonly StoredEntry[] | undefined {
    const kept = this.#memory.entriesOf(key);
    return kept && findable(kept, this.#now);
  }

  async #findBelow(key: string): Promise<readonly StoredEntry[]> {
    const finding = this.#store.find(key).then((entries) => entries.map((entry) => this.#wrap(entry)));
    this.#finding.set(key, finding);
    try {
      const entries = await finding;
      // A key without entries is not kept: names that exist nowhere must not push out those that do.
      if (this.#finding.get(key) !== finding) return entries;
      if (entries.length > 0) this.#memory.keepEntries(key, entries);
      else this.#absent.add(key);
      return entries;
    } finally {
      if (this.#finding.get(key) === finding) this.#finding.delete(key);
    }
  }

  /** Waits for a change of a key, done or failed, and forgets what was found before it or while it went on. */
  async #changing<T>(key: string, change: Promise<T>): Promise<T> {
    try {
      return await change;
    } finally {
      this.#forget(key);
    }
  }

  #forget(key: string): void {
    this.#memory.forgetEntries(key);
    this.#absent.delete(key);
    this.#finding.delete(key);
  }

  /** Forgets entries in memory, and those that may be on their way here. */
  #forgetEntries(kept: readonly StoredEntry[]): void {
    for (const { key } of kept) this.#memory.forgetEntries(key);
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
        // Of a block that is there already these bytes are not kept, so they must not be told either.
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
      commit: async (final) => this.#wrap(await this.#changing(key, writer.commit(final))),
      [Symbol.asyncDispose]: () => writer[Symbol.asyncDispose](),
    };
  }

  #wrap(entry: StoredEntry): StoredEntry {
    return new TieredEntry(entry, this, this.#memory);
  }

  /** A block that is read as a whole is kept; what is read again and again in pieces is brought into memory beside that. */
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

  /** Notes that a block was read though it is not in memory, and brings it there where that happens often. */
  #noteRead(entry: StoredEntry, index: number): void {
    if (this.#blocks.isWanted(entry.generation, index, this.blockSizeBytes)) void this.#bring(entry, index);
  }

  async open(entry: StoredEntry): Promise<EntryReader> {
    const { key, generation } = entry;
    const reader = await this.unlessGone(key, entry.open());
    let position: number | undefined;
    return {
      peekBlock: (index) => this.#blocks.peekOpened(generation, reader, index),
      readBlock: async (index) =>
        this.#blocks.peekOpened(generation, reader, index) ??
        (await this.unlessGone(key, this.#blocks.readInPassing(generation, reader, index))),
      readNow: (offset, end) => {
        const bytes = reader.readNow?.(offset, end);
        const index = Math.floor(offset / this.blockSizeBytes);
        // A reader that comes by touches each block once, however small the steps are that it goes in.
        if (bytes !== undefined && index !== position) this.#noteRead(entry, index);
        position = index;
        return bytes;
      },
      giveBack: (bytes) => reader.giveBack?.(bytes),
      move: (...bytes) => reader.move?.(...bytes) ?? 0,
      close: () => reader.close(),
    };
  }

  async #bring(entry: StoredEntry, index: number): Promise<void> {
    try {
      const reader = await entry.open();
      await this.#blocks.read(entry.generation, reader, index).finally(() => reader.close());
    } catch {
      // Whoever wants the block next learns what is wrong with it.
    }
  }

  /** Waits for what is asked of an entry, and forgets the entries of its key when its bytes are gone. */
  async unlessGone<T>(key: string, asked: Promise<T>): Promise<T> {
    try {
      return await asked;
    } catch (error) {
      if (error instanceof ProxyError && error.code === 'bytes_gone') this.#forget(key);
      throw error;
    }
  }
}

/** An entry of the store below whose blocks may be in memory. Many are in memory, so that it has no function of its own. */
class TieredEntry implements StoredEntry {
  readonly key: string;
  readonly variant: string;
  readonly generation: string;
  readonly metadata: StoredResponse;
  readonly sizeBytes: number;
  readonly isComplete: boolean;
  readonly pinnedUntil: number | undefined;
  readonly #below: StoredEntry;
  readonly #store: MemoryBefore;
  readonly #memory: MemoryTier;

  constructor(below: StoredEntry, store: MemoryBefore, memory: MemoryTier) {
    this.key = below.key;
    this.variant = below.variant;
    this.generation = below.generation;
    this.metadata = below.metadata;
    this.sizeBytes = below.sizeBytes;
    this.isComplete = below.isComplete;
    this.pinnedUntil = below.pinnedUntil;
    this.#below = below;
    this.#store = store;
    this.#memory = memory;
  }

  /** The store below is asked first, for this is how it learns that the entry is in use. */
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

  open(): Promise<EntryReader> {
    return this.#store.open(this.#below);
  }

  readPresence(): Promise<SpanSet> {
    return this.#store.unlessGone(this.key, this.#below.readPresence());
  }
}

/** So many absent keys are known at least, where so many were looked up lately. */
const MAX_KEYS = 512;
/** A longer key is looked up again. */
const MAX_KEY_LENGTH = 512;
/** For how long they are known at most is twice this, in milliseconds: a store that could not read its index knows better later. */
const ROUND_MS = 1000;

/**
 * Keys under which the store below was found to have nothing a moment ago: a miss looks its key up again before it is stored. Two
 * sets in turn, so that no key is removed by itself: see `http/collections.ts`.
 */
class AbsentKeys {
  readonly #now: () => number;
  #keys = new Set<string>();
  #earlier = new Set<string>();
  #begunAt = Number.NEGATIVE_INFINITY;

  /** `now` tells epoch milliseconds. */
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

  /** Something may be stored under the key. */
  delete(key: string): void {
    this.#keys.delete(key);
    this.#earlier.delete(key);
  }

  clear(): void {
    this.#keys = new Set();
    this.#earlier = new Set();
  }

  /** Begins another round when one is over. A clock that was set back ends it too. */
  #turn(): void {
    const now = this.#now();
    const elapsedMs = now - this.#begunAt;
    if (this.#keys.size < MAX_KEYS && elapsedMs >= 0 && elapsedMs < ROUND_MS) return;
    this.#earlier = elapsedMs < 2 * ROUND_MS && elapsedMs >= 0 ? this.#keys : new Set();
    this.#keys = new Set();
    this.#begunAt = now;
  }
}

/** A block of which pieces were read so often lately is brought into memory, though another one has to leave for it. */
const wantedTouches = 4;
/** So often where there is room for it: what is read once had better not be read a second time for nothing. */
const wantedTouchesWithRoom = 2;
/** Touches count as recent at least for so many others, however few blocks are in memory. */
const minWindow = 4096;
/** What is no larger is kept whenever it is written, in bytes. */
const smallBytes = 32 * 1024;
/** While so many blocks are being read, none is brought besides. */
const broughtAtOnce = 4;

/** A number for a block, which others may have too. */
function placeNumber(generation: string, index: number): number {
  let number = index;
  for (let at = Math.max(0, generation.length - 6); at < generation.length; at += 1) {
    number = (Math.imul(number, 31) + generation.charCodeAt(at)) | 0;
  }
  return number;
}

/** Blocks in memory, and those that are being read into it: many who want one at once cause one read below. */
class TieredBlocks {
  readonly #memory: MemoryTier;
  readonly #reading = new Map<string, Promise<Uint8Array>>();
  readonly #touches = new RecentTouches();

  constructor(memory: MemoryTier) {
    this.#memory = memory;
  }

  /** The store below is asked first, for this is how it learns that the entry is in use. */
  peek(generation: string, below: Pick<BlockSource, 'peekBlock'>, index: number): Uint8Array | undefined {
    return below.peekBlock(index) ?? this.#memory.block(generation, index);
  }

  /**
   * As `peek`, of an entry that was opened: what it has at hand by then, as a body in its row, is kept, so that it need not be
   * opened for it again.
   */
  peekOpened(generation: string, opened: Pick<BlockSource, 'peekBlock'>, index: number): Uint8Array | undefined {
    const kept = this.#memory.block(generation, index);
    if (kept !== undefined) return kept;
    const bytes = opened.peekBlock(index);
    if (bytes !== undefined) this.#memory.keepBlock(generation, index, bytes);
    return bytes;
  }

  /**
   * Whether a block of which a piece was just read below is wanted so often that it had better be in memory: as often,
   * while as many others were touched as there are in memory, as chance alone hardly ever makes it; or twice, as long as no
   * other block has to leave for it.
   */
  isWanted(generation: string, index: number, blockSizeBytes: number): boolean {
    const hasRoom = this.#memory.hasRoomFor(blockSizeBytes);
    const windowSize = hasRoom ? Math.max(minWindow, this.#memory.blockCount) : this.#memory.blockCount;
    const touches = this.#touches.touch(placeNumber(generation, index), windowSize);
    return touches >= (hasRoom ? wantedTouchesWithRoom : wantedTouches) && this.#reading.size < broughtAtOnce;
  }

  /**
   * Keeps a block that was just written, for those who read along. Not what the writer has at hand for them anyway, as a body of
   * one block, unless it is small: most of these are never asked for again, and fresh memory for each costs more than to read
   * those that are.
   */
  keepWritten(generation: string, writer: Pick<BlockSource, 'peekBlock'>, index: number, bytes: Uint8Array): void {
    if (bytes.length <= smallBytes || writer.peekBlock(index) === undefined) {
      this.#memory.keepBlock(generation, index, bytes);
    }
  }

  /** As `keepWritten`, of a body of one block that is written at once. */
  keepSmall(generation: string, index: number, bytes: Uint8Array): void {
    if (bytes.length <= smallBytes) this.#memory.keepBlock(generation, index, bytes);
  }

  /** A block, which is in memory from then on. */
  read(generation: string, below: BlockSource, index: number): Promise<Uint8Array> {
    return this.#read(generation, below, index, true);
  }

  /** As `read`, for a reader that comes by: what is read for the first time lately pushes nothing out of memory. */
  readInPassing(generation: string, below: BlockSource, index: number): Promise<Uint8Array> {
    const touches = this.#touches.touch(placeNumber(generation, index), this.#memory.blockCount);
    return this.#read(generation, below, index, touches > 1);
  }

  async #read(generation: string, below: BlockSource, index: number, isWanted: boolean): Promise<Uint8Array> {
    const kept = this.peek(generation, below, index);
    if (kept !== undefined) return kept;
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
