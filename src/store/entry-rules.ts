/**
 * Rules that every store applies: which blocks fit into a generation that is being written, which generations of a key can be
 * found, and how the cursor of an entry list is encoded. Pins are earlier generations that stay findable for clients that resume.
 */

import { spanOfBlock, spanSize } from '../bytes/span.ts';
import { StoreFault } from './store.ts';

/** Options of a block plan. */
interface BlockPlanOptions {
  readonly blockSizeBytes: number;
  readonly maxEntryBytes: number;
  /** Length of the whole body in bytes; undefined while it is unknown. */
  readonly sizeBytes: number | undefined;
}

/** Checks the size and place of blocks. It does not know which blocks are present. */
export class BlockPlan {
  readonly #blockSizeBytes: number;
  readonly #maxEntryBytes: number;
  #sizeBytes: number | undefined;
  /** Bytes added in order, as long as the length is unknown. */
  #addedBytes = 0;

  /** Throws `StoreFault` `too_large` when the known length is more than `maxEntryBytes`. */
  constructor({ blockSizeBytes, maxEntryBytes, sizeBytes }: BlockPlanOptions) {
    this.#blockSizeBytes = blockSizeBytes;
    this.#maxEntryBytes = maxEntryBytes;
    this.#sizeBytes = sizeBytes;
    this.#checkSize(sizeBytes ?? 0);
  }

  /** Length of the whole body in bytes; undefined while it is unknown. */
  get sizeBytes(): number | undefined {
    return this.#sizeBytes;
  }

  /** Returns the length of the whole body, or, while it is unknown, the least length that it has with this block, in bytes. */
  extentWith(index: number, sizeBytes: number): number {
    return this.#sizeBytes ?? Math.max(this.#addedBytes, index * this.#blockSizeBytes + sizeBytes);
  }

  /**
   * Throws `RangeError` for a block of the wrong size or in the wrong place, `StoreFault` `too_large` for one that exceeds
   * `maxEntryBytes`.
   */
  check(index: number, sizeBytes: number): void {
    if (sizeBytes < 1 || sizeBytes !== this.#sizeFitting(index, sizeBytes)) {
      const whole = this.#sizeBytes === undefined ? `${this.#addedBytes} bytes so far` : `${this.#sizeBytes} bytes`;
      throw new RangeError(`Block ${index} of ${sizeBytes} bytes does not fit into ${whole}.`);
    }
    this.#checkSize(this.extentWith(index, sizeBytes));
  }

  /** Counts a block that was added. */
  add(index: number, sizeBytes: number): void {
    if (this.#sizeBytes === undefined) this.#addedBytes = this.extentWith(index, sizeBytes);
  }

  /**
   * Sets the length of a body of unknown length; returns its number of blocks. Throws `RangeError` when the length is not that of
   * the body.
   */
  end(sizeBytes: number): number {
    if (sizeBytes !== (this.#sizeBytes ?? this.#addedBytes)) {
      throw new RangeError(`Length ${sizeBytes} bytes, but the body has ${this.#sizeBytes ?? this.#addedBytes}.`);
    }
    this.#sizeBytes = sizeBytes;
    return Math.ceil(sizeBytes / this.#blockSizeBytes);
  }

  /**
   * Returns the size that a block must have; 0 or less where no block fits. The next block of a body of unknown length may be
   * short, because it may be the last one.
   */
  #sizeFitting(index: number, sizeBytes: number): number {
    if (!Number.isSafeInteger(index) || index < 0) return 0;
    const isNext = index * this.#blockSizeBytes === this.#addedBytes;
    if (this.#sizeBytes === undefined && isNext) return Math.min(sizeBytes, this.#blockSizeBytes);
    return spanSize(spanOfBlock(index, this.#blockSizeBytes, this.#sizeBytes ?? this.#addedBytes));
  }

  #checkSize(sizeBytes: number): void {
    if (sizeBytes > this.#maxEntryBytes) {
      throw new StoreFault('too_large', `A body of ${sizeBytes} bytes; this store takes up to ${this.#maxEntryBytes}.`);
    }
  }
}

/** Maximum number of pinned generations of one key and variant; the oldest is removed first. */
export const maxPins = 4;

/** `pinnedUntil`: epoch milliseconds until which a generation is pinned; undefined for a current one. */
interface Pinnable {
  readonly pinnedUntil: number | undefined;
}

/** Returns the generations that can be found: current ones, then pinned ones whose time is not over. */
export function findable<T extends Pinnable>(generations: readonly T[], now: () => number): readonly T[] {
  if (generations.every((each) => each.pinnedUntil === undefined)) return generations;
  const at = now();
  const current = generations.filter((each) => each.pinnedUntil === undefined);
  return [...current, ...generations.filter(({ pinnedUntil }) => pinnedUntil !== undefined && pinnedUntil > at)];
}

/** Returns the time until which a complete generation is pinned, in whole epoch milliseconds; undefined where it is not to be pinned. */
export function pinInstant(pinPreviousUntil: number | undefined, now: () => number): number | undefined {
  if (pinPreviousUntil === undefined || !(pinPreviousUntil > now())) return undefined;
  return Math.min(Math.ceil(pinPreviousUntil), Number.MAX_SAFE_INTEGER);
}

/** A position in a list: the values by which the list is ordered. */
type ListPlace = readonly (string | number)[];

/**
 * Checks whether a key begins with a prefix, code unit by code unit. A prefix with half of a character (a lone surrogate) begins
 * no key, because keys consist of whole characters. Every store can apply this rule.
 */
export function isPrefixOf(prefix: string, key: string): boolean {
  return prefix.isWellFormed() && key.startsWith(prefix);
}

/** Encodes a position as a cursor of letters, digits, `-` and `_`. */
export function formatCursor(place: ListPlace): string {
  return Buffer.from(JSON.stringify(place)).toString('base64url');
}

/** Decodes a cursor. Each part must have the type of the same part of `like`. Throws `RangeError` for any other text. */
export function parseCursor<Place extends ListPlace>(text: string, like: Place): Place {
  const place = parseJson(Buffer.from(text, 'base64url').toString());
  const isPlace =
    Array.isArray(place) && place.length === like.length && place.every((part, at) => typeof part === typeof like[at]);
  if (!isPlace) throw new RangeError('This is not a valid cursor of the list of entries.');
  return place as unknown as Place;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
