/** Why responses were not stored: the last reason for each key, remembered for those who ask. */

/** Of how many keys. */
const MAX_KEYS = 10_000;

/** A response that was not stored. */
export interface Refusal {
  /** In the words of Cache-Status and the log. */
  readonly reason: string;
  /** The status of the response, where one had come. */
  readonly status: number | undefined;
  /** Epoch milliseconds. */
  readonly at: number;
}

/** A bounded memory; the keys that were noted last stay longest. */
export class Refusals {
  readonly #byKey = new Map<string, Refusal>();

  /** Notes why the response to a request for a key was not stored. */
  note(key: string, refusal: Refusal): void {
    this.#byKey.delete(key);
    this.#byKey.set(key, refusal);
    const [oldest] = this.#byKey.keys();
    if (this.#byKey.size > MAX_KEYS && oldest !== undefined) this.#byKey.delete(oldest);
  }

  /** Forgets what was noted of a key, because a later response is being stored. */
  forget(key: string): void {
    this.#byKey.delete(key);
  }

  /** What was noted last; undefined where nothing was, or a later response was stored. */
  last(key: string): Refusal | undefined {
    return this.#byKey.get(key);
  }
}
