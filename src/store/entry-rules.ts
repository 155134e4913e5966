/**
 * Rules that every store applies: which blocks fit into a generation that is being written, which generations of a key can be
 * found, how the cursor of an entry list is encoded, and how a ranked list is ordered. Pins are earlier generations that stay findable for clients that resume.
 */

import { spanOfBlock, spanSize } from '../bytes/span.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { type EntryChoice, type EntryOrder, type EntryRank, StoreFault } from './store.ts';

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

/** Checks whether a key has a text after its first space. The case of ASCII letters does not matter; `text` is in lower case. */
export function hasText(key: string, text: string): boolean {
  if (text === '') return true;
  const space = key.indexOf(' ');
  return space >= 0 && lowerCase(key.slice(space + 1)).includes(text);
}

/** Converts ASCII letters to lower case, and no others: SQLite does the same. */
export function lowerCase(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** Checks whether an entry is chosen. */
export function isChosenBy(
  choice: EntryChoice,
  { key, metadata }: { readonly key: string; readonly metadata: { readonly tags?: readonly string[] } },
): boolean {
  return choice.kind === 'tag' ? metadata.tags?.includes(choice.tag) === true : isPrefixOf(choice.prefix, key);
}

/**
 * Whether the ranks of an order go down. A rank by age is the time of the response, so that the youngest response has the highest
 * rank.
 */
export function hasFallingRanks({ by, isDescending }: Pick<EntryOrder, 'by' | 'isDescending'>): boolean {
  return by === 'age' ? !isDescending : isDescending;
}

/** Compares places of a ranked list: negative where `one` comes first. Texts are compared by code points, as SQLite does. */
export function compareRanks(one: EntryRank, other: EntryRank, isFalling: boolean): number {
  const difference = compareValues(one.rank, other.rank) || compareNames(one.generation, other.generation);
  return isFalling ? -difference : difference;
}

function compareValues(one: number | string, other: number | string): number {
  if (one === other) return 0;
  if (typeof one === 'string' && typeof other === 'string') return compareTexts(one, other);
  // Numbers come before texts; a place of another order gives some place of this one.
  if (typeof one === 'number' && typeof other === 'number') return one < other ? -1 : 1;
  return typeof one === 'number' ? -1 : 1;
}

/** Compares generations, which are ASCII. */
function compareNames(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

function compareTexts(one: string, other: string): number {
  const length = Math.min(one.length, other.length);
  for (let at = 0; at < length; at += 1) {
    const unit = one.charCodeAt(at);
    const otherUnit = other.charCodeAt(at);
    if (unit !== otherUnit) return inCodePointOrder(unit) - inCodePointOrder(otherUnit);
  }
  return one.length - other.length;
}

/** Surrogates stand for code points beyond all others. */
function inCodePointOrder(unit: number): number {
  if (unit >= 0xe000) return unit - 0x800;
  return unit >= 0xd800 ? unit + 0x2000 : unit;
}

/** Selects the first places after a place. Keeps at most about twice `limit` of them. */
export class RankSelection<Place extends EntryRank> {
  readonly #limit: number;
  readonly #after: EntryRank | undefined;
  readonly #isFalling: boolean;
  #places: Place[] = [];
  /** The last place that can be selected, where there are enough before it. */
  #bound: EntryRank | undefined;
  #hasMore = false;

  constructor(limit: number, after: EntryRank | undefined, isFalling: boolean) {
    this.#limit = limit;
    this.#after = after;
    this.#isFalling = isFalling;
  }

  /** Considers a place. */
  add(place: Place): void {
    if (this.#after !== undefined && compareRanks(place, this.#after, this.#isFalling) <= 0) return;
    if (this.#bound !== undefined && compareRanks(place, this.#bound, this.#isFalling) > 0) {
      this.#hasMore = true;
      return;
    }
    this.#places.push(place);
    if (this.#places.length > 2 * this.#limit) this.#cut();
  }

  /** Returns the selected places in their order, and the last one where there are more after it. */
  end(): { readonly places: readonly Place[]; readonly next: EntryRank | undefined } {
    this.#cut();
    const { rank, generation } = this.#places.at(-1) ?? { rank: 0, generation: '' };
    return { places: this.#places, next: this.#hasMore ? { rank, generation } : undefined };
  }

  #cut(): void {
    this.#places.sort((one, other) => compareRanks(one, other, this.#isFalling));
    if (this.#places.length > this.#limit) {
      this.#hasMore = true;
      this.#places.length = this.#limit;
    }
    if (this.#places.length === this.#limit) this.#bound = this.#places.at(-1);
  }
}

/** Checks whether metadata says that a response must not be used as it was stored: then earlier metadata must not be found again. */
export function isRestricted({ expiredAt, isInvalid }: StoredResponse): boolean {
  return expiredAt !== undefined || isInvalid === true;
}
