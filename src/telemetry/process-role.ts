/** What a process is among those of its server. */

/** One by itself, or one of several. */
export type ProcessRole =
  | { readonly kind: 'alone' }
  | { readonly kind: 'supervisor' }
  | { readonly kind: 'worker'; readonly id: number };
