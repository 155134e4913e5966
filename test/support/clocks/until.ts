/** Waiting for what a server comes to by itself, which is seen only by asking it again. */

import { setTimeout as delay } from 'node:timers/promises';

/** How long a server may take to get over a fault, in milliseconds: it tries again after ten seconds. */
export const recoversWithinMs = 20_000;

/** Asks again and again until the answer is yes. Rejects where that takes too long, and with what asking throws. */
export async function until(what: string, isSo: () => Promise<boolean>, withinMs = recoversWithinMs): Promise<void> {
  const startedAt = performance.now();
  while (!(await isSo())) {
    if (performance.now() - startedAt > withinMs) throw new Error(`not within ${withinMs} ms: ${what}`);
    await delay(10);
  }
}
