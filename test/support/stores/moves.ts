/** Moves (sendfile) of bytes from files to sockets for tests, without the system call. */

import { readSync, writeSync } from 'node:fs';
import type { MoveToSocket } from '../../../src/store/disk/bodies/file-system.ts';

/** A fake socket that takes moved bytes, and keeps them. */
export class SteeredMoves {
  /** Bytes that a move takes at most. */
  roomBytes = Number.POSITIVE_INFINITY;
  /** Number of moves. */
  count = 0;
  #taken: Buffer[] = [];

  readonly move: MoveToSocket = (_socket, head, file, position, sizeBytes) => {
    this.count += 1;
    const headBytes = Math.min(head.length, this.roomBytes);
    this.#taken.push(Buffer.from(head.subarray(0, headBytes)));
    if (headBytes < head.length) return headBytes;
    const bytes = readBytes(file, position, Math.min(sizeBytes, this.roomBytes - headBytes));
    this.#taken.push(bytes);
    return headBytes + bytes.length;
  };

  /** Returns the bytes that were taken since the last call. */
  taken(): Buffer {
    const bytes = Buffer.concat(this.#taken);
    this.#taken = [];
    return bytes;
  }
}

/**
 * Returns a move that writes a copy into a real socket. With sendfile, damage to the file can still change bytes that the
 * system has taken and not sent; a copy cannot change. `onMoved` is called with the bytes that the socket took.
 */
export function copyToSocket(onMoved: (socket: number, bytes: number) => void = () => {}): MoveToSocket {
  return (socket, head, file, position, sizeBytes) => {
    let takenBytes = writeSome(socket, head);
    if (takenBytes === head.length) takenBytes += writeSome(socket, readBytes(file, position, sizeBytes));
    onMoved(socket, takenBytes);
    return takenBytes;
  };
}

/** Reads bytes of a file; fewer at its end. */
function readBytes(file: number, position: number, sizeBytes: number): Buffer {
  const bytes = Buffer.alloc(sizeBytes);
  return bytes.subarray(0, readSync(file, bytes, 0, sizeBytes, position));
}

function writeSome(socket: number, bytes: Uint8Array): number {
  try {
    return bytes.length === 0 ? 0 : writeSync(socket, bytes);
  } catch {
    // The socket is full or closed.
    return 0;
  }
}
