/** Caches of a fixed count of things, as plain as can be: what evictions are compared with. */

/** A cache of names. */
export interface NameCache {
  /** Uses a name, which comes in if it was not there; tells whether it was, and who had to leave for it. */
  use(name: string): { readonly isHit: boolean; readonly evicted: string | undefined };
}

/** SIEVE as its authors write it down: a list, a bit for each thing, and a hand. */
export class SieveModel implements NameCache {
  readonly #capacity: number;
  /** The oldest first. */
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
      const thing = this.#queue[this.#hand];
      if (thing === undefined) return undefined;
      if (!thing.isUsed) {
        this.#queue.splice(this.#hand, 1);
        this.#hand %= Math.max(1, this.#queue.length);
        return thing.name;
      }
      thing.isUsed = false;
      this.#hand = (this.#hand + 1) % this.#queue.length;
    }
  }
}

/** The least recently used leaves. */
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
