/** The simplest caches with a fixed number of names. Tests compare evictions with these models. */

/** A cache that holds names. */
export interface NameCache {
  /** Uses a name, and adds it if it is absent. Returns whether it was a hit, and the name that was evicted for it. */
  use(name: string): { readonly isHit: boolean; readonly evicted: string | undefined };
}

/** SIEVE as its authors describe it: a list, a bit for each name, and a hand. */
export class SieveModel implements NameCache {
  readonly #capacity: number;
  /** Oldest first. */
  readonly #queue: { readonly name: string; isUsed: boolean }[] = [];
  #hand = 0;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get names(): string[] {
    return this.#queue.map(({ name }) => name);
  }

  use(name: string) {
    const found = this.#queue.find((each) => each.name === name);
    if (found !== undefined) found.isUsed = true;
    if (found !== undefined) return { isHit: true, evicted: undefined };
    const evicted = this.#queue.length < this.#capacity ? undefined : this.evict();
    this.#queue.push({ name, isUsed: false });
    return { isHit: false, evicted };
  }

  evict(): string | undefined {
    for (;;) {
      const entry = this.#queue[this.#hand];
      if (entry === undefined) return undefined;
      if (!entry.isUsed) {
        this.#queue.splice(this.#hand, 1);
        this.#hand %= Math.max(1, this.#queue.length);
        return entry.name;
      }
      entry.isUsed = false;
      this.#hand = (this.#hand + 1) % this.#queue.length;
    }
  }
}

/** LRU: evicts the least recently used name. */
export class LruModel implements NameCache {
  readonly #capacity: number;
  readonly #names = new Set<string>();

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  use(name: string) {
    const isHit = this.#names.delete(name);
    const [oldest] = this.#names;
    const evicted = isHit || this.#names.size < this.#capacity ? undefined : oldest;
    if (evicted !== undefined) this.#names.delete(evicted);
    this.#names.add(name);
    return { isHit, evicted };
  }
}
