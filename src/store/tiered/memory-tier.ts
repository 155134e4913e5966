/**
 * The memory of a tiered store: entries by key, and blocks of bodies. Both share one bound. Items that were not used lately are
 * evicted first (SIEVE, see disk/space/eviction.ts). `RecentTouches` counts how often a block was wanted lately.
 */

import { isPrefixOf } from '../entry-rules.ts';
import { blockWeight, entryWeight, TagIndex, withOwnBuffer } from '../memory/memory-shelf.ts';
import type { StoredEntry } from '../store.ts';
import { type Slab, type SmallBlock, SmallBlocks, smallBlockBytes } from './small-blocks.ts';

/** One item in memory. All items form one list, in the order of insertion. */
class Item {
  /** Memory that the item takes, in bytes. */
  readonly weight: number;
  /** Whether the item was used since the hand last passed it. */
  isUsed = false;
  newer: Item | undefined;
  older: Item | undefined;

  constructor(weight: number) {
    this.weight = weight;
  }
}

/** The entries of a key. */
class EntriesItem extends Item {
  readonly key: string;
  readonly entries: readonly StoredEntry[];
  /** Whether one of the entries has a tag. The metadata of others need not be read again when the item is removed. */
  readonly hasTags: boolean;

  constructor(weight: number, key: string, entries: readonly StoredEntry[]) {
    super(weight);
    this.key = key;
    this.entries = entries;
    this.hasTags = entries.some(({ metadata }) => metadata.tags !== undefined);
  }
}

/** One block of a generation. A small one is in a slab, a larger one in `bytes`. */
class BlockItem extends Item implements SmallBlock {
  readonly generation: string;
  readonly index: number;
  readonly sizeBytes: number;
  readonly bytes: Uint8Array | undefined;
  slab: Slab | undefined;
  offset = 0;

  constructor(weight: number, generation: string, index: number, bytes: Uint8Array) {
    super(weight);
    this.generation = generation;
    this.index = index;
    this.sizeBytes = bytes.length;
    this.bytes = bytes.length > smallBlockBytes ? withOwnBuffer(bytes) : undefined;
  }
}

/** The blocks of a generation by index. Most bodies have one block, for which there is no Map. */
type Body = BlockItem | Map<number, BlockItem>;

/**
 * Memory in front of a slower store, bounded in bytes. It decides nothing: see `createTieredStore`. A use only sets a bit and
 * moves nothing, because each hit is a use. Items that are used once, such as the blocks of a download, are evicted before items
 * that are used again.
 */
export class MemoryTier {
  /** Maximum weight of all items, in bytes. */
  readonly maxSizeBytes: number;
  readonly #entries = new Map<string, EntriesItem>();
  readonly #bodies = new Map<string, Body>();
  readonly #smallBlocks = new SmallBlocks();
  readonly #byTag = new TagIndex<StoredEntry>();
  #newest: Item | undefined;
  #oldest: Item | undefined;
  /** The next item to examine when room is needed; undefined for the oldest. */
  #hand: Item | undefined;
  #sizeBytes = 0;
  #blockCount = 0;

  /** `maxSizeBytes` bounds the weight of all items. */
  constructor({ maxSizeBytes }: { readonly maxSizeBytes: number }) {
    this.maxSizeBytes = maxSizeBytes;
  }

  /** Weight of all items, in bytes. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** Number of blocks in memory. */
  get blockCount(): number {
    return this.#blockCount;
  }

  /** Returns the entries of a key as they were kept, or undefined when the key is not in memory. Counts as their use. */
  entriesOf(key: string): readonly StoredEntry[] | undefined {
    const item = this.#entries.get(key);
    if (item === undefined) return undefined;
    item.isUsed = true;
    return item.entries;
  }

