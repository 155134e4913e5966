/** How much of what was written to a socket has left the process. */

import type { Socket } from 'node:net';

/** What a socket is made of, as far as it tells what is still on its way into the kernel. */
interface Handle {
  /** What it was given so far. */
  readonly bytesWritten?: number;
  /** What of that it still has. */
  readonly writeQueueSize?: number;
}

/** What was written to. */
export interface Written {
  readonly socket: Socket;
  /** Bytes that the system has put into the socket by itself, which Node knows nothing of. */
  readonly movedBytes?: number;
}

/**
 * Bytes that the kernel has taken of what was written. Node knows that for whole writes only, which may be of any size; its
 * own timeout of sockets asks the handle too. Without a handle, as after the end, all of it counts.
 */
export function takenBytes({ socket, movedBytes = 0 }: Written): number {
  const handle = (socket as { readonly _handle?: Handle | null })._handle;
  const { bytesWritten, writeQueueSize } = handle ?? {};
  if (bytesWritten === undefined || writeQueueSize === undefined) {
    return socket.bytesWritten - socket.writableLength + movedBytes;
  }
  return bytesWritten - writeQueueSize + movedBytes;
}
