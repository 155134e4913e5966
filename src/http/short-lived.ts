/**
 * Collections of what comes and goes with each request.
 *
 * A Set or Map of the language begins a new table whenever its table is full of what was deleted, and the table that is left
 * holds on to all that was in it, and to the next table. Once one of them has lived for long enough to be old, which is for as
 * long as one small collection takes, all that come after it grow old with it, and with them everything that they held: only a
 * full collection finds that it is gone. So these keep in such tables nothing but names and numbers.
 */

/** A Map whose values live for as long as a request does. In the order in which the keys came. */
export class ShortLivedMap<K extends string | number, V> {
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

/** A Set whose members live for as long as a request does. In the order in which they came. */
export class ShortLivedSet<T> {
  readonly #byNumber = new ShortLivedMap<number, T>();
  #added = 0;

  get size(): number {
    return this.#byNumber.size;
  }

  /** Adds a member; gives the number by which it is deleted. */
  add(member: T): number {
    this.#added += 1;
    this.#byNumber.set(this.#added, member);
    return this.#added;
  }

  /** Tells whether it was there. */
  delete(number: number): boolean {
    return this.#byNumber.delete(number);
  }

  /** As `ShortLivedMap.values`. */
  get all(): readonly T[] {
    return this.#byNumber.values;
  }

  /** As `all`, and the number of each. */
  get numbered(): readonly (readonly [number, T])[] {
    return this.#byNumber.entries;
  }
}
