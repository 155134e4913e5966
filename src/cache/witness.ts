/** Bytes that readers may have seen although no block was made of them: what a second transfer brings must agree with them. */

/** The bytes from an offset on. */
export class Witness {
  readonly #start: number;
  readonly #bytes: Uint8Array;
  readonly #earlier: Witness | undefined;

  /** `earlier` is what an earlier transfer has left, which still counts. */
  constructor(start: number, bytes: Uint8Array, earlier?: Witness) {
    this.#start = start;
    this.#bytes = bytes;
    this.#earlier = earlier;
  }

  /** Whether some of these bytes, which belong at `offset`, are other ones. */
  contradicts(offset: number, bytes: Uint8Array): boolean {
    const start = Math.max(offset, this.#start);
    const end = Math.min(offset + bytes.length, this.#start + this.#bytes.length);
    const seen = start < end ? this.#bytes.subarray(start - this.#start, end - this.#start) : undefined;
    const isOther = seen !== undefined && Buffer.compare(seen, bytes.subarray(start - offset, end - offset)) !== 0;
    return isOther || this.#earlier?.contradicts(offset, bytes) === true;
  }

  /** Whether there are bytes from `offset` on. */
  isAhead(offset: number): boolean {
    return this.#start + this.#bytes.length > offset || this.#earlier?.isAhead(offset) === true;
  }
}
