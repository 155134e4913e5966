/** When nothing moves between processes any more that ask each other over Unix sockets in this one. */

import { subscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';

/** So many turns without a byte or a connection more, and what follows from the last one has happened. */
const quietTurns = 6;

const sockets = new Set<Socket>();
let ended = 0;
let underway = 0;
let isWatching = false;

/** Begins to watch connections. To be called before the first one is made. */
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

/** Counts something as moving until it is over: what the file system is asked for takes its time. */
export async function moving<T>(step: Promise<T>): Promise<T> {
  underway += 1;
  try {
    return await step;
  } finally {
    underway -= 1;
  }
}

/** Passes turns of the event loop until all that was sent has had its consequences. */
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
