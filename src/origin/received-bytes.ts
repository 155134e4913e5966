/** How bytes are read from a connection to an origin: into one buffer, and from there into memory of their own size. */

import type { OnReadOpts, Socket } from 'node:net';

/**
 * As much as is read at once: a response of 64 KiB with its head comes in one piece, and large bodies in half as many as Node
 * reads by itself. More gains nothing that shows, and so much may wait unread in each connection.
 */
const readBytes = 128 * 1024;

/**
 * One buffer for all connections: Node reads into it when something is there, and what was read is copied out of it before the
 * next read begins, over whatever connection. Memory is only taken for bytes that have come, where Node's own way takes 64 KiB
 * for each read, however little it brings; and a small body lies by itself in its memory, with its head, so that it can be
 * kept as it is.
 */
let shared: Uint8Array | undefined;

/** A way to read for one connection. */
export interface Reading {
  /** For the `onread` of its socket. */
  readonly onread: OnReadOpts;
  /** Is told the socket once it is connected, before anything can come: what comes is read from it as from any other stream. */
  attach(socket: Socket): void;
}

/** Creates one. */
export function createReading(): Reading {
  let socket: Socket | undefined;
  shared ??= Buffer.allocUnsafeSlow(readBytes);
  return {
    onread: {
      buffer: shared,
      callback(count, buffer) {
        const bytes = Buffer.allocUnsafeSlow(count);
        bytes.set(buffer.subarray(0, count));
        return socket?.push(bytes) ?? false;
      },
    },
    attach(opened) {
      socket = opened;
    },
  };
}
