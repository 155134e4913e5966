/** The order in which the blocks of a generation are written: one after the other, all but the last of full size. */

import { StoreFault } from './store.ts';

/** Counts the blocks and bytes of one generation while they come, and refuses those that do not fit. */
export class BlockSequence {
  readonly #blockSizeBytes: number;
  readonly #maxEntryBytes: number;
  #blockCount = 0;
  #sizeBytes = 0;

  constructor(limits: { readonly blockSizeBytes: number; readonly maxEntryBytes: number }) {
    this.#blockSizeBytes = limits.blockSizeBytes;
    this.#maxEntryBytes = limits.maxEntryBytes;
  }

  /** The bytes of all blocks so far. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** Counts the next block. Throws `RangeError` for one that is out of place, `StoreFault` for one too many. */
  add(index: number, sizeBytes: number): void {
    const isNext = index === this.#blockCount && this.#sizeBytes === index * this.#blockSizeBytes;
    if (!isNext || sizeBytes < 1 || sizeBytes > this.#blockSizeBytes) {
      throw new RangeError(`Block ${index} of ${sizeBytes} bytes does not follow ${this.#sizeBytes} bytes.`);
    }
    checkEntrySize(this.#sizeBytes + sizeBytes, this.#maxEntryBytes);
    this.#blockCount += 1;
    this.#sizeBytes += sizeBytes;
  }

  /** Says that the generation has this size. Throws `RangeError` when other bytes were written. */
  end(sizeBytes: number): void {
    if (sizeBytes !== this.#sizeBytes) {
      throw new RangeError(`A commit of ${sizeBytes} bytes, but ${this.#sizeBytes} were written.`);
    }
  }
}

/** Throws `StoreFault` `too_large` when a store does not take a body of this size. */
export function checkEntrySize(sizeBytes: number, maxEntryBytes: number): void {
  if (sizeBytes > maxEntryBytes) {
    throw new StoreFault('too_large', `A body of ${sizeBytes} bytes; this store takes up to ${maxEntryBytes}.`);
  }
}
