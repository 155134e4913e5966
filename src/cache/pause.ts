/** Waiting for time to pass. */

import type { Clock } from '../http/clock.ts';
import { toProxyError } from '../http/proxy-error.ts';

/** Waits; rejects with the signal's reason when it is aborted meanwhile. */
export function pause(clock: Clock, delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      cancel();
      reject(toProxyError(signal.reason));
    };
    const cancel = clock.after(delayMs, () => {
      signal.removeEventListener('abort', stop);
      resolve();
    });
    signal.addEventListener('abort', stop, { once: true });
  });
}
