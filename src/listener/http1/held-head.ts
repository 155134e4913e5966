/** The part of a request's head that has come, when it does not come in one piece. */

import { HeadParser } from './head-parser.ts';
import type { HeadLimits, HeadReading } from './request-head.ts';

/** Grows by doubling, so that a head that trickles in is not copied again with each byte. */
export class HeldHead {
  readonly #parser: HeadParser;
  #bytes: Buffer;
  #sizeBytes: number;

  constructor(limits: HeadLimits, bytes: Buffer) {
    this.#parser = new HeadParser(limits);
    this.#bytes = bytes;
    this.#sizeBytes = bytes.length;
  }

  /** All that has come. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#sizeBytes);
  }

  /** Reads on with what has come next. */
  read(next: Buffer): HeadReading {
    const sizeBytes = this.#sizeBytes + next.length;
    if (sizeBytes > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(2 * sizeBytes);
      this.#bytes.copy(larger, 0, 0, this.#sizeBytes);
      this.#bytes = larger;
    }
    next.copy(this.#bytes, this.#sizeBytes);
    this.#sizeBytes = sizeBytes;
    return this.#parser.read(this.bytes);
  }
}
