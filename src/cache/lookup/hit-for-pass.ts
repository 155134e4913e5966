/**
 * What the cache remembers of keys besides what is stored, for a short time and a bounded number of keys: which responses
 * turned out not to be shareable, so that requests need not wait for each other (hit-for-pass); how often a key was asked
 * for (min-uses); and why the last response was not stored.
 */

import { crc32 } from 'node:zlib';

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
export type PassReason = 'unstorable' | 'personal';

/** Remembers keys for a short time, a bounded number of them. */
export class HitForPassKeys {
  readonly #known = new Map<string, { readonly until: number; readonly why: PassReason }>();
  /** Until when each is remembered, in epoch milliseconds. */
  readonly #bound = new Map<string, number>();

  /** Remembers a key whose response was refused for this reason, if the next one will probably be refused too. */
  note(key: string, reason: string, now: number): void {
    if (reasonsOfResponse.has(reason)) this.learn(key, reasonsOfClient.has(reason) ? 'personal' : 'unstorable', now);
  }

  /** Remembers a key of which somebody else has found it out. */
  learn(key: string, why: PassReason, now: number): void {
    this.#known.delete(key);
    this.#known.set(key, { until: now + REMEMBERED_MS, why });
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_KEYS && oldest !== undefined) this.#known.delete(oldest);
  }

  /** Undefined where they need not. */
  why(key: string, now: number): PassReason | undefined {
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

/** What the memory of uses is made with. */
interface UseCountsOptions {
  /** The most keys that are remembered; half as many different keys later, at the earliest, a key is forgotten. */
  readonly maxKeys: number;
}

/** A bounded memory of uses. */
export interface UseCounts {
  /** Notes a use of a key, and tells how many there were lately, this one included. */
  note(key: string): number;
  /** How many uses of a key there were lately. */
  count(key: string): number;
}

/**
 * Creates an empty memory. It keeps two generations of counts: when the younger one is full it becomes the older one,
 * which is forgotten. A key is known by its CRC-32, so that long keys take no more room than short ones; two keys that
 * share one are counted together, which at worst stores one of them early.
 */
export function createUseCounts({ maxKeys }: UseCountsOptions): UseCounts {
  const maxInGeneration = Math.max(1, Math.floor(maxKeys / 2));
  let younger = new Map<number, number>();
  let older = younger;
  const countOf = (sum: number) => younger.get(sum) ?? older.get(sum) ?? 0;
  return {
    note: (key) => {
      const sum = crc32(key);
      const count = countOf(sum) + 1;
      if (younger.size >= maxInGeneration && !younger.has(sum)) {
        older = younger;
        younger = new Map();
      }
      younger.set(sum, count);
      return count;
    },
    count: (key) => countOf(crc32(key)),
  };
}

/** A response that was not stored. */
export interface NotStoredReason {
  /** In the words of Cache-Status and the log. */
  readonly reason: string;
  /** The status of the response, where one had come. */
  readonly status: number | undefined;
  /** Epoch milliseconds. */
  readonly at: number;
}

/** A bounded memory; the keys that were noted last stay longest. */
export class NotStoredReasons {
  readonly #byKey = new Map<string, NotStoredReason>();

  /** Notes why the response to a request for a key was not stored. */
  note(key: string, refusal: NotStoredReason): void {
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
  last(key: string): NotStoredReason | undefined {
    return this.#byKey.get(key);
  }
}