  /** Keeps the entries of a key, in place of earlier ones. Entries that are larger than the whole bound are not kept. */
  keepEntries(key: string, entries: readonly StoredEntry[]): void {
    this.forgetEntries(key);
    const weight = entries.reduce((sum, entry) => sum + keptEntryWeight(entry), 0);
    if (!this.#makeRoomFor(weight)) return;
    // The entry's own text of the key, so that there is one text and not two.
    const item = new EntriesItem(weight, entries[0]?.key ?? key, entries);
    if (item.hasTags) for (const entry of entries) this.#byTag.add(entry, entry.metadata.tags);
    this.#add(item);
    this.#entries.set(item.key, item);
  }

  /** Forgets the entries of a key. Blocks stay, because a generation's bytes never change. */
  forgetEntries(key: string): void {
    const item = this.#entries.get(key);
    if (item !== undefined) this.#remove(item);
  }

  /** Returns the entries in memory that have a tag, of any key. */
  taggedEntries(tag: string): readonly StoredEntry[] {
    return this.#byTag.tagged(tag);
  }

  /** Returns the entries in memory whose keys begin with a prefix. */
  prefixedEntries(prefix: string): readonly StoredEntry[] {
    return [...this.#entries].flatMap(([key, { entries }]) => (isPrefixOf(prefix, key) ? entries : []));
  }

  /** Returns a block of a generation, or undefined. Counts as its use. */
  block(generation: string, index: number): Uint8Array | undefined {
    const body = this.#bodies.get(generation);
    const item = body instanceof BlockItem ? body : body?.get(index);
    if (item === undefined || item.index !== index) return undefined;
    item.isUsed = true;
    return item.bytes ?? this.#smallBlocks.bytesOf(item);
  }

  /** Checks whether a block of a generation is in memory. Does not count as its use. */
  hasBlock(generation: string, index: number): boolean {
    return this.#itemOf(generation, index) !== undefined;
  }

  /** Keeps a block, in place of an earlier one. A block that is larger than the whole bound is not kept. */
  keepBlock(generation: string, index: number, bytes: Uint8Array): void {
    const earlier = this.#itemOf(generation, index);
    if (earlier !== undefined) this.#remove(earlier);
    const weight = keptBlockWeight(bytes.length);
    if (!this.#makeRoomFor(weight)) return;
    const item = new BlockItem(weight, generation, index, bytes);
    if (item.bytes === undefined) this.#smallBlocks.keep(item, bytes);
    this.#add(item);
    const body = this.#bodies.get(generation);
    if (body instanceof Map) body.set(index, item);
    else if (body === undefined) this.#bodies.set(generation, item);
    else this.#bodies.set(generation, new Map([body, item].map((each) => [each.index, each])));
    this.#blockCount += 1;
  }

  /** Checks whether a block of this size in bytes fits without an eviction. */
  hasRoomFor(sizeBytes: number): boolean {
    return this.#sizeBytes + keptBlockWeight(sizeBytes) <= this.maxSizeBytes;
  }

  /** Forgets everything. */
  clear(): void {
    for (const item of this.#entries.values()) this.#remove(item);
    this.#bodies.clear();
    this.#smallBlocks.clear();
    this.#newest = undefined;
    this.#oldest = undefined;
    this.#hand = undefined;
    this.#sizeBytes = 0;
    this.#blockCount = 0;
  }

  #itemOf(generation: string, index: number): BlockItem | undefined {
    const body = this.#bodies.get(generation);
    const item = body instanceof BlockItem ? body : body?.get(index);
    return item?.index === index ? item : undefined;
  }

  #add(item: Item): void {
    const older = this.#newest;
    item.older = older;
    if (older !== undefined) older.newer = item;
    this.#newest = item;
    this.#oldest ??= item;
    this.#sizeBytes += item.weight;
  }

  /**
   * Evicts items that were not used since the hand last passed them, until there is room. Returns false when the weight exceeds
   * the bound.
   */
  #makeRoomFor(weight: number): boolean {
    if (weight > this.maxSizeBytes) return false;
    while (this.#sizeBytes + weight > this.maxSizeBytes) {
      let item = this.#hand ?? this.#oldest;
      while (item?.isUsed === true) {
        item.isUsed = false;
        item = item.newer ?? this.#oldest;
      }
      this.#hand = item;
      if (item !== undefined) this.#remove(item);
    }
    return true;
  }

  #remove(item: Item): void {
    const { newer, older } = item;
    if (this.#hand === item) this.#hand = newer;
    if (newer === undefined) this.#newest = older;
    else newer.older = older;
    if (older === undefined) this.#oldest = newer;
    else older.newer = newer;
    // A removed item must not refer to its neighbours: the garbage collector may treat it as alive for a while, and them with it.
    item.newer = undefined;
    item.older = undefined;
    this.#sizeBytes -= item.weight;
    if (item instanceof BlockItem) this.#removeBlock(item);
    if (item instanceof EntriesItem) {
      this.#entries.delete(item.key);
      if (item.hasTags) for (const entry of item.entries) this.#byTag.delete(entry, entry.metadata.tags);
    }
  }

  #removeBlock(item: BlockItem): void {
    const { generation, index } = item;
    const body = this.#bodies.get(generation);
    if (body === item) this.#bodies.delete(generation);
    else if (body instanceof Map && body.get(index) === item) {
      body.delete(index);
      if (body.size === 0) this.#bodies.delete(generation);
    }
    this.#smallBlocks.remove(item);
    this.#blockCount -= 1;
  }
}

/** Creates an empty tier. `maxSizeBytes` bounds everything that it keeps, in bytes. */
export function createMemoryTier(options: { readonly maxSizeBytes: number }): MemoryTier {
  return new MemoryTier(options);
}

/** Number of counters, a power of two. Touches of different blocks that share a counter are counted together. */
const counterCount = 2 ** 14;
const maxCount = 255;

/** Counts touches. Older touches count less: after `windowSize` touches all counts are halved. */
export class RecentTouches {
  readonly #counts = new Uint8Array(counterCount);
  #inWindow = 0;

  /** Counts a touch of the block with this number; returns how many touches it has had lately. */
  touch(number: number, windowSize: number): number {
    this.#inWindow += 1;
    if (this.#inWindow > windowSize) this.#age();
    // The multiplication spreads neighbours over the table (Knuth's multiplicative hashing).
    const at = (Math.imul(number, 0x9e3779b1) >>> 0) & (counterCount - 1);
    const count = Math.min((this.#counts[at] ?? 0) + 1, maxCount);
    this.#counts[at] = count;
    return count;
  }

  #age(): void {
    this.#inWindow = 0;
    for (let at = 0; at < counterCount; at += 1) this.#counts[at] = (this.#counts[at] ?? 0) >> 1;
  }
}

/** The objects around a packed entry, in bytes: the entry, its place here, and what its hits have found out about it. */
const packedOverheadBytes = 700;
/** The objects around a block in a slab, in bytes. */
const smallOverheadBytes = 216;

/** Packs an entry if it can be packed, and returns what it then takes in memory without its blocks, in bytes. */
export function keptEntryWeight(entry: StoredEntry): number {
  const { key, variant } = entry;
  const packedLength = entry.pack?.();
  return packedLength === undefined
    ? entryWeight(key, variant, entry.metadata)
    : packedOverheadBytes + key.length + variant.length + packedLength;
}

/** Returns what a block takes in memory, in bytes. */
export function keptBlockWeight(sizeBytes: number): number {
  // On average an eighth of a slab belongs to removed blocks.
  return sizeBytes > smallBlockBytes ? blockWeight(sizeBytes) : smallOverheadBytes + Math.ceil(sizeBytes * (9 / 8));
}
