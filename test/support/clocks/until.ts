/** Waits for a state of a server that can only be polled. */

import { setTimeout as delay } from 'node:timers/promises';

/** Time within which a server recovers from a fault, in milliseconds: it retries after ten seconds. */
export const recoversWithinMs = 20_000;

/** Polls until `isSo` returns true. Rejects after `withinMs`, naming `what`, and with any error of `isSo`. */
export async function until(what: string, isSo: () => Promise<boolean>, withinMs = recoversWithinMs): Promise<void> {
  const startedAt = performance.now();
  while (!(await isSo())) {
    if (performance.now() - startedAt > withinMs) throw new Error(`not within ${withinMs} ms: ${what}`);
    await delay(10);
  }
}
