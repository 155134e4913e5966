/**
 * The memory of a tiered store: entries by key, and blocks of bodies. Both share one bound. Items that were not used lately are
 * evicted first (SIEVE, see disk/space/eviction.ts). `RecentTouches` counts how often a block was wanted lately.
 */

import { isPrefixOf } from '../entry-rules.ts';
import { blockWeight, entryWeight, TagIndex, withOwnBuffer } from '../memory/memory-shelf.ts';
import type { StoredEntry } from '../store.ts';

/** One item in memory: the entries of a key, or one block. All items form one list, in the order of insertion. */
interface Item {
  /** Memory that the item takes, in bytes. */
  readonly weight: number;
  /** Whether the item was used since the hand last passed it. */
  isUsed: boolean;
  newer: Item | undefined;
  older: Item | undefined;
  readonly entries: readonly StoredEntry[] | undefined;
  /** The key of the entries; empty for a block. */
  readonly key: string;
  /** The body of the block; undefined for entries. */
  readonly body: ItemBody | undefined;
  readonly index: number;
  readonly bytes: Uint8Array | undefined;
}

interface ItemBody {
  readonly generation: string;
  /** Most bodies have one block. A Map for each body would cost more than the rest of it. */
  first: Item | undefined;
  more: Map<number, Item> | undefined;
}

/**
 * Memory in front of a slower store, bounded in bytes. It decides nothing: see `createTieredStore`. A use only sets a bit and
 * moves nothing, because each hit is a use. Items that are used once, such as the blocks of a download, are evicted before items
 * that are used again.
 */
export class MemoryTier {
  /** Maximum weight of all items, in bytes. */
  readonly maxSizeBytes: number;
  readonly #entries = new Map<string, Item>();
  readonly #bodies = new Map<string, ItemBody>();
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
    const weight = entries.reduce((sum, entry) => sum + entryWeight(key, entry.variant, entry.metadata), 0);
    if (!this.#makeRoomFor(weight)) return;
    for (const entry of entries) this.#byTag.add(entry, entry.metadata.tags);
    this.#entries.set(key, this.#add({ key, entries, weight, body: undefined, index: 0, bytes: undefined }));
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
    return [...this.#entries].flatMap(([key, { entries = [] }]) => (isPrefixOf(prefix, key) ? entries : []));
  }

  /** Returns a block of a generation, or undefined. Counts as its use. */
  block(generation: string, index: number): Uint8Array | undefined {
    const body = this.#bodies.get(generation);
    const item = body?.first?.index === index ? body.first : body?.more?.get(index);
    if (item === undefined) return undefined;
    item.isUsed = true;
    return item.bytes;
  }

  /** Checks whether a block of a generation is in memory. Does not count as its use. */
  hasBlock(generation: string, index: number): boolean {
    const body = this.#bodies.get(generation);
    return body?.first?.index === index || body?.more?.has(index) === true;
  }

  /** Keeps a block, in place of an earlier one. A block that is larger than the whole bound is not kept. */
  keepBlock(generation: string, index: number, bytes: Uint8Array): void {
    const before = this.#bodies.get(generation);
    const earlier = before?.first?.index === index ? before.first : before?.more?.get(index);
    if (earlier !== undefined) this.#remove(earlier);
    const weight = blockWeight(bytes.length);
    if (!this.#makeRoomFor(weight)) return;
    let body = this.#bodies.get(generation);
    if (body === undefined) {
      body = { generation, first: undefined, more: undefined };
      this.#bodies.set(generation, body);
    }
    const own = withOwnBuffer(bytes);
    const added = this.#add({ key: '', entries: undefined, weight, body, index, bytes: own });
    if (body.first === undefined) body.first = added;
    else {
      body.more ??= new Map();
      body.more.set(index, added);
    }
    this.#blockCount += 1;
  }

  /** Checks whether a block of this size in bytes fits without an eviction. */
  hasRoomFor(sizeBytes: number): boolean {
    return this.#sizeBytes + blockWeight(sizeBytes) <= this.maxSizeBytes;
  }

  /** Forgets everything. */
  clear(): void {
    for (const item of this.#entries.values()) this.#remove(item);
    this.#bodies.clear();
    this.#newest = undefined;
    this.#oldest = undefined;
    this.#hand = undefined;
    this.#sizeBytes = 0;
    this.#blockCount = 0;
  }

  #add(thing: Pick<Item, 'key' | 'entries' | 'weight' | 'body' | 'index' | 'bytes'>): Item {
    const { key, entries, weight, body, index, bytes } = thing;
    const older = this.#newest;
    const item: Item = { weight, isUsed: false, newer: undefined, older, entries, key, body, index, bytes };
    if (older !== undefined) older.newer = item;
    this.#newest = item;
    this.#oldest ??= item;
    this.#sizeBytes += weight;
    return item;
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
    const { body, index, newer, older } = item;
    if (this.#hand === item) this.#hand = newer;
    if (newer === undefined) this.#newest = older;
    else newer.older = older;
    if (older === undefined) this.#oldest = newer;
    else older.newer = newer;
    // A removed item must not refer to its neighbours: the garbage collector may treat it as alive for a while, and them with it.
    item.newer = undefined;
    item.older = undefined;
    this.#sizeBytes -= item.weight;
    if (body === undefined) {
      this.#entries.delete(item.key);
      for (const entry of item.entries ?? []) this.#byTag.delete(entry, entry.metadata.tags);
      return;
    }
    if (body.first === item) body.first = undefined;
    else body.more?.delete(index);
    // The map may have a newer body of the same generation by now.
    const isEmpty = body.first === undefined && (body.more === undefined || body.more.size === 0);
    if (isEmpty && this.#bodies.get(body.generation) === body) this.#bodies.delete(body.generation);
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
