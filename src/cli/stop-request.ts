/** The wish of whoever runs a server that it stops, told by signals. */

import { constants } from 'node:os';
import type { CliIo } from './io.ts';

/** Under npm a Ctrl-C comes twice, from the terminal and from npm; so soon after the first it is no second wish. */
const sameSignalMs = 500;

/** Signals are heard until it is disposed. */
export interface StopRequest extends Disposable {
  /** Resolves at the first signal. */
  readonly requested: Promise<undefined>;
}

/** Listens for signals: the first asks to stop; a later one ends the process at once, as a shell tells it of such an end. */
export function openStopRequest(io: CliIo): StopRequest {
  const { promise: requested, resolve: request } = Promise.withResolvers<undefined>();
  let requestedAt: number | undefined;
  const forget = io.onStopSignal((signal) => {
    if (requestedAt === undefined) {
      requestedAt = io.now();
      request(undefined);
    } else if (io.now() - requestedAt > sameSignalMs) {
      io.exit(128 + constants.signals[signal]);
    }
  });
  return { requested, [Symbol.dispose]: forget };
}
