/** Joins the parts of a message into one write, in memory that is used again. */

import type { Socket } from 'node:net';

/** Head and body are joined up to this many bytes; above, the copy costs more than a second write. */
export const joinedBytes = 8 * 1024;

const slabBytes = 64 * 1024;

/** A buffer that joins heads and bodies. Its memory is reused once the kernel has taken the bytes, so that writes rarely allocate. */
export class WriteBuffer {
  #slab = Buffer.allocUnsafeSlow(slabBytes);
  #at = 0;

  /**
   * Writes a head, one byte per character, and the chunks after it. Returns whether the kernel has taken everything at once. Over TLS
   * that is never known; `onTaken` is called when everything is taken, or with the error of the write.
   */
  write(
    socket: Socket,
    head: string,
    chunks: readonly Uint8Array[],
    onTaken?: (error?: Error | null) => void,
  ): boolean {
    if (!socket.writable) return false;
    let sizeBytes = head.length;
    for (const chunk of chunks) sizeBytes += chunk.length;
    if (sizeBytes === head.length) {
      if (head !== '') socket.write(head, 'latin1', onTaken);
      return hasTaken(socket);
    }
    if (sizeBytes <= joinedBytes) {
      const joined = this.join(head, chunks, sizeBytes);
      socket.write(joined, onTaken);
      const isTaken = hasTaken(socket);
      if (isTaken) this.takeBack(joined);
      return isTaken;
    }
    socket.cork();
    if (head !== '') socket.write(head, 'latin1');
    for (const [at, chunk] of chunks.entries()) socket.write(chunk, at + 1 === chunks.length ? onTaken : undefined);
    socket.uncork();
    return hasTaken(socket);
  }

  /** Joins a head and pieces, text with one byte per character. `sizeBytes` is the length of all, at most `joinedBytes`. */
  join(head: string, pieces: readonly (string | Uint8Array)[], sizeBytes: number): Buffer {
    if (this.#at + sizeBytes > slabBytes) {
      this.#slab = Buffer.allocUnsafeSlow(slabBytes);
      this.#at = 0;
    }
    const start = this.#at;
    let at = start + this.#slab.write(head, start, 'latin1');
    for (const piece of pieces) {
      if (typeof piece === 'string') this.#slab.write(piece, at, 'latin1');
      else this.#slab.set(piece, at);
      at += piece.length;
    }
    this.#at = at;
    return this.#slab.subarray(start, at);
  }

  /** Takes back joined bytes that have left the process. Only the memory of the last join can be reused. */
  takeBack(joined: Buffer): void {
    if (joined.buffer === this.#slab.buffer && joined.byteOffset + joined.length === this.#at) {
      this.#at = joined.byteOffset;
    }
  }
}

/**
 * Checks whether all written bytes have left the process. Node tries to write synchronously, so that this is known right after the
 * call, long before the callback. Over TLS the result is always false right after a write.
 */
export function hasTaken(socket: Socket): boolean {
  return socket.writableLength === 0 && socket.errored === null && !socket.destroyed;
}
