/** A number of bytes that many share: what one takes, the others cannot have until it is given back. */
export class ByteBudget {
  readonly #maxBytes: number;
  #takenBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** What is taken now, in bytes. */
  get takenBytes(): number {
    return this.#takenBytes;
  }

  /** Takes so many bytes, or none of them where there are fewer left; tells whether it did. */
  take(bytes: number): boolean {
    if (this.#takenBytes + bytes > this.#maxBytes) return false;
    this.#takenBytes += bytes;
    return true;
  }

  /** Gives back what was taken. */
  giveBack(bytes: number): void {
    this.#takenBytes -= bytes;
  }
}
