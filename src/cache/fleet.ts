/**
 * The processes that share a store, as the cache of one of them sees the others: leases decide which process may exchange with
 * the origin for a key, the holder answers for the others, and invalidation messages reach all. `src/fleet` implements this
 * over sockets. A version names the bytes that a reader has got, so that another process can continue with the same bytes.
 */

import type { StoredResponse } from '../http/stored-response.ts';
import { effectiveEntityTag, parseEntityTag, strongValidator } from '../semantics/validator.ts';
import type { StoreChange } from '../store/store.ts';
import { redact } from '../telemetry/redact.ts';
import type { Answer, Representation } from './answer.ts';
import type { Inquiry } from './inquiry.ts';
import type { NotStoredReason, PassReason } from './lookup/hit-for-pass.ts';

/**
 * The right to fill or revalidate one key, until it is released. One process at a time has it. That process may take it several
 * times; the last `release` gives it back. A second `release` of the same object does nothing.
 */
export interface Lease {
  release(): void;
}

/** The answer of the holder of a lease to a request of another process. */
export interface PeerAnswer {
  /** Undefined where the request must go to the origin by itself: the responses of the key are not shared. */
  readonly answer: Answer | undefined;
  /** What the holder has learnt about the key. */
  readonly unshared: PassReason | undefined;
  readonly refusal: NotStoredReason | undefined;
}

/** Another process that holds the lease of a key. */
export interface Holder {
  /**
   * Answers a request: with a representation, whose bytes come as they arrive at the holder, or with a response for this request
   * alone. Undefined when the process does not hold the lease, or serves another configuration: the caller must acquire the lease
   * again. `version` names the version that the client already has a part of. Rejects with `ProxyError`, or with `HolderLost`
   * when the process cannot be reached. Every later call on the answer may reject with `HolderLost` too.
   */
  answer(inquiry: Inquiry, version?: Version): Promise<PeerAnswer | undefined>;
}

/** The holder has died, or does not react: the bytes must come from elsewhere. */
export class HolderLost extends Error {
  readonly holder: Holder;

  constructor(holder: Holder) {
    super('The process that has the lease cannot be reached.');
    this.name = 'HolderLost';
    this.holder = holder;
  }
}

/** The result of acquiring a lease: this process may exchange with the origin for the key, or the holder answers. */
export type LeaseResult =
  | { readonly kind: 'ours'; readonly lease: Lease }
  | { readonly kind: 'theirs'; readonly holder: Holder };

/** A message that the caches of all processes apply at once. */
export type InvalidationMessage =
  | { readonly kind: 'store'; readonly change: StoreChange }
  /** Flights of these keys and tags must neither be stored nor joined. The sender removes the stored entries. */
  | {
      readonly kind: 'invalidated';
      readonly keys: readonly string[];
      readonly prefixes: readonly string[];
      readonly tags: readonly string[];
      readonly patterns?: readonly KeyPattern[] | undefined;
      /**
       * Set where stored entries are expired instead of removed, in epoch milliseconds: flights go on and are stored, but their
       * responses are validated before later requests get them.
       */
      readonly expiredAt?: number | undefined;
    };

/** The other processes that share the store. */
export interface Fleet {
  /**
   * Acquires the lease, or returns its holder; in the same tick where there are no other processes, or this one already has the
   * lease. `lost` is the holder that could not be reached. Rejects with the signal's reason, or when the supervisor that keeps
   * the leases cannot be asked.
   */
  acquire(key: string, signal: AbortSignal, lost?: Holder): LeaseResult | Promise<LeaseResult>;
  /**
   * Takes the lease once more where this process has it; undefined where it does not. A promise while this process is asking
   * for it, because other processes may already know that it was granted.
   */
  hold(key: string): Lease | undefined | Promise<Lease | undefined>;
  /**
   * Sends a message to all other processes. Resolves when none of them answers any more with what it makes invalid. Rejects with
   * `StoreFault` where one may: it applies the message later.
   */
  announce(news: InvalidationMessage): Promise<void>;
  /** Whether unsafe requests are to be refused now, because the others could not be told. Absent where they never are. */
  refusesUnsafe?(): boolean;
}

const freeLease: Lease = { release: () => undefined };
const ours: LeaseResult = { kind: 'ours', lease: freeLease };

/** The fleet of a process that shares its store with no other. */
export const noFleet: Fleet = { acquire: () => ours, hold: () => freeLease, announce: async () => undefined };

/** Identifies the bytes of a representation. Plain data. */
export interface Version {
  /** The name of the generation in the store, where there is one. */
  readonly generation: string | undefined;
  /** Strong validator, Rangeway's or the origin's; undefined for any status but 200: a 206 has the validator of its whole. */
  readonly validator: string | undefined;
  /** Length of the whole, where it is known. */
  readonly sizeBytes: number | undefined;
}

/** Returns the version of a representation; `now` is in epoch milliseconds. */
export function representationVersion({ response, sizeBytes, generation }: Versioned, now: number): Version {
  return { generation, validator: response.status === 200 ? validatorOf(response, now) : undefined, sizeBytes };
}

function validatorOf(response: StoredResponse, now: number): string | undefined {
  const tag = effectiveEntityTag(response);
  const isStrong = tag !== undefined && parseEntityTag(tag)?.kind === 'strong';
  return isStrong ? tag : strongValidator(response, now);
}

/** The parts of a representation that its version is made from. */
export type Versioned = Pick<Representation, 'response' | 'sizeBytes' | 'generation'>;

/**
 * Checks whether two versions are the same bytes: they have the same generation, or the same strong validator (RFC 9110 §8.8.1)
 * and no different lengths.
 */
export function isSameVersion(a: Version, b: Version): boolean {
  if (a.generation !== undefined && a.generation === b.generation) return true;
  return a.validator !== undefined && a.validator === b.validator && !hasOtherLength(a, b);
}

/** Checks whether two versions have known and different lengths, so that they cannot be the same bytes. */
export function hasOtherLength(a: Version, b: Version): boolean {
  return a.sizeBytes !== undefined && b.sizeBytes !== undefined && a.sizeBytes !== b.sizeBytes;
}

/**
 * The keys of one path under any authority. They begin with `start`, which ends before the authority. From the first slash after
 * `start`, they continue with `rest`.
 */
export interface KeyPattern {
  readonly start: string;
  readonly rest: string;
  /** Whether more may follow `rest`. */
  readonly isPrefix: boolean;
  /** In place of `rest`: the keys that begin with `start` and look like this once secrets are redacted. */
  readonly redacted?: string | undefined;
}

/** Checks whether a key matches a pattern. */
export function hasPattern(key: string, { start, rest, isPrefix, redacted }: KeyPattern): boolean {
  if (!key.startsWith(start)) return false;
  if (redacted !== undefined) {
    const shown = redact(key);
    return shown === redacted || shown.startsWith(`${redacted}#`);
  }
  const at = key.indexOf('/', start.length);
  const end = at + rest.length;
  // After `#` follows another spelling of the same path (see `targetKeys`).
  return at >= 0 && key.startsWith(rest, at) && (isPrefix || key.length === end || key[end] === '#');
}
