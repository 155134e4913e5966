/**
 * Where a memory store keeps its entries: found by key and by tag, evicted by use, bounded in bytes. Also the estimate of what
 * entries and blocks take in memory, with the objects around them.
 */

import { LRUCache } from 'lru-cache';
import { fillsItsMemory } from '../../bytes/own-memory.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import { findable, maxPins } from '../entry-rules.ts';
import { StoreFault } from '../store.ts';

/** The bytes of one generation, as far as they are there. Blocks are added, never changed. */
export interface ShelvedBody {
  readonly generation: string;
  /** By index; those that are not there are holes. */
  readonly blocks: Uint8Array[];
  /** What the blocks count against the bound. */
  blockWeight: number;
  /** Whether a writer has it open. */
  hasWriter: boolean;
  /** How many hold the bytes: readers, and the writer as long as it is there. */
  holders: number;
  /** What counts against the bound for bytes that left the shelf and are still held. */
  leftBytes: number;
}

/** What is known of one generation: its place and weight, its bytes, and the record that the store gives out. */
export interface Shelved<Entry> {
  readonly key: string;
  readonly variant: string;
  readonly body: ShelvedBody;
  readonly weight: number;
  readonly tags: readonly string[] | undefined;
  /** Until when it is found although it was replaced, in epoch milliseconds; undefined for the current one. */
  readonly pinnedUntil: number | undefined;
  readonly record: Entry;
}

/** With each reservation so many pinned generations are looked at, one after the other, whether their time is over. */
const pinsLookedAt = 4;

/**
 * The shelf. Its bound counts everything: what is found, what writers have reserved, and what was removed but is still
 * held by somebody. What somebody holds is not evicted, for that would free nothing.
 */
export class MemoryShelf<Entry> {
  /** The bound, in bytes. */
  readonly maxSizeBytes: number;
  readonly #byGeneration: LRUCache<string, Shelved<Entry>>;
  readonly #byKey = new Map<string, Shelved<Entry>[]>();
  readonly #byTag = new TagIndex<Shelved<Entry>>();
  readonly #now: () => number;
  /** The pinned generations; the first has not been looked at for longest. */
  readonly #pins = new Set<string>();
  readonly #onEvicted: (count: number) => void;
  #reservedBytes = 0;

