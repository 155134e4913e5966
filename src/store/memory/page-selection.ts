/** Selects the next page of entries from those that a memory store has in no order. */

import { formatCursor, parseCursor } from '../entry-page.ts';
import type { EntryPage, StoredEntry } from '../store.ts';

type Place = readonly [key: string, variant: string, generation: string];

/** The first entries after a place, in the order of their keys, variants and generations; never keeps many more than those. */
export class PageSelection {
  readonly #limit: number;
  readonly #after: Place | undefined;
  #entries: StoredEntry[] = [];
  #hasMore = false;

  /** Throws `RangeError` when the place is none that was told. */
  constructor(limit: number, after: string | undefined) {
    this.#limit = limit;
    this.#after = after === undefined ? undefined : parseCursor<Place>(after, ['', '', '']);
  }

  /** Takes another one into account. */
  add(entry: StoredEntry): void {
    if (this.#after !== undefined && comparePlaces(placeOf(entry), this.#after) <= 0) return;
    this.#entries.push(entry);
    if (this.#entries.length > 2 * this.#limit) this.#cut();
  }

  /** The page, when all have been taken into account. */
  end(): EntryPage {
    this.#cut();
    const last = this.#entries.at(-1);
    const next = this.#hasMore && last !== undefined ? formatCursor(placeOf(last)) : undefined;
    return { entries: this.#entries, next };
  }

  #cut(): void {
    const sorted = this.#entries.sort((a, b) => comparePlaces(placeOf(a), placeOf(b)));
    if (sorted.length > this.#limit) this.#hasMore = true;
    this.#entries = sorted.slice(0, this.#limit);
  }
}

function placeOf({ key, variant, generation }: StoredEntry): Place {
  return [key, variant, generation];
}

/** By code units, part by part. */
function comparePlaces(a: Place, b: Place): number {
  for (const [at, part] of a.entries()) {
    const other = b[at] ?? '';
    if (part !== other) return part < other ? -1 : 1;
  }
  return 0;
}
