/** Keys whose responses turned out not to be for sharing: their requests need not wait for each other. */

/** How long a key is remembered, in milliseconds; a resource that becomes storable is noticed after that. */
const REMEMBERED_MS = 10_000;
const MAX_KEYS = 10_000;

/** Reasons that lie in the response and not in the request that it answers. */
const reasonsOfResponse = new Set([
  'no-store',
  'private',
  'set-cookie',
  'vary-star',
  'close-delimited',
  'too-large',
  'digest-mismatch',
]);

/** Remembers keys for a short time, a bounded number of them. */
export class UnsharedKeys {
  readonly #until = new Map<string, number>();

  /** Remembers a key whose response was refused for this reason, if the next one will probably be refused too. */
  note(key: string, reason: string, now: number): void {
    if (!reasonsOfResponse.has(reason)) return;
    this.#until.delete(key);
    this.#until.set(key, now + REMEMBERED_MS);
    const [oldest] = this.#until.keys();
    if (this.#until.size > MAX_KEYS && oldest !== undefined) this.#until.delete(oldest);
  }

  /** Whether the requests of a key go to the origin each for itself. */
  has(key: string, now: number): boolean {
    const until = this.#until.get(key);
    if (until === undefined) return false;
    if (until > now) return true;
    this.#until.delete(key);
    return false;
  }
}
