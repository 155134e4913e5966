/**
 * Memories of keys besides the store, each for a bounded number of keys: which responses turned out not to be shareable, so that
 * requests need not wait for each other (hit-for-pass); how often a key was requested (min-uses); and why the last response was
 * not stored.
 */

import { crc32 } from 'node:zlib';
import { ExpiringMap } from '../../http/collections.ts';

/** How long a key is remembered, in milliseconds. A resource that becomes storable is noticed only after that. */
const REMEMBERED_MS = 10_000;
const MAX_KEYS = 10_000;

/** Reasons that lie in the response, not in the request: the next response will probably be refused too. */
const reasonsOfResponse = new Set([
  'no-store',
  'private',
  'set-cookie',
  'stream',
  'vary-star',
  'close-delimited',
  'too-large',
  'digest-mismatch',
]);

/** Reasons that may hold for one client only: another client may get a storable response. */
const reasonsOfClient = new Set(['no-store', 'private', 'set-cookie']);

/** Why each request of a key goes to the origin by itself: its responses cannot be stored, or each is for one client. */
export type PassReason = 'unstorable' | 'personal';

/** Remembers keys whose responses are not shared, for a short time and in a bounded number. */
export class HitForPassKeys {
  readonly #known = new ExpiringMap<PassReason>(MAX_KEYS);
  /** Keys whose last response was for equal requests only. */
  readonly #bound = new ExpiringMap<true>(MAX_KEYS);

  /** Remembers a key whose response was refused for this reason, if the next one will probably be refused too. */
  note(key: string, reason: string, now: number): void {
    if (reasonsOfResponse.has(reason)) this.learn(key, reasonsOfClient.has(reason) ? 'personal' : 'unstorable', now);
  }

  /** Remembers a key for this reason, which another process may have found. */
  learn(key: string, why: PassReason, now: number): void {
    this.#known.set(key, why, now + REMEMBERED_MS);
  }

  /** Returns why the requests of a key go to the origin each by itself; undefined where they need not. */
  why(key: string, now: number): PassReason | undefined {
    return this.#known.get(key, now);
  }

  /**
   * Remembers whether the last response for a key was for equal requests only, because it did not state that it is for all.
   * Requests that differ need not wait for each other then.
   */
  noteBound(key: string, isBound: boolean, now: number): void {
    if (isBound) this.#bound.set(key, true, now + REMEMBERED_MS);
    else this.#bound.delete(key);
  }

  /** Checks whether the last response for a key was for equal requests only. */
  isBound(key: string, now: number): boolean {
    return this.#bound.get(key, now) === true;
  }

  /** Checks whether the requests of a key go to the origin each by itself. */
  has(key: string, now: number): boolean {
    return this.why(key, now) !== undefined;
  }
}

interface UseCountsOptions {
  /** The largest number of keys. A key is forgotten after half as many other keys were used, at the earliest. */
  readonly maxKeys: number;
}

/** Counts the recent uses of a bounded number of keys. */
export interface UseCounts {
  /** Notes a use of a key. Returns the number of recent uses, this one included. */
  note(key: string): number;
  /** Returns the number of recent uses of a key. */
  count(key: string): number;
}

/**
 * Creates an empty counter. It keeps two tables of counts: a full younger table replaces the older one. Keys are identified by
 * their CRC-32, so that long keys take no more memory than short ones. Two keys with the same CRC-32 are counted together, which
 * at worst stores one of them early.
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
  /** As in Cache-Status and the log. */
  readonly reason: string;
  /** The status of the response; undefined where none had arrived. */
  readonly status: number | undefined;
  /** Epoch milliseconds. */
  readonly at: number;
}

/** Remembers why responses were not stored, for a bounded number of keys. The keys noted first are forgotten first. */
export class NotStoredReasons {
  readonly #byKey = new ExpiringMap<NotStoredReason>(MAX_KEYS);

  /** Notes why the response to a request for a key was not stored. */
  note(key: string, refusal: NotStoredReason): void {
    this.#byKey.set(key, refusal, Number.POSITIVE_INFINITY);
  }

  /** Forgets the reason for a key, because a later response is being stored. */
  forget(key: string): void {
    this.#byKey.delete(key);
  }

  /** Returns the last reason for a key; undefined where there is none, or a later response was stored. */
  last(key: string): NotStoredReason | undefined {
    return this.#byKey.get(key, 0);
  }
}
