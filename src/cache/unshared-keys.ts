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

/** Those for which another client may be answered otherwise. */
const reasonsOfClient = new Set(['no-store', 'private', 'set-cookie']);

/** Why the requests of a key go to the origin each for itself: the responses are nothing for a store, or for one client. */
export type Unshared = 'unstorable' | 'personal';

/** Remembers keys for a short time, a bounded number of them. */
export class UnsharedKeys {
  readonly #known = new Map<string, { readonly until: number; readonly why: Unshared }>();
  /** Until when each is remembered, in epoch milliseconds. */
  readonly #bound = new Map<string, number>();

  /** Remembers a key whose response was refused for this reason, if the next one will probably be refused too. */
  note(key: string, reason: string, now: number): void {
    if (reasonsOfResponse.has(reason)) this.learn(key, reasonsOfClient.has(reason) ? 'personal' : 'unstorable', now);
  }

  /** Remembers a key of which somebody else has found it out. */
  learn(key: string, why: Unshared, now: number): void {
    this.#known.delete(key);
    this.#known.set(key, { until: now + REMEMBERED_MS, why });
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_KEYS && oldest !== undefined) this.#known.delete(oldest);
  }

  /** Undefined where they need not. */
  why(key: string, now: number): Unshared | undefined {
    const known = this.#known.get(key);
    if (known === undefined || known.until > now) return known?.why;
    this.#known.delete(key);
    return undefined;
  }

  /**
   * Remembers whether the last response for a key was for equal requests only, because it stated no lifetime: those that
   * differ need not wait for each other then.
   */
  noteBound(key: string, isBound: boolean, now: number): void {
    this.#bound.delete(key);
    if (!isBound) return;
    this.#bound.set(key, now + REMEMBERED_MS);
    const [oldest] = this.#bound.keys();
    if (this.#bound.size > MAX_KEYS && oldest !== undefined) this.#bound.delete(oldest);
  }

  /** Whether the responses for a key are for equal requests only, as far as the last one told. */
  isBound(key: string, now: number): boolean {
    const until = this.#bound.get(key);
    if (until === undefined || until > now) return until !== undefined;
    this.#bound.delete(key);
    return false;
  }

  /** Whether the requests of a key go to the origin each for itself. */
  has(key: string, now: number): boolean {
    return this.why(key, now) !== undefined;
  }
}
