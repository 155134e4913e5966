/** Waits for the close of a stream that may fail; `once` of `node:events` would throw the error. */

import type { Duplex } from 'node:stream';

/** Resolves when a socket or stream is closed, with or without an error. */
export async function untilClosed(stream: Duplex): Promise<void> {
  if (stream.closed) return;
  await new Promise<void>((resolve) => {
    // A reset counts as a close.
    stream.on('error', () => {});
    stream.once('close', () => resolve());
  });
}
