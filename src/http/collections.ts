/**
 * Collections for values that live as long as a request, results that are computed once for each object or recent text, and values
 * that are remembered for a while.
 *
 * A Set or Map of the language begins a new table when its table is full of deleted members. The old table keeps references to
 * all its members and to the next table. Once a table is old, which takes one minor collection, all tables after it grow old
 * too, with everything they hold; only a full collection frees them. So `ShortLivedMap` keeps only names and numbers in such a
 * table, and `ShortLivedSet` has no table.
 */

import { ownText } from '../bytes/own-memory.ts';

/**
 * The constructor returns a given object, so that a subclass puts its private fields on it. Copies of the object and its JSON
 * lack them.
 */
class ReturnedObject {
  constructor(object: object) {
    // biome-ignore lint/correctness/noConstructorReturn: this is what puts the private field of the class below on the object.
    return object;
  }
}

/**
 * Returns a function that computes its result once for each object, as long as the object lives. The object and everything in
 * it must not change. The result is in a private field of the object: a WeakMap with an element for each stored response costs
 * each hit a look-up, and the garbage collector a fifth of its time.
 */
export function memoizeByObject<K extends object, V>(work: (of: K) => V): (of: K) => V {
  class Known extends ReturnedObject {
    readonly #result: V;

    constructor(of: K, result: V) {
      super(of);
      this.#result = result;
    }

    static resultOf(of: K): V {
      if (#result in of) return (of as unknown as Known).#result;
      const result = work(of);
      new Known(of, result);
      return result;
    }
  }
  return Known.resultOf;
}

/** Longer texts, in characters, are not remembered: clients may write what they want. */
const MAX_TEXT_LENGTH = 1024;

/** Remembers results in two tables. A full recent table replaces the earlier one; results that were not used since are forgotten. */
export class RecentResults<V> {
  readonly #kept: number;
  #recent = new Map<string, V>();
  #earlier = new Map<string, V>();

  /** At least `kept` results are remembered, and at most twice as many. */
  constructor(kept: number) {
    this.#kept = kept;
  }

  /** Returns the result that is remembered for a text. */
  find(text: string): V | undefined {
    const recent = this.#recent.get(text);
    if (recent !== undefined) return recent;
    const earlier = this.#earlier.get(text);
    if (earlier !== undefined) this.keep(text, earlier);
    return earlier;
  }

  /** Remembers a result for a text. */
  keep(text: string, result: V): void {
    if (text.length > MAX_TEXT_LENGTH) return;
    if (this.#recent.size >= this.#kept) {
      this.#earlier = this.#recent;
      this.#recent = new Map();
    }
    this.#recent.set(text, result);
  }
}

/**
 * Returns a function that remembers its results for recent texts, as `RecentResults` does: clients can invent any number of texts,
 * and those in use are found again soon. Remembered texts retain no other memory.
 */
export function memoizeByText<V extends NonNullable<unknown>>(
  kept: number,
  work: (text: string) => V,
): (text: string) => V {
  const results = new RecentResults<V>(kept);
  return (text) => {
    const known = results.find(text);
    if (known !== undefined) return known;
    const result = work(text);
    if (text.length <= MAX_TEXT_LENGTH) results.keep(ownText(text), result);
    return result;
  };
}

/** The average length of the keys that an `ExpiringMap` has room for, in characters. */
const usualKeyLength = 256;

/**
 * Remembers values until an instant each, in a bounded number, and for keys of a bounded length in all. The values set first are
 * forgotten first.
 */
export class ExpiringMap<V> {
  readonly #most: number;
  readonly #known = new Map<string, { readonly value: V; readonly until: number }>();
  /** The characters of all keys. */
  #length = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** Returns the value of a key; undefined where there is none, or its time has passed. Both times are epoch milliseconds. */
  get(key: string, now: number): V | undefined {
    const known = this.#known.get(key);
    if (known === undefined || known.until > now) return known?.value;
    this.delete(key);
    return undefined;
  }

  set(key: string, value: V, until: number): void {
    if (!this.#known.delete(key)) this.#length += key.length;
    this.#known.set(ownText(key), { value, until });
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= this.#most && this.#length <= this.#most * usualKeyLength) return;
      this.delete(oldest);
    }
  }

  delete(key: string): void {
    if (this.#known.delete(key)) this.#length -= key.length;
  }
}

/** A Map for values that live as long as a request. In insertion order. */
export class ShortLivedMap<K extends string | number, V> {
  /** The index of each key's value in `#values`. */
  readonly #places = new Map<K, number>();
  readonly #values: (V | undefined)[] = [];
  readonly #free: number[] = [];

  get size(): number {
    return this.#places.size;
  }

  has(key: K): boolean {
    return this.#places.has(key);
  }

  get(key: K): V | undefined {
    const place = this.#places.get(key);
    return place === undefined ? undefined : this.#values[place];
  }

  set(key: K, value: V): void {
    const place = this.#places.get(key) ?? this.#free.pop() ?? this.#values.length;
    this.#places.set(key, place);
    this.#values[place] = value;
  }

  /** Returns whether the key was there. */
  delete(key: K): boolean {
    const place = this.#places.get(key);
    if (place === undefined) return false;
    this.#places.delete(key);
    this.#values[place] = undefined;
    this.#free.push(place);
    return true;
  }

  /** As `Map.keys`: keys that are added or deleted during the iteration may be included or not. */
  keys(): MapIterator<K> {
    return this.#places.keys();
  }

  /** A snapshot, as is `values`: later changes do not affect it. */
  get entries(): readonly (readonly [K, V])[] {
    return [...this.#places].map(([key, place]) => [key, this.#values[place] as V]);
  }

  get values(): readonly V[] {
    return [...this.#places.values()].map((place) => this.#values[place] as V);
  }
}

/** The place of a member in a `ShortLivedSet`. */
export interface Place<T> {
  readonly member: T;
}

class Link<T> implements Place<T> {
  readonly member: T;
  older: Link<T> | undefined;
  newer: Link<T> | undefined;
  isLinked = true;

  constructor(member: T, older: Link<T> | undefined) {
    this.member = member;
    this.older = older;
  }
}

/** A Set for members that live as long as a request, in insertion order. A linked list: it has no table. */
export class ShortLivedSet<T> {
  #oldest: Link<T> | undefined;
  #newest: Link<T> | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Adds a member, even if an equal member is there. Returns the place that `delete` takes. */
  add(member: T): Place<T> {
    const link = new Link(member, this.#newest);
    if (this.#newest === undefined) this.#oldest = link;
    else this.#newest.newer = link;
    this.#newest = link;
    this.#size += 1;
    return link;
  }

  /** Deletes the member at a place of this set. Returns whether it was there. */
  delete(place: Place<T>): boolean {
    const link = place as Link<T>;
    if (!link.isLinked) return false;
    const { older, newer } = link;
    if (older === undefined) this.#oldest = newer;
    else older.newer = newer;
    if (newer === undefined) this.#newest = older;
    else newer.older = older;
    // A deleted link that has grown old must not keep its neighbours alive.
    link.older = undefined;
    link.newer = undefined;
    link.isLinked = false;
    this.#size -= 1;
    return true;
  }

  /** The places of all current members. Members that are added or deleted later do not change the array. */
  get places(): readonly Place<T>[] {
    const places: Place<T>[] = [];
    for (let link = this.#oldest; link !== undefined; link = link.newer) places.push(link);
    return places;
  }

  /** All current members; see `places`. */
  get all(): readonly T[] {
    return this.places.map(({ member }) => member);
  }
}
