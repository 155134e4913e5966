/** The descriptor of a connection, for bytes that the system puts into it by itself. */

import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { hasTaken } from './http1/joint.ts';

/** What a socket is made of, as far as it tells which one it is for the system. */
interface Handle {
  readonly fd?: number;
}

/** Whether the system may put bytes into a socket, as far as that is known without asking it. */
export function takesMovable(socket: Socket): boolean {
  return !(socket instanceof TLSSocket);
}

/**
 * The descriptor, in this tick, where nothing that was written waits in the process; undefined of others, and of what is not
 * sent as it is written.
 */
export function descriptorOf(socket: Socket): number | undefined {
  if (!takesMovable(socket) || !socket.writable || !hasTaken(socket)) return undefined;
  const handle = (socket as { readonly _handle?: Handle | null })._handle;
  const fd = handle?.fd ?? -1;
  return fd >= 0 ? fd : undefined;
}
