/**
 * The memory of a tiered store: the entries of keys, and blocks of bodies. Both share one bound, and what was not used lately
 * leaves first (SIEVE, see space/eviction.ts of the disk store). `RecentTouches` counts how often a block was wanted lately.
 */

import { isPrefixOf } from '../entry-rules.ts';
import { blockWeight, entryWeight, TagIndex, withOwnBuffer } from '../memory/memory-shelf.ts';
import type { StoredEntry } from '../store.ts';

/** One thing in memory: the entries of a key, or a block. They stand in one list, in the order in which they came. */
interface Kept {
  /** What it takes, in bytes. */
  readonly weight: number;
  /** Whether it was used since the hand last passed it. */
  isUsed: boolean;
  newer: Kept | undefined;
  older: Kept | undefined;
  readonly entries: readonly StoredEntry[] | undefined;
  /** Of entries. */
  readonly key: string;
  /** Of a block. */
  readonly body: KeptBody | undefined;
  readonly index: number;
  readonly bytes: Uint8Array | undefined;
}

interface KeptBody {
  readonly generation: string;
  /** Most bodies have one block: a table for each would cost more than all else of it. */
  first: Kept | undefined;
  more: Map<number, Kept> | undefined;
}

/**
 * Memory in front of a slower store, bounded in bytes. It decides nothing: see `createTieredStore`. A use sets a bit and moves
 * nothing, for each hit is one; and what is read once, as the blocks of a download are, leaves before what is used again.
 */
export class MemoryTier {
  readonly #maxSizeBytes: number;
  readonly #entries = new Map<string, Kept>();
  readonly #bodies = new Map<string, KeptBody>();
  readonly #byTag = new TagIndex<StoredEntry>();
  #newest: Kept | undefined;
  #oldest: Kept | undefined;
  /** The next to be looked at when room is needed; the oldest where there is none. */
  #hand: Kept | undefined;
  #sizeBytes = 0;
  #blockCount = 0;

  /** `maxSizeBytes` bounds all that is kept. */
  constructor({ maxSizeBytes }: { readonly maxSizeBytes: number }) {
    this.#maxSizeBytes = maxSizeBytes;
  }

  /** What is kept, in bytes. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** How many blocks are kept. */
  get blockCount(): number {
    return this.#blockCount;
  }

  /** The entries of a key as they were kept, or undefined when nothing is known of it; counts as their use. */
  entriesOf(key: string): readonly StoredEntry[] | undefined {
    const kept = this.#entries.get(key);
    if (kept === undefined) return undefined;
    kept.isUsed = true;
    return kept.entries;
  }

  /** Keeps the entries of a key, in place of earlier ones. What is larger than all the room is not kept. */
  keepEntries(key: string, entries: readonly StoredEntry[]): void {
    this.forgetEntries(key);
    const weight = entries.reduce((sum, entry) => sum + entryWeight(key, entry.variant, entry.metadata), 0);
    if (!this.#makeRoomFor(weight)) return;
    for (const entry of entries) this.#byTag.add(entry, entry.metadata.tags);
    this.#entries.set(key, this.#add({ key, entries, weight, body: undefined, index: 0, bytes: undefined }));
  }

  /** Forgets the entries of a key; blocks stay, for a generation's bytes never change. */
  forgetEntries(key: string): void {
    const kept = this.#entries.get(key);
    if (kept !== undefined) this.#remove(kept);
  }

  /** The entries, of whatever key, that were kept and have a tag. */
  taggedEntries(tag: string): readonly StoredEntry[] {
    return this.#byTag.tagged(tag);
  }

  /** The entries that were kept of keys that begin with a text. */
  prefixedEntries(prefix: string): readonly StoredEntry[] {
    return [...this.#entries].flatMap(([key, { entries = [] }]) => (isPrefixOf(prefix, key) ? entries : []));
  }

  /** A block of a generation, or undefined; counts as its use. */
  block(generation: string, index: number): Uint8Array | undefined {
    const body = this.#bodies.get(generation);
    const kept = body?.first?.index === index ? body.first : body?.more?.get(index);
    if (kept === undefined) return undefined;
    kept.isUsed = true;
    return kept.bytes;
  }

  /** Keeps a block, in place of an earlier one. One that is larger than all the room is not kept. */
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

  /** Whether a block of so many bytes can be kept without anything else having to leave. */
  hasRoomFor(sizeBytes: number): boolean {
    return this.#sizeBytes + blockWeight(sizeBytes) <= this.#maxSizeBytes;
  }

  /** Forgets everything. */
  clear(): void {
    for (const kept of this.#entries.values()) this.#remove(kept);
    this.#bodies.clear();
    this.#newest = undefined;
    this.#oldest = undefined;
    this.#hand = undefined;
    this.#sizeBytes = 0;
    this.#blockCount = 0;
  }

  #add(thing: Pick<Kept, 'key' | 'entries' | 'weight' | 'body' | 'index' | 'bytes'>): Kept {
    const { key, entries, weight, body, index, bytes } = thing;
    const older = this.#newest;
    const kept: Kept = { weight, isUsed: false, newer: undefined, older, entries, key, body, index, bytes };
    if (older !== undefined) older.newer = kept;
    this.#newest = kept;
    this.#oldest ??= kept;
    this.#sizeBytes += weight;
    return kept;
  }

  /** Lets leave what was not used since the hand last came by, until there is room; tells whether there can be. */
  #makeRoomFor(weight: number): boolean {
    if (weight > this.#maxSizeBytes) return false;
    while (this.#sizeBytes + weight > this.#maxSizeBytes) {
      let kept = this.#hand ?? this.#oldest;
      while (kept?.isUsed === true) {
        kept.isUsed = false;
        kept = kept.newer ?? this.#oldest;
      }
      this.#hand = kept;
      if (kept !== undefined) this.#remove(kept);
    }
    return true;
  }

  #remove(kept: Kept): void {
    const { body, index, newer, older } = kept;
    if (this.#hand === kept) this.#hand = newer;
    if (newer === undefined) this.#newest = older;
    else newer.older = older;
    if (older === undefined) this.#oldest = newer;
    else older.newer = newer;
    // What is gone must not hold on to what came after it: the collector takes it for alive for a while.
    kept.newer = undefined;
    kept.older = undefined;
    this.#sizeBytes -= kept.weight;
    if (body === undefined) {
      this.#entries.delete(kept.key);
      for (const entry of kept.entries ?? []) this.#byTag.delete(entry, entry.metadata.tags);
      return;
    }
    if (body.first === kept) body.first = undefined;
    else body.more?.delete(index);
    // A body of the same generation may have been begun anew since.
    const isEmpty = body.first === undefined && (body.more === undefined || body.more.size === 0);
    if (isEmpty && this.#bodies.get(body.generation) === body) this.#bodies.delete(body.generation);
    this.#blockCount -= 1;
  }
}

/** Creates an empty tier. `maxSizeBytes` bounds all that it keeps. */
export function createMemoryTier(options: { readonly maxSizeBytes: number }): MemoryTier {
  return new MemoryTier(options);
}

/** A power of two; things that fall together are counted together. */
const counterCount = 2 ** 14;
const maxCount = 255;

/** Counts touches. What was long ago counts less and less: after so many touches as a window has, all counts are halved. */
export class RecentTouches {
  readonly #counts = new Uint8Array(counterCount);
  #inWindow = 0;

  /** Counts a touch of the thing that this number stands for; tells how many it has had lately. */
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
