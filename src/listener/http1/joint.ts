/** Puts small bodies behind their heads, so that both leave in one piece. */

/** Up to so many bytes of head and body are joined; a copy of more costs more than two pieces do. */
export const joinedBytes = 8 * 1024;

const slabBytes = 64 * 1024;

/** Bytes to write into. What the kernel has taken is used again, so that next to nothing is allocated. */
export class Joint {
  #slab = Buffer.allocUnsafeSlow(slabBytes);
  #at = 0;

  /** A head, one byte per character, and the body behind it. `sizeBytes` is the length of both, `joinedBytes` at most. */
  join(head: string, chunks: readonly Uint8Array[], sizeBytes: number): Buffer {
    if (this.#at + sizeBytes > slabBytes) {
      this.#slab = Buffer.allocUnsafeSlow(slabBytes);
      this.#at = 0;
    }
    const start = this.#at;
    let at = start + this.#slab.write(head, start, 'latin1');
    for (const chunk of chunks) {
      this.#slab.set(chunk, at);
      at += chunk.length;
    }
    this.#at = at;
    return this.#slab.subarray(start, at);
  }

  /** Has left: nobody reads it any more. Only what was joined last can be used again. */
  takeBack(joined: Buffer): void {
    if (joined.buffer === this.#slab.buffer && joined.byteOffset + joined.length === this.#at) {
      this.#at = joined.byteOffset;
    }
  }
}
