/** What one of several processes that share a store tells the others of it. */

/**
 * A change that is done already: what is stored under keys is another now; all with a tag or with a prefix of their keys
 * were removed; generations were removed, or replaced; such were removed that the index could not be told to forget yet;
 * the index was damaged and begins afresh. Or what is about to be done: entries leave, because others need their room. Or
 * what has become of others: they have died.
 */
export type StoreChange =
  | { readonly kind: 'keys'; readonly keys: readonly string[] }
  | { readonly kind: 'tag'; readonly tag: string }
  | { readonly kind: 'prefix'; readonly prefix: string }
  | { readonly kind: 'generations'; readonly generations: readonly string[] }
  | { readonly kind: 'lost'; readonly generations: readonly string[] }
  | { readonly kind: 'fresh' }
  | { readonly kind: 'evicting' }
  | { readonly kind: 'fallen'; readonly instances: readonly string[] };

/** Tells the others. Resolves when each of them that lives has heeded it (`Store.heed`); never rejects. */
export type TellChange = (change: StoreChange) => Promise<void>;
