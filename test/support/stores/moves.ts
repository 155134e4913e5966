/** Moves of bytes from files to sockets for tests, without the calls of the system that make them. */

import { readSync, writeSync } from 'node:fs';
import type { MoveToSocket } from '../../../src/store/disk/bodies/file-system.ts';

/** Takes what is moved as a socket would, and keeps it. */
export class SteeredMoves {
  /** So much is taken at once, in bytes. */
  roomBytes = Number.POSITIVE_INFINITY;
  /** How many calls there were. */
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

  /** What was taken since this was asked last. */
  taken(): Buffer {
    const bytes = Buffer.concat(this.#taken);
    this.#taken = [];
    return bytes;
  }
}

/**
 * Puts a copy into a real socket. What has left can not be changed any more by damage that a test does to the file, as pages
 * of it can that the system has taken and not sent yet. `onMoved` is told of all that the socket took.
 */
export function copyToSocket(onMoved: (socket: number, bytes: number) => void = () => {}): MoveToSocket {
  return (socket, head, file, position, sizeBytes) => {
    let takenBytes = writeSome(socket, head);
    if (takenBytes === head.length) takenBytes += writeSome(socket, readBytes(file, position, sizeBytes));
    onMoved(socket, takenBytes);
    return takenBytes;
  };
}

/** Fewer where the file ends. */
function readBytes(file: number, position: number, sizeBytes: number): Buffer {
  const bytes = Buffer.alloc(sizeBytes);
  return bytes.subarray(0, readSync(file, bytes, 0, sizeBytes, position));
}

function writeSome(socket: number, bytes: Uint8Array): number {
  try {
    return bytes.length === 0 ? 0 : writeSync(socket, bytes);
  } catch {
    // It takes nothing now, or nothing ever again.
    return 0;
  }
}
