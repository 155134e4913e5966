/** How much a client of HTTP/2 takes at a time, as its connection has shown so far. */

/** The size of a piece, in bytes: what is first, and its bounds. */
const firstBytes = 16 * 1024;
const leastBytes = 4 * 1024;
const mostBytes = 64 * 1024;

/** A client that takes a piece within the first time gets larger ones, and one that takes more than the second smaller ones. */
const soonMs = 250;
const lateMs = 1_000;

/**
 * Node tells only when the whole of a write has left, which takes a slow client long for a large one. So content is written
 * in pieces, small enough to see how fast the client takes it, and for a fast one large enough to cost little.
 */
export class Http2Stride {
  #bytes = firstBytes;

  /** The size of the next piece, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** So many bytes have left in so many milliseconds. */
  note(sizeBytes: number, elapsedMs: number): void {
    if (elapsedMs > lateMs) this.#bytes = Math.max(leastBytes, this.#bytes / 4);
    else if (elapsedMs <= soonMs && sizeBytes >= this.#bytes) this.#bytes = Math.min(mostBytes, 2 * this.#bytes);
  }
}
