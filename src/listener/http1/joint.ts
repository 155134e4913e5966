/** Writes heads and bodies together; a small body is put behind its head, so that both leave in one piece. */

import type { Socket } from 'node:net';

/** Up to so many bytes of head and body are joined; a copy of more costs more than two pieces do. */
export const joinedBytes = 8 * 1024;

const slabBytes = 64 * 1024;

/** Bytes to write into. What the kernel has taken is used again, so that next to nothing is allocated. */
export class Joint {
  #slab = Buffer.allocUnsafeSlow(slabBytes);
  #at = 0;

  /** Writes a head, one byte per character, and all that comes after it. Returns whether the kernel has taken it at once. */
  write(socket: Socket, head: string, chunks: readonly Uint8Array[]): boolean {
    if (!socket.writable) return false;
    let sizeBytes = head.length;
    for (const chunk of chunks) sizeBytes += chunk.length;
    if (sizeBytes === head.length) {
      if (head !== '') socket.write(head, 'latin1');
      return hasTaken(socket);
    }
    if (sizeBytes <= joinedBytes) {
      const joined = this.join(head, chunks, sizeBytes);
      socket.write(joined);
      const isTaken = hasTaken(socket);
      if (isTaken) this.takeBack(joined);
      return isTaken;
    }
    socket.cork();
    if (head !== '') socket.write(head, 'latin1');
    for (const chunk of chunks) socket.write(chunk);
    socket.uncork();
    return hasTaken(socket);
  }

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

/**
 * Whether what was written has left the process already. Node tries to write at once; whether that went well is known when the
 * call is back, long before a callback would tell it. Over TLS it never has.
 */
export function hasTaken(socket: Socket): boolean {
  return socket.writableLength === 0 && socket.errored === null && !socket.destroyed;
}
