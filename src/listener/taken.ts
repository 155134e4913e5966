/** Whether what was written has left the process already. */

import type { Socket } from 'node:net';

/**
 * Node tries to write at once. Whether that went well is known when the call is back, long before a callback would tell it;
 * over TLS it never has.
 */
export function hasTaken(socket: Socket): boolean {
  return socket.writableLength === 0 && socket.errored === null && !socket.destroyed;
}
