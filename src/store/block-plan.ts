/** Which blocks fit into a generation while it is written: in any order where its length is known, in order otherwise. */

import { spanOfBlock, spanSize } from '../bytes/span.ts';
import { StoreFault } from './store.ts';

/** What a plan is made with. */
export interface BlockPlanOptions {
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
