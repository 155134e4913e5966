/**
 * Rules that every store applies: which blocks fit into a generation that is being written, which generations of a key are
 * found (pins: earlier generations that stay findable for clients that resume), and where a page of a list of entries begins.
 */

import { spanOfBlock, spanSize } from '../bytes/span.ts';
import { StoreFault } from './store.ts';

/** What a plan is made with. */
interface BlockPlanOptions {
  readonly blockSizeBytes: number;
  readonly maxEntryBytes: number;
  /** The length of the whole, where it is known beforehand. */
  readonly sizeBytes: number | undefined;
}

/** Tells which blocks fit. Which of them are there, somebody else knows. */
export class BlockPlan {
  readonly #blockSizeBytes: number;
  readonly #maxEntryBytes: number;
  #sizeBytes: number | undefined;
  /** What was added in order, as long as the length is not known. */
  #addedBytes = 0;

  /** Throws `StoreFault` `too_large` when the length is known to be more than the store takes. */
  constructor({ blockSizeBytes, maxEntryBytes, sizeBytes }: BlockPlanOptions) {
    this.#blockSizeBytes = blockSizeBytes;
    this.#maxEntryBytes = maxEntryBytes;
    this.#sizeBytes = sizeBytes;
    this.#checkSize(sizeBytes ?? 0);
  }

  /** The length of the whole, in bytes; undefined as long as it is not known. */
  get sizeBytes(): number | undefined {
    return this.#sizeBytes;
  }

  /** How long the whole is with a block that is about to be added, as far as it is known. */
  extentWith(index: number, sizeBytes: number): number {
    return this.#sizeBytes ?? Math.max(this.#addedBytes, index * this.#blockSizeBytes + sizeBytes);
  }

  /** Throws `RangeError` for a block that is out of place, `StoreFault` `too_large` for one too many. */
  check(index: number, sizeBytes: number): void {
    if (sizeBytes < 1 || sizeBytes !== this.#sizeFitting(index, sizeBytes)) {
      const whole = this.#sizeBytes === undefined ? `${this.#addedBytes} bytes so far` : `${this.#sizeBytes} bytes`;
      throw new RangeError(`Block ${index} of ${sizeBytes} bytes does not fit into ${whole}.`);
    }
    this.#checkSize(this.extentWith(index, sizeBytes));
  }

  /** Notes that a block was added. */
  add(index: number, sizeBytes: number): void {
    if (this.#sizeBytes === undefined) this.#addedBytes = this.extentWith(index, sizeBytes);
  }

  /** Ends what had no known length; tells how many blocks the whole has. Throws `RangeError` for another length. */
  end(sizeBytes: number): number {
    if (sizeBytes !== (this.#sizeBytes ?? this.#addedBytes)) {
      throw new RangeError(`An end after ${sizeBytes} bytes, but there are ${this.#sizeBytes ?? this.#addedBytes}.`);
    }
    this.#sizeBytes = sizeBytes;
    return Math.ceil(sizeBytes / this.#blockSizeBytes);
  }

  /** How long a block of this index must be; one that is the next to be added may be short, for it may be the last. */
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

/** So many pinned generations of one key and variant are kept; the oldest goes first. */
export const maxPins = 4;

/** What may be pinned: until when, in epoch milliseconds, or undefined when it is current. */
interface Pinnable {
  readonly pinnedUntil: number | undefined;
}

/** What is found of these: those that are current, then those that are pinned and still in time. */
export function findable<T extends Pinnable>(kept: readonly T[], now: () => number): readonly T[] {
  if (kept.every((each) => each.pinnedUntil === undefined)) return kept;
  const at = now();
  const current = kept.filter((each) => each.pinnedUntil === undefined);
  return [...current, ...kept.filter(({ pinnedUntil }) => pinnedUntil !== undefined && pinnedUntil > at)];
}

/** Until when a complete generation is to be pinned: a whole number of milliseconds, or undefined for not at all. */
export function pinInstant(pinPreviousUntil: number | undefined, now: () => number): number | undefined {
  if (pinPreviousUntil === undefined || !(pinPreviousUntil > now())) return undefined;
  return Math.min(Math.ceil(pinPreviousUntil), Number.MAX_SAFE_INTEGER);
}

/** A place in a list, as the parts by which the list is ordered. */
type ListPlace = readonly (string | number)[];

/**
 * Whether a key begins with a text, code unit by code unit. Keys are whole characters, so that half of one (a lone
 * surrogate) begins none, which every store can tell alike.
 */
export function isPrefixOf(prefix: string, key: string): boolean {
  return prefix.isWellFormed() && key.startsWith(prefix);
}

/** A place as a text for those who ask for pages, of letters, digits, `-` and `_`. */
export function formatCursor(place: ListPlace): string {
  return Buffer.from(JSON.stringify(place)).toString('base64url');
}

/** The place of such a text, of which each part has the type that is told. Throws `RangeError` for any other text. */
export function parseCursor<Place extends ListPlace>(text: string, like: Place): Place {
  const place = parseJson(Buffer.from(text, 'base64url').toString());
  const isPlace =
    Array.isArray(place) && place.length === like.length && place.every((part, at) => typeof part === typeof like[at]);
  if (!isPlace) throw new RangeError('This is no place in the list of entries.');
  return place as unknown as Place;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
