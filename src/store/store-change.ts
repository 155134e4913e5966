/** What one of several processes that share a store tells the others of it. */

/**
 * A change that is done already: what is stored under keys is another now; generations were removed, or replaced; the
 * index was damaged and begins afresh.
 */
export type StoreChange =
  | { readonly kind: 'keys'; readonly keys: readonly string[] }
  | { readonly kind: 'generations'; readonly generations: readonly string[] }
  | { readonly kind: 'fresh' };

/** Tells the others. Resolves when each of them that lives has heeded it (`Store.heed`); never rejects. */
export type TellChange = (change: StoreChange) => Promise<void>;
