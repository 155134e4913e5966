/**
 * The entries of a memory store: found by key and by tag, evicted by least recent use, bounded in bytes. Also estimates the
 * memory that entries and blocks take, including the objects around them.
 */

import { LRUCache } from 'lru-cache';
import { fillsItsMemory } from '../../bytes/own-memory.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import { findable, maxPins } from '../entry-rules.ts';
import { StoreFault } from '../store.ts';

/** The blocks of one generation that are present. Blocks are added, never changed. */
export interface ShelvedBody {
  readonly generation: string;
  /** By index; absent blocks are holes. */
  readonly blocks: Uint8Array[];
  /** Bytes that the blocks count against the bound. */
  blockWeight: number;
  /** Whether a writer has it open. */
  hasWriter: boolean;
  /** Number of holders of the bytes: readers, and the writer until it is disposed. */
  holders: number;
  /** Bytes that count against the bound after the body was removed from the shelf, while it is still held. */
  leftBytes: number;
  /** When it was last used, in epoch milliseconds; 0 before its first use. */
  usedAt: number;
}

/** Creates the body of a generation that has no blocks yet. */
export function emptyBody(generation: string): ShelvedBody {
  return { generation, blocks: [], blockWeight: 0, hasWriter: false, holders: 0, leftBytes: 0, usedAt: 0 };
}

/** One generation on the shelf: its place, weight and bytes, and the record that the store returns. */
export interface Shelved<Entry> {
  readonly key: string;
  readonly variant: string;
  readonly body: ShelvedBody;
  readonly weight: number;
  readonly tags: readonly string[] | undefined;
  /** Epoch milliseconds until which a replaced generation can be found; undefined for the current one. */
  readonly pinnedUntil: number | undefined;
  readonly record: Entry;
}

/** Number of pinned generations that each reservation checks for expiry, in turn. */
const pinsCheckedAtOnce = 4;

/**
 * The shelf. Its bound counts everything: entries that can be found, reservations of writers, and removed bodies that are still
 * held. A held body is not evicted, because that would free nothing.
 */
export class MemoryShelf<Entry> {
  /** The bound, in bytes. */
  readonly maxSizeBytes: number;
  readonly #byGeneration: LRUCache<string, Shelved<Entry>>;
  readonly #byKey = new Map<string, Shelved<Entry>[]>();
  readonly #byTag = new TagIndex<Shelved<Entry>>();
  readonly #now: () => number;
  /** The pinned generations; the one that was checked longest ago comes first. */
  readonly #pins = new Set<string>();
  readonly #onEvicted: (keys: readonly string[]) => void;
  #reservedBytes = 0;

