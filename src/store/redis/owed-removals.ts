/**
 * Removals that the engine could not take. They are tried again until they are done; meanwhile the store finds nothing, because it might
 * find what was to be removed.
 */

import type { Clock } from '../../http/clock.ts';

/** What is to be removed. */
export type Removal =
  | { readonly kind: 'generation'; readonly key: string; readonly generation: string }
  | { readonly kind: 'key'; readonly key: string }
  | { readonly kind: 'tag'; readonly tag: string }
  | { readonly kind: 'prefix'; readonly prefix: string };

/** Number of removals that are kept. More become one that removes everything. */
const MAX_OWED = 1000;
/** Interval of the attempts, in milliseconds. */
const RETRY_MS = 250;

/** Options of the owed removals. */
export interface OwedRemovalsOptions {
  readonly clock: Clock;
  /** Removes; rejects where the engine cannot take it. */
  readonly remove: (removal: Removal) => Promise<void>;
}

/** The removals that one process owes to the engine. */
export class OwedRemovals {
  readonly #options: OwedRemovalsOptions;
  readonly #owed = new Map<string, Removal>();
  #cancelTry: () => void = () => {};
  #isTrying = false;
  #isClosed = false;

  constructor(options: OwedRemovalsOptions) {
    this.#options = options;
  }

  /** Whether a removal has not been done yet. */
  get isOwing(): boolean {
    return this.#owed.size > 0;
  }

  /** Notes a removal. */
  add(removal: Removal): void {
    if (this.#owed.size >= MAX_OWED) {
      this.#owed.clear();
      this.#note({ kind: 'prefix', prefix: '' });
    } else this.#note(removal);
    this.#schedule();
  }

  /** Gives all up. */
  close(): void {
    this.#isClosed = true;
    this.#cancelTry();
  }

  #note(removal: Removal): void {
    this.#owed.set(JSON.stringify(removal), removal);
  }

  #schedule(): void {
    if (this.#isTrying || this.#isClosed || !this.isOwing) return;
    this.#isTrying = true;
    this.#cancelTry = this.#options.clock.after(RETRY_MS, () => void this.#try());
  }

  async #try(): Promise<void> {
    try {
      for (const [name, removal] of [...this.#owed]) {
        if (this.#isClosed) return;
        await this.#options.remove(removal);
        // It may have been noted again meanwhile.
        if (this.#owed.get(name) === removal) this.#owed.delete(name);
      }
    } catch {
      // The engine still takes nothing.
    } finally {
      this.#isTrying = false;
      this.#schedule();
    }
  }
}
