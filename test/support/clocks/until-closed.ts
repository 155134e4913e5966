/** Waits for the end of what may end with an error, which `once` of `node:events` would throw. */

import type { Duplex } from 'node:stream';

/** Resolves when a socket or stream is closed, in whichever way. */
export async function untilClosed(stream: Duplex): Promise<void> {
  if (stream.closed) return;
  await new Promise<void>((resolve) => {
    // A reset is an end like another.
    stream.on('error', () => {});
    stream.once('close', () => resolve());
  });
}
