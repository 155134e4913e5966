/**
 * Several processes that share a store, as the cache of one of them sees the others: who may exchange with the origin for a
 * key, what is on its way there, and what has become invalid.
 */

import type { StoreChange } from '../store/store-change.ts';
import type { Answer } from './answer.ts';
import type { Inquiry } from './inquiry.ts';
import type { KeyPattern } from './key-pattern.ts';
import type { Refusal } from './refusals.ts';
import type { Unshared } from './unshared-keys.ts';
import type { Version } from './version.ts';

/**
 * The right to fill or revalidate one key, until it is given back. One process at a time has it, and may have it many times
 * over; it is given back with the last of them. A second `release` does nothing.
 */
export interface Lease {
  release(): void;
}

/** What the process that has a lease says to a request of another one. */
export interface HeldAnswer {
  /** Undefined where the request is to go its own way: what comes for the others is nothing for it. */
  readonly answer: Answer | undefined;
  /** What has turned out about the key there. */
  readonly unshared: Unshared | undefined;
  readonly refusal: Refusal | undefined;
}

/** Another process that has the lease of a key. */
export interface Holder {
  /**
   * What a request gets of it: a representation, whose bytes come as they arrive there, or a response for this request
   * alone. Undefined when it turns out not to have the lease, or to serve by other rules: then the lease is to be asked for
   * again. `version` is what the request has been given a part of already. Rejects with `ProxyError`, or with `HolderLost`,
   * as everything does that has to do with what it has answered, once that process cannot be reached any more.
   */
  answer(inquiry: Inquiry, version?: Version): Promise<HeldAnswer | undefined>;
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
export type News =
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
  tell(news: News): Promise<void>;
}

const freeLease: Lease = { release: () => undefined };
const ours: Right = { kind: 'ours', lease: freeLease };

/** A process that shares its store with no other. */
export const noFleet: Fleet = { acquire: () => ours, hold: () => freeLease, tell: async () => undefined };