  /** `onEvicted` receives the keys of the entries that one reservation has evicted, one for each entry. */
  constructor(maxSizeBytes: number, now: () => number, onEvicted: (keys: readonly string[]) => void = () => {}) {
    this.maxSizeBytes = maxSizeBytes;
    this.#now = now;
    this.#onEvicted = onEvicted;
    this.#byGeneration = new LRUCache({
      maxSize: maxSizeBytes,
      onInsert: (shelved) => this.#byTag.add(shelved, shelved.tags),
      dispose: (shelved) => this.#byTag.delete(shelved, shelved.tags),
    });
  }

  /** All bytes that count against the bound. */
  get sizeBytes(): number {
    return this.#byGeneration.calculatedSize + this.#reservedBytes;
  }

  /** Returns the findable generations of a key: the last one put first, pinned ones after all others. */
  under(key: string): readonly Shelved<Entry>[] {
    return findable(this.#allOf(key), this.#now);
  }

  /** Returns a generation; does not count as its use. */
  get(generation: string): Shelved<Entry> | undefined {
    return this.#byGeneration.peek(generation);
  }

  /** Returns the body of a generation; counts as its use. */
  use(generation: string): ShelvedBody | undefined {
    const body = this.#byGeneration.get(generation)?.body;
    if (body !== undefined) body.usedAt = this.#now();
    return body;
  }

  /** Reserves bytes, evicting the least recently used entries. Throws `StoreFault` `no_room`. */
  reserve(bytes: number): void {
    this.#removeExpired();
    const evicted = this.#evictFor(bytes);
    if (evicted.length > 0) this.#onEvicted(evicted);
    if (this.sizeBytes + bytes > this.maxSizeBytes) {
      throw new StoreFault('no_room', 'The memory store has no room left.');
    }
    this.#reservedBytes += bytes;
  }

  /** Releases reserved bytes. */
  release(bytes: number): void {
    this.#reservedBytes -= bytes;
  }

  /**
   * Puts a generation in place of the current one of the same key and variant. The earlier one becomes what `pin` returns, or is
   * removed where `pin` returns undefined. Releases the reservation of the new generation; makes room for the weight beyond it.
   * Throws `StoreFault` `no_room`, and then puts nothing.
   */
  put(
    shelved: Shelved<Entry>,
    reservedBytes: number,
    pin: (earlier: Shelved<Entry>) => Shelved<Entry> | undefined,
  ): void {
    const { key, variant, body } = shelved;
    this.#setWeight(shelved, reservedBytes);
    const isRival = (other: Shelved<Entry>) => other.variant === variant && other.body !== body;
    const earlier = this.#allOf(key).find((other) => isRival(other) && other.pinnedUntil === undefined);
    if (earlier !== undefined) this.#pinOrRemove(earlier, pin(earlier));
    const pinned = this.under(key).filter((other) => isRival(other) && other.pinnedUntil !== undefined);
    for (const superfluous of pinned.slice(maxPins)) this.remove(superfluous);
    const others = this.#allOf(key).filter((other) => other.body !== body);
    this.#byKey.set(key, [shelved, ...others]);
  }

  /** Replaces the record or weight of a generation. Throws `StoreFault` `no_room`. */
  exchange(earlier: Shelved<Entry>, shelved: Shelved<Entry>): void {
    const { key } = shelved;
    this.#setWeight(shelved, 0);
    this.#byKey.set(
      key,
      this.#allOf(key).map((other) => (other === earlier ? shelved : other)),
    );
  }

  /** Removes a generation. Its holders keep the bytes, which count against the bound until the last holder lets go. */
  remove(shelved: Shelved<Entry>): void {
    const { key, body, weight } = shelved;
    this.#byGeneration.delete(body.generation);
    this.#pins.delete(body.generation);
    const others = this.#allOf(key).filter((other) => other !== shelved);
    if (others.length === 0) this.#byKey.delete(key);
    else this.#byKey.set(key, others);
    if (body.holders > 0) {
      body.leftBytes = weight;
      this.#reservedBytes += weight;
    }
  }

  /** Holds the bytes of a generation: they stay and count until `letGo`. */
  hold(body: ShelvedBody): void {
    body.holders += 1;
  }

  /** Lets go of held bytes. */
  letGo(body: ShelvedBody): void {
    body.holders -= 1;
    if (body.holders > 0) return;
    this.#reservedBytes -= body.leftBytes;
    body.leftBytes = 0;
  }

  /** Removes all generations of a key; returns how many could be found. */
  removeAll(key: string): number {
    const found = this.under(key).length;
    for (const shelved of this.#allOf(key)) this.remove(shelved);
    return found;
  }

  /** Removes all generations with a tag; returns the keys under which they could be found. */
  removeTagged(tag: string): readonly string[] {
    const tagged = this.#byTag.tagged(tag);
    const found = findable(tagged, this.#now);
    for (const shelved of tagged) this.remove(shelved);
    return [...new Set(found.map(({ key }) => key))];
  }

  /** Number of generations on the shelf. */
  get count(): number {
    return this.#byGeneration.size;
  }

  /** Returns the keys that have generations. The shelf may change during the iteration. */
  keys(): Iterable<string> {
    return this.#byKey.keys();
  }

  /** Returns the findable generations with a tag. */
  tagged(tag: string): readonly Shelved<Entry>[] {
    return findable(this.#byTag.tagged(tag), this.#now);
  }

  /** Forgets everything. */
  clear(): void {
    this.#byGeneration.clear();
    this.#byKey.clear();
    this.#pins.clear();
    this.#reservedBytes = 0;
  }

  /** Returns all generations of a key, the last one put first, expired pins included. */
  #allOf(key: string): readonly Shelved<Entry>[] {
    return this.#byKey.get(key) ?? [];
  }

  #pinOrRemove(earlier: Shelved<Entry>, pinned: Shelved<Entry> | undefined): void {
    if (pinned === undefined) {
      this.remove(earlier);
      return;
    }
    this.exchange(earlier, pinned);
    this.#pins.add(pinned.body.generation);
  }

  /** Checks a few pinned generations: removes the expired ones, and moves the others to the end of the queue. */
  #removeExpired(): void {
    if (this.#pins.size === 0) return;
    const at = this.#now();
    for (const generation of [...this.#pins.values().take(pinsCheckedAtOnce)]) {
      const shelved = this.get(generation);
      this.#pins.delete(generation);
      if (shelved?.pinnedUntil === undefined) continue;
      if (shelved.pinnedUntil <= at) this.remove(shelved);
      else this.#pins.add(generation);
    }
  }

  #setWeight(shelved: Shelved<Entry>, reservedBytes: number): void {
    const { body, weight } = shelved;
    const growth = Math.max(0, weight - reservedBytes - (this.get(body.generation)?.weight ?? 0));
    this.hold(body);
    try {
      this.reserve(growth);
    } finally {
      this.letGo(body);
    }
    this.release(growth + reservedBytes);
    this.#byGeneration.set(body.generation, shelved, { size: weight });
  }

  /** Evicts until there is room for these bytes or nothing more can be evicted; returns the keys of what was evicted. */
  #evictFor(bytes: number): readonly string[] {
    const evicted: string[] = [];
    while (this.sizeBytes + bytes > this.maxSizeBytes && this.#reservedBytes + bytes <= this.maxSizeBytes) {
      const oldest = this.#leastUsed();
      if (oldest === undefined) break;
      this.remove(oldest);
      evicted.push(oldest.key);
    }
    return evicted;
  }

  #leastUsed(): Shelved<Entry> | undefined {
    for (const shelved of this.#byGeneration.rvalues()) if (shelved?.body.holders === 0) return shelved;
    return undefined;
  }
}

