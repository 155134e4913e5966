/**
 * Several processes that share a store, as the cache of one of them sees the others: which may exchange with the origin for a
 * key (the lease), what it answers for the others, and which invalidations all of them have to apply. `src/fleet`
 * implements this over sockets. A version names the bytes that a reader was given, so that another process can go on with them.
 */

import type { StoredResponse } from '../http/stored-response.ts';
import { effectiveEntityTag, parseEntityTag, strongValidator } from '../semantics/validator.ts';
import type { StoreChange } from '../store/store.ts';
import type { Answer, Representation } from './answer.ts';
import type { Inquiry } from './inquiry.ts';
import type { NotStoredReason, PassReason } from './lookup/hit-for-pass.ts';

/**
 * The right to fill or revalidate one key, until it is given back. One process at a time has it, and may have it many times
 * over; it is given back with the last of them. A second `release` does nothing.
 */
export interface Lease {
  release(): void;
}

/** What the process that has a lease says to a request of another one. */
export interface PeerAnswer {
  /** Undefined where the request is to go its own way: what comes for the others is nothing for it. */
  readonly answer: Answer | undefined;
  /** What has turned out about the key there. */
  readonly unshared: PassReason | undefined;
  readonly refusal: NotStoredReason | undefined;
}

/** Another process that has the lease of a key. */
export interface Holder {
  /**
   * What a request gets of it: a representation, whose bytes come as they arrive there, or a response for this request
   * alone. Undefined when it turns out not to have the lease, or to serve by other rules: then the lease is to be asked for
   * again. `version` is what the request has been given a part of already. Rejects with `ProxyError`, or with `HolderLost`,
   * as everything does that has to do with what it has answered, once that process cannot be reached any more.
   */
  answer(inquiry: Inquiry, version?: Version): Promise<PeerAnswer | undefined>;
}

/** The process that was asked has died, or does not react: what it was to bring has to come from elsewhere. */
export class HolderLost extends Error {
  readonly holder: Holder;

  constructor(holder: Holder) {
    super('The process that has the lease cannot be reached.');
    this.name = 'HolderLost';
    this.holder = holder;
  }
}

/** Who may exchange with the origin for a key. */
export type Right =
  | { readonly kind: 'ours'; readonly lease: Lease }
  | { readonly kind: 'theirs'; readonly holder: Holder };

/** What the caches of all processes have to know at once. */
export type InvalidationMessage =
  | { readonly kind: 'store'; readonly change: StoreChange }
  /** What is running for these is not to be stored or joined; what is stored has been seen to. */
  | {
      readonly kind: 'invalidated';
      readonly keys: readonly string[];
      readonly prefixes: readonly string[];
      readonly tags: readonly string[];
      readonly patterns?: readonly KeyPattern[] | undefined;
      /**
       * Set where what is stored has not been removed but expired, in epoch milliseconds: what is running for it stays, and
       * is validated before it is given to those who come later.
       */
      readonly expiredAt?: number | undefined;
    };

/** The other processes. */
export interface Fleet {
  /**
   * In the same tick where there are no others, and where this process has the lease already. `lost` is who had it and
   * cannot be reached. Rejects with the signal's reason, or where nobody can tell who has it.
   */
  acquire(key: string, signal: AbortSignal, lost?: Holder): Right | Promise<Right>;
  /**
   * The lease once more, where this process has it; undefined where it has not. A promise while it asks for it, because
   * others may know already that it has got it.
   */
  hold(key: string): Lease | undefined | Promise<Lease | undefined>;
  /** Tells all others. Resolves when each of them that lives has heeded it; never rejects. */
  tell(news: InvalidationMessage): Promise<void>;
}

const freeLease: Lease = { release: () => undefined };
const ours: Right = { kind: 'ours', lease: freeLease };

/** A process that shares its store with no other. */
export const noFleet: Fleet = { acquire: () => ours, hold: () => freeLease, tell: async () => undefined };

/** Names the bytes of a representation. Plain data. */
export interface Version {
  /** Its name in the store, where it has one. */
  readonly generation: string | undefined;
  /** The strong validator that it has, ours or the origin's; undefined for a part, which is named like its whole. */
  readonly validator: string | undefined;
  /** The length of the whole, where it is known. */
  readonly sizeBytes: number | undefined;
}

/** The version of a representation as it is known now. */
export function representationVersion({ response, sizeBytes, generation }: Versioned, now: number): Version {
  return { generation, validator: response.status === 200 ? validatorOf(response, now) : undefined, sizeBytes };
}

function validatorOf(response: StoredResponse, now: number): string | undefined {
  const tag = effectiveEntityTag(response);
  const isStrong = tag !== undefined && parseEntityTag(tag)?.kind === 'strong';
  return isStrong ? tag : strongValidator(response, now);
}

/** What a version is told by. */
export type Versioned = Pick<Representation, 'response' | 'sizeBytes' | 'generation'>;

/**
 * Whether two versions are the same bytes: one generation, or two that the same strong validator names (RFC 9110 §8.8.1), and
 * whose lengths do not say the contrary.
 */
export function isSameVersion(a: Version, b: Version): boolean {
  if (a.generation !== undefined && a.generation === b.generation) return true;
  return a.validator !== undefined && a.validator === b.validator && !hasOtherLength(a, b);
}

/** Whether two versions cannot be the same bytes, for there are more of one. */
export function hasOtherLength(a: Version, b: Version): boolean {
  return a.sizeBytes !== undefined && b.sizeBytes !== undefined && a.sizeBytes !== b.sizeBytes;
}

/**
 * Keys of one path, whatever the authority: they begin with `start`, which ends before the authority, and have `rest` from the
 * first slash after it on.
 */
export interface KeyPattern {
  readonly start: string;
  readonly rest: string;
  /** Whether more may follow after `rest`. */
  readonly isPrefix: boolean;
}

/** Whether a key is one of a pattern. */
export function hasPattern(key: string, { start, rest, isPrefix }: KeyPattern): boolean {
  if (!key.startsWith(start)) return false;
  const at = key.indexOf('/', start.length);
  const end = at + rest.length;
  // Behind `#` stands another spelling of the same path (see `targetKeys`).
  return at >= 0 && key.startsWith(rest, at) && (isPrefix || key.length === end || key[end] === '#');
}
