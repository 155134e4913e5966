/**
 * Collections for values that live as long as a request, and results that are computed once for each object.
 *
 * A Set or Map of the language begins a new table when its table is full of deleted members. The old table keeps references to
 * all its members and to the next table. Once a table is old, which takes one minor collection, all tables after it grow old
 * too, with everything they hold; only a full collection frees them. So `ShortLivedMap` keeps only names and numbers in such a
 * table, and `ShortLivedSet` has no table.
 */

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

/** A Map for values that live as long as a request. In insertion order. */
export class ShortLivedMap<K extends string, V> {
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
