/**
 * Collections for values that come and go with each request, and results that are worked out once for each object.
 *
 * A Set or Map of the language begins a new table whenever its table is full of what was deleted, and the table that is left holds
 * on to all that was in it, and to the next table. Once one of them has lived long enough to be old, which is as long as one small
 * collection takes, all that come after it grow old with it, and with them everything that they held: only a full collection finds
 * that it is gone. So `ShortLivedMap` keeps only names and numbers in such a
 * table, and `ShortLivedSet` has none.
 */

/** A constructor that gives back an object makes private fields of that object: neither a copy of it nor JSON has them. */
class Given {
  constructor(object: object) {
    // biome-ignore lint/correctness/noConstructorReturn: this is what puts the private field of the class below on the object.
    return object;
  }
}

/**
 * A function that works out a result once for each object, as long as that lives. The object and all in it must not change. The
 * result is in a private field of the object: a WeakMap with an element for each stored response costs each hit a look-up, and
 * the collector a fifth of its time.
 */
export function onceForEach<K extends object, V>(work: (of: K) => V): (of: K) => V {
  class Known extends Given {
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

/** A Map whose values live for as long as a request does. In the order in which the keys came. */
export class ShortLivedMap<K extends string, V> {
  /** Where the value of each key is. */
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

  /** Tells whether there was such a key. */
  delete(key: K): boolean {
    const place = this.#places.get(key);
    if (place === undefined) return false;
    this.#places.delete(key);
    this.#values[place] = undefined;
    this.#free.push(place);
    return true;
  }

  /** As those of a Map: what comes or goes meanwhile is told or not. */
  keys(): MapIterator<K> {
    return this.#places.keys();
  }

  /** What is there now, as are `values`: that others come or go meanwhile changes nothing. */
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

/** A set whose members live for as long as a request does, in the order in which they came. A list of links: it has no table. */
export class ShortLivedSet<T> {
  #oldest: Link<T> | undefined;
  #newest: Link<T> | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Adds a member, also where an equal one is there. Returns the place by which it is deleted. */
  add(member: T): Place<T> {
    const link = new Link(member, this.#newest);
    if (this.#newest === undefined) this.#oldest = link;
    else this.#newest.newer = link;
    this.#newest = link;
    this.#size += 1;
    return link;
  }

  /** Deletes the member of a place of this set. Returns whether it was there. */
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

  /** The places of all members that are there now. Members that come or go later do not change it. */
  get places(): readonly Place<T>[] {
    const places: Place<T>[] = [];
    for (let link = this.#oldest; link !== undefined; link = link.newer) places.push(link);
    return places;
  }

  /** The members that are there now; see `places`. */
  get all(): readonly T[] {
    return this.places.map(({ member }) => member);
  }
}
