/**
 * Several processes that share a store, as the cache of one of them sees the others: who may exchange with the origin for a
 * key, what is on its way there, and what has become invalid.
 */

import type { StoreChange } from '../store/store-change.ts';
import type { Answer } from './answer.ts';
import type { Inquiry } from './inquiry.ts';

/** The right to fill or revalidate one key, until it is given back. One process at a time has it. */
export interface Lease {
  release(): void;
}

/** Another process that has the lease of a key. */
export interface Holder {
  /**
   * What a request gets of it: a representation, whose bytes come as they arrive there, or a response for this request
   * alone. When that process dies, what is being read goes on from elsewhere, or breaks off where it cannot. Undefined when
   * it turns out to have nothing for this request: then the lease is to be asked for again. Rejects with `ProxyError`.
   */
  answer(inquiry: Inquiry): Promise<Answer | undefined>;
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
    };

/** The other processes. */
export interface Fleet {
  /** In the same tick where there are no others. A lease may be asked for that this process has already. */
  acquire(key: string, signal: AbortSignal): Right | Promise<Right>;
  /** Tells all others. Resolves when each of them that lives has heeded it; never rejects. */
  tell(news: News): Promise<void>;
}

const freeLease: Lease = { release: () => undefined };
const ours: Right = { kind: 'ours', lease: freeLease };

/** A process that shares its store with no other. */
export const noFleet: Fleet = { acquire: () => ours, tell: async () => undefined };
