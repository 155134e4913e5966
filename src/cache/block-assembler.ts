/** Bytes that arrive in order, put together into blocks. */

import { fillsItsMemory } from '../bytes/own-memory.ts';

/** A block that is full, or the last one. */
export interface SealedBlock {
  readonly index: number;
  readonly bytes: Uint8Array;
}

/** The first allocation for a block whose length is not known: most bodies without a length are small. */
const FIRST_ALLOCATION_BYTES = 16 * 1024;

const nothing = new Uint8Array();

/**
 * Assembles blocks. A chunk that is all of a block by itself becomes it without a copy. Bytes that were appended stay where they
 * are for those who hold slices of them: a buffer is only ever appended to, and replaced when it must grow.
 */
export class BlockAssembler {
  readonly #blockSizeBytes: number;
  readonly #sizeBytes: number | undefined;
  #index: number;
  #filled = 0;
  #isEnded = false;
  /** Allocated with the first byte of the block. */
  #buffer: Uint8Array = nothing;

  /** `sizeBytes` is the length of the whole where it is known; `firstIndex` the block that the bytes begin with. */
  constructor(blockSizeBytes: number, sizeBytes: number | undefined, firstIndex = 0) {
    this.#index = firstIndex;
    this.#blockSizeBytes = blockSizeBytes;
    this.#sizeBytes = sizeBytes;
  }

  /** Where the next byte belongs. */
  get frontier(): number {
    return this.#index * this.#blockSizeBytes + this.#filled;
  }

  /** What there is of the block that is being assembled, if it is the one of this index. */
  blockAt(index: number): Uint8Array | undefined {
    return index === this.#index ? this.begun : undefined;
  }

  /** What there is of the block that is being assembled. */
  get begun(): Uint8Array | undefined {
    return this.#filled > 0 ? this.#buffer.subarray(0, this.#filled) : undefined;
  }

  /** Appends bytes of `chunk` from `from` on, at most to the end of the block; tells how many. The block must not be full. */
  append(chunk: Uint8Array, from: number): number {
    const count = Math.min(chunk.length - from, this.#blockSizeBytes - this.#filled);
    if (this.#filled === 0) {
      const expectedBytes = this.#expectedBytes;
      if (from === 0 && count === chunk.length && count === expectedBytes && fillsItsMemory(chunk)) {
        this.#buffer = chunk;
        this.#filled = count;
        return count;
      }
      this.#buffer = allocate(expectedBytes);
    }
    if (this.#filled + count > this.#buffer.length) this.#grow(this.#filled + count);
    this.#buffer.set(from === 0 && count === chunk.length ? chunk : chunk.subarray(from, from + count), this.#filled);
    this.#filled += count;
    return count;
  }

  /** The block, when it is full or the last of a known length; the next one is begun. */
  seal(): SealedBlock | undefined {
    const isLast = this.#filled > 0 && this.frontier === this.#sizeBytes;
    if (this.#filled < this.#blockSizeBytes) return isLast ? this.sealLast() : undefined;
    const sealed = { index: this.#index, bytes: this.#buffer };
    this.#index += 1;
    this.#filled = 0;
    this.#buffer = nothing;
    return sealed;
  }

  /** The last block, when it holds anything and was not sealed, in memory of its own size. Nothing may be appended after it. */
  sealLast(): SealedBlock | undefined {
    if (this.#filled === 0 || this.#isEnded) return undefined;
    this.#isEnded = true;
    if (this.#filled < this.#buffer.length) {
      const exact = allocate(this.#filled);
      exact.set(this.#buffer.subarray(0, this.#filled));
      this.#buffer = exact;
    }
    return { index: this.#index, bytes: this.#buffer };
  }

  /** How long the block is, as far as that is known: as much is allocated for it. */
  get #expectedBytes(): number {
    const rest =
      this.#sizeBytes === undefined
        ? this.#index === 0
          ? FIRST_ALLOCATION_BYTES
          : this.#blockSizeBytes
        : this.#sizeBytes - this.#index * this.#blockSizeBytes;
    return Math.min(this.#blockSizeBytes, Math.max(0, rest));
  }

  #grow(neededBytes: number): void {
    const larger = allocate(Math.min(this.#blockSizeBytes, Math.max(neededBytes, this.#buffer.length * 2)));
    larger.set(this.#buffer.subarray(0, this.#filled));
    this.#buffer = larger;
  }
}

/** Memory of its own, not from a shared pool: a kept block must pin nothing but itself. */
function allocate(sizeBytes: number): Uint8Array {
  return Buffer.allocUnsafeSlow(sizeBytes);
}