  /** `onEvicted` is told how many have left at once to make room. */
  constructor(maxSizeBytes: number, now: () => number, onEvicted: (count: number) => void = () => {}) {
    this.maxSizeBytes = maxSizeBytes;
    this.#now = now;
    this.#onEvicted = onEvicted;
    this.#byGeneration = new LRUCache({
      maxSize: maxSizeBytes,
      onInsert: (shelved) => this.#byTag.add(shelved, shelved.tags),
      dispose: (shelved) => this.#byTag.delete(shelved, shelved.tags),
    });
  }

  /** All that counts against the bound, in bytes. */
  get sizeBytes(): number {
    return this.#byGeneration.calculatedSize + this.#reservedBytes;
  }

  /** What is found under a key: the last one put first, pinned ones after all others. */
  under(key: string): readonly Shelved<Entry>[] {
    return findable(this.#kept(key), this.#now);
  }

  /** A generation, without counting this as its use. */
  get(generation: string): Shelved<Entry> | undefined {
    return this.#byGeneration.peek(generation);
  }

  /** The bytes of a generation; counts as its use. */
  use(generation: string): ShelvedBody | undefined {
    return this.#byGeneration.get(generation)?.body;
  }

  /** Reserves bytes, evicting what was used least recently. Throws `StoreFault` `no_room`. */
  reserve(bytes: number): void {
    this.#removeExpired();
    const evictedEntries = this.#evictFor(bytes);
    if (evictedEntries > 0) this.#onEvicted(evictedEntries);
    if (this.sizeBytes + bytes > this.maxSizeBytes) {
      throw new StoreFault('no_room', 'The memory store has no room left.');
    }
    this.#reservedBytes += bytes;
  }

  /** Gives reserved bytes back. */
  release(bytes: number): void {
    this.#reservedBytes -= bytes;
  }

  /**
   * Puts a generation in place of the one of the same key and variant, which is kept as `pin` makes it, or goes where
   * that gives nothing. What was reserved for the new one is given back; what it weighs beyond that is found room for.
   * Throws `StoreFault` `no_room`; all is as before then.
   */
  put(
    shelved: Shelved<Entry>,
    reservedBytes: number,
    pin: (earlier: Shelved<Entry>) => Shelved<Entry> | undefined,
  ): void {
    const { key, variant, body } = shelved;
    this.#setWeight(shelved, reservedBytes);
    const isRival = (other: Shelved<Entry>) => other.variant === variant && other.body !== body;
    const earlier = this.#kept(key).find((other) => isRival(other) && other.pinnedUntil === undefined);
    if (earlier !== undefined) this.#pinOrRemove(earlier, pin(earlier));
    const pinned = this.under(key).filter((other) => isRival(other) && other.pinnedUntil !== undefined);
    for (const superfluous of pinned.slice(maxPins)) this.remove(superfluous);
    const others = this.#kept(key).filter((other) => other.body !== body);
    this.#byKey.set(key, [shelved, ...others]);
  }

  /** Puts another record or weight of the same generation in place of an earlier one. Throws `StoreFault` `no_room`. */
  exchange(earlier: Shelved<Entry>, shelved: Shelved<Entry>): void {
    const { key } = shelved;
    this.#setWeight(shelved, 0);
    this.#byKey.set(
      key,
      this.#kept(key).map((other) => (other === earlier ? shelved : other)),
    );
  }

  /** Removes what is on the shelf; whoever holds its bytes keeps them, and they count until the last one lets go. */
  remove(shelved: Shelved<Entry>): void {
    const { key, body, weight } = shelved;
    this.#byGeneration.delete(body.generation);
    this.#pins.delete(body.generation);
    const others = this.#kept(key).filter((other) => other !== shelved);
    if (others.length === 0) this.#byKey.delete(key);
    else this.#byKey.set(key, others);
    if (body.holders > 0) {
      body.leftBytes = weight;
      this.#reservedBytes += weight;
    }
  }

  /** Holds the bytes of a generation, so that they stay and count until `letGo`. */
  hold(body: ShelvedBody): void {
    body.holders += 1;
  }

  /** Lets go of bytes that were held. */
  letGo(body: ShelvedBody): void {
    body.holders -= 1;
    if (body.holders > 0) return;
    this.#reservedBytes -= body.leftBytes;
    body.leftBytes = 0;
  }

  /** Removes all that is kept under a key; tells how much of it could be found. */
  removeAll(key: string): number {
    const found = this.under(key).length;
    for (const shelved of this.#kept(key)) this.remove(shelved);
    return found;
  }

  /** Removes all that has a tag; tells under which keys it could be found. */
  removeTagged(tag: string): readonly string[] {
    const tagged = this.#byTag.tagged(tag);
    const found = findable(tagged, this.#now);
    for (const shelved of tagged) this.remove(shelved);
    return [...new Set(found.map(({ key }) => key))];
  }

  /** How many generations there are. */
  get count(): number {
    return this.#byGeneration.size;
  }

  /** The keys under which something is kept. May be gone through while the shelf changes. */
  keys(): Iterable<string> {
    return this.#byKey.keys();
  }

  /** What has a tag, current or pinned and still in time. */
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

  /** All that is kept under a key, the last one put first, also those whose time is over. */
  #kept(key: string): readonly Shelved<Entry>[] {
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

  /** Looks at a few pinned generations, removes those whose time is over, and puts the others behind the rest. */
  #removeExpired(): void {
    if (this.#pins.size === 0) return;
    const at = this.#now();
    for (const generation of [...this.#pins.values().take(pinsLookedAt)]) {
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

  /** Evicts until there is room for so many bytes or nothing may leave; tells how many have left. */
  #evictFor(bytes: number): number {
    let evicted = 0;
    while (this.sizeBytes + bytes > this.maxSizeBytes && this.#reservedBytes + bytes <= this.maxSizeBytes) {
      const oldest = this.#leastUsed();
      if (oldest === undefined) break;
      this.remove(oldest);
      evicted += 1;
    }
    return evicted;
  }

  #leastUsed(): Shelved<Entry> | undefined {
    for (const shelved of this.#byGeneration.rvalues()) if (shelved?.body.holders === 0) return shelved;
    return undefined;
  }
}

/** The index. A thing is told apart from others by its identity. */
export class TagIndex<Thing extends object> {
  readonly #tagged = new Map<string, Set<Thing>>();

  /** How many tags something has. */
  get size(): number {
    return this.#tagged.size;
  }

  /** The things that have a tag now. */
  tagged(tag: string): readonly Thing[] {
    return [...(this.#tagged.get(tag) ?? [])];
  }

  /** Notes that a thing has these tags. */
  add(thing: Thing, tags: readonly string[] = []): void {
    for (const tag of tags) {
      const things = this.#tagged.get(tag);
      if (things === undefined) this.#tagged.set(tag, new Set([thing]));
      else things.add(thing);
    }
  }

  /** Forgets that a thing has these tags. */
  delete(thing: Thing, tags: readonly string[] = []): void {
    for (const tag of tags) {
      const things = this.#tagged.get(tag);
      things?.delete(thing);
      if (things?.size === 0) this.#tagged.delete(tag);
    }
  }
}

/** The objects around one block: a view, its ArrayBuffer, a place in a list or map and its key. */
const blockOverheadBytes = 320;
/** The objects around one entry: the record itself, places in two maps, the list of its variants. */
const entryOverheadBytes = 1024;
/** The objects around one field: an array of two strings and their headers. */
const fieldOverheadBytes = 96;
/** The objects around one tag: a place in a list, one in the index of tags, and there a set of those that have it. */
const tagOverheadBytes = 320;

/** What a block takes in memory, in bytes. */
export function blockWeight(sizeBytes: number): number {
  return sizeBytes + blockOverheadBytes;
}

/** What an entry takes in memory without its blocks, in bytes. */
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

/** The same bytes in memory that is theirs but for a little, so that keeping a small view does not keep a big pool alive. */
export function withOwnBuffer(bytes: Uint8Array): Uint8Array {
  return fillsItsMemory(bytes) ? bytes : new Uint8Array(bytes);
}