/** An index of things by tag. Things are compared by identity. */
export class TagIndex<Thing extends object> {
  readonly #tagged = new Map<string, Set<Thing>>();

  /** Number of tags that at least one thing has. */
  get size(): number {
    return this.#tagged.size;
  }

  /** Returns the things that have a tag. */
  tagged(tag: string): readonly Thing[] {
    return [...(this.#tagged.get(tag) ?? [])];
  }

  /** Adds a thing under its tags. */
  add(thing: Thing, tags: readonly string[] = []): void {
    for (const tag of tags) {
      const things = this.#tagged.get(tag);
      if (things === undefined) this.#tagged.set(tag, new Set([thing]));
      else things.add(thing);
    }
  }

  /** Removes a thing from under its tags. */
  delete(thing: Thing, tags: readonly string[] = []): void {
    for (const tag of tags) {
      const things = this.#tagged.get(tag);
      things?.delete(thing);
      if (things?.size === 0) this.#tagged.delete(tag);
    }
  }
}

/** The objects around one block, in bytes: a view, its ArrayBuffer, a slot in a list or map, and its key. */
const blockOverheadBytes = 320;
/** The objects around one entry, in bytes: the record, slots in two maps, and the list of its variants. */
const entryOverheadBytes = 1024;
/** The objects around one field, in bytes: an array of two strings, and their headers. */
const fieldOverheadBytes = 96;
/** The objects around one tag, in bytes: a slot in the entry's list, a slot in the tag index, and there a set of its entries. */
const tagOverheadBytes = 320;

/** Returns what a block takes in memory, in bytes. */
export function blockWeight(sizeBytes: number): number {
  return sizeBytes + blockOverheadBytes;
}

/** Returns what an entry takes in memory without its blocks, in bytes. */
export function entryWeight(key: string, variant: string, metadata: StoredResponse): number {
  let bytes = entryOverheadBytes + 2 * (key.length + variant.length);
  for (const [name, value] of metadata.fields) bytes += fieldOverheadBytes + name.length + value.length;
  for (const [name, value] of [...metadata.nominated, ...(metadata.selected ?? [])]) {
    bytes += fieldOverheadBytes + name.length + (value?.length ?? 0);
  }
  for (const name of metadata.identity?.names ?? []) bytes += fieldOverheadBytes + name.length;
  for (const tag of metadata.tags ?? []) bytes += tagOverheadBytes + tag.length;
  return bytes;
}

/** Returns the same bytes in a buffer that they nearly fill, so that a small view does not keep a big pool alive. */
export function withOwnBuffer(bytes: Uint8Array): Uint8Array {
  return fillsItsMemory(bytes) ? bytes : new Uint8Array(bytes);
}
