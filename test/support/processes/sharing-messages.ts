/** Messages between the test process and the processes that share a store. */

import type { StoreChange } from '../../../src/store/store.ts';

/** A message to a sharing process. */
export type ToSharing =
  | { readonly kind: 'apply'; readonly id: number; readonly change: StoreChange }
  | { readonly kind: 'told'; readonly id: number }
  | { readonly kind: 'end' };

/** A message from a sharing process. */
export type FromSharing =
  | { readonly kind: 'ready' }
  | { readonly kind: 'tell'; readonly id: number; readonly change: StoreChange }
  | { readonly kind: 'applied'; readonly id: number }
  | { readonly kind: 'stepped'; readonly steps: number }
  | {
      readonly kind: 'ended';
      readonly steps: number;
      readonly faults: Record<string, number>;
      readonly wrong: string[];
    };

/** The sizes of the shared store and of its blocks, in bytes. */
export const sharedSizeBytes = 3 * 1024 * 1024;
export const sharedBlockBytes = 16 * 1024;
