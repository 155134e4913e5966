/** Keys under which a slower store was found to have nothing a moment ago: a miss looks its key up again before it is stored. */

/** So many are known at least, where so many were looked up lately. */
const MAX_KEYS = 512;
/** A longer key is looked up again. */
const MAX_KEY_LENGTH = 512;
/** For how long they are known at most is twice this, in milliseconds: a store that could not read its index knows better later. */
const ROUND_MS = 1000;

/** Two sets in turn, so that no key is removed by itself: see `http/short-lived.ts`. */
export class AbsentKeys {
  readonly #now: () => number;
  #keys = new Set<string>();
  #earlier = new Set<string>();
  #begunAt = Number.NEGATIVE_INFINITY;

  /** `now` tells epoch milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  has(key: string): boolean {
    this.#turn();
    return this.#keys.has(key) || this.#earlier.has(key);
  }

  add(key: string): void {
    if (key.length > MAX_KEY_LENGTH) return;
    this.#turn();
    this.#keys.add(key);
  }

  /** Something may be stored under the key. */
  delete(key: string): void {
    this.#keys.delete(key);
    this.#earlier.delete(key);
  }

  clear(): void {
    this.#keys = new Set();
    this.#earlier = new Set();
  }

  /** Begins another round when one is over. A clock that was set back ends it too. */
  #turn(): void {
    const now = this.#now();
    const elapsedMs = now - this.#begunAt;
    if (this.#keys.size < MAX_KEYS && elapsedMs >= 0 && elapsedMs < ROUND_MS) return;
    this.#earlier = elapsedMs < 2 * ROUND_MS && elapsedMs >= 0 ? this.#keys : new Set();
    this.#keys = new Set();
    this.#begunAt = now;
  }
}
