/** What processes that share a store in a test say to the one that started them, and it to them. */

import type { StoreChange } from '../../../src/store/store.ts';

/** What goes to the program. */
export type ToSharing =
  | { readonly kind: 'heed'; readonly id: number; readonly change: StoreChange }
  | { readonly kind: 'told'; readonly id: number }
  | { readonly kind: 'end' };

/** What comes from it. */
export type FromSharing =
  | { readonly kind: 'ready' }
  | { readonly kind: 'tell'; readonly id: number; readonly change: StoreChange }
  | { readonly kind: 'heeded'; readonly id: number }
  | {
      readonly kind: 'ended';
      readonly steps: number;
      readonly faults: Record<string, number>;
      readonly wrong: string[];
    };

/** The size of their store and of its blocks, in bytes. */
export const sharedSizeBytes = 3 * 1024 * 1024;
export const sharedBlockBytes = 16 * 1024;
