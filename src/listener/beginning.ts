/** Looks at what a connection begins with, before anybody speaks a protocol on it. */

import type { Socket } from 'node:net';

/** What the bytes so far say: nothing yet, or something, the first `usedBytes` of them being its own. */
export type BeginningReading<T> =
  | { readonly kind: 'more' }
  | { readonly kind: 'decided'; readonly value: T; readonly usedBytes: number };

/** How it went: read, or not within the time, or the connection came to its end before. */
export type Beginning<T> =
  | { readonly kind: 'read'; readonly value: T }
  | { readonly kind: 'timeout' }
  | { readonly kind: 'ended' };

/**
 * Gives `read` all that has come, whenever more comes, until it has decided. What it did not use is put back. Calls back
 * once, unless the connection is destroyed before, and leaves the socket paused. `timeoutMs` 0 is no limit.
 */
export function readBeginning<T>(
  socket: Socket,
  read: (bytes: Buffer) => BeginningReading<T>,
  timeoutMs: number,
  callback: (beginning: Beginning<T>) => void,
): void {
  let received: Buffer = Buffer.alloc(0);
  const timer = timeoutMs > 0 ? setTimeout(() => finish({ kind: 'timeout' }), timeoutMs).unref() : undefined;
  const finish = (beginning: Beginning<T>): void => {
    release();
    callback(beginning);
  };
  const onEnd = (): void => finish({ kind: 'ended' });
  const onData = (chunk: Buffer): void => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    const reading = read(received);
    if (reading.kind === 'more') return;
    // Before anything is put back: what flows would come here again.
    release();
    if (reading.usedBytes < received.length) socket.unshift(received.subarray(reading.usedBytes));
    callback({ kind: 'read', value: reading.value });
  };
  const release = (): void => {
    clearTimeout(timer);
    socket.off('data', onData).off('end', onEnd).off('close', release);
    socket.pause();
  };
  socket.on('data', onData).once('end', onEnd).once('close', release);
  // It is paused where something was read from it before.
  socket.resume();
}
