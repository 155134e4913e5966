/** Waits until nothing moves between the members of a fake fleet that talk over Unix sockets in this process. */

import { subscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';

/** Turns of the event loop without a new byte or connection after which all consequences have happened. */
const quietTurns = 6;

const sockets = new Set<Socket>();
let ended = 0;
let underway = 0;
let isWatching = false;

/** Begins to watch connections. Call it before the first connection is made. */
export function watchPeers(): void {
  if (isWatching) return;
  isWatching = true;
  for (const name of ['net.client.socket', 'net.server.socket']) {
    subscribe(name, (message) => {
      const { socket } = message as { readonly socket: Socket };
      sockets.add(socket);
      socket.once('close', () => {
        sockets.delete(socket);
        ended += 1;
      });
    });
  }
}

/** Counts a step, such as a call of the file system, as movement until it settles. */
export async function moving<T>(step: Promise<T>): Promise<T> {
  underway += 1;
  try {
    return await step;
  } finally {
    underway -= 1;
  }
}

/** Waits turns of the event loop until everything that was sent has had its consequences. */
export async function peersQuiet(): Promise<void> {
  let last = '';
  for (let same = 0; same < quietTurns; ) {
    await new Promise((resolve) => setImmediate(resolve));
    const state = stateOfAll();
    same = state === last && underway === 0 ? same + 1 : 0;
    last = state;
  }
}

function stateOfAll(): string {
  let bytes = 0;
  for (const socket of sockets) bytes += socket.bytesWritten + socket.bytesRead;
  return `${sockets.size} ${ended} ${bytes}`;
}
