/** Removes what a crash has left: body files that no row of the index speaks of. */

import { setImmediate } from 'node:timers/promises';
import type { BodyFiles } from './body-files.ts';

/**
 * Removes the files of generations that are not known, and tells how many there were. A generation that was once
 * unknown never becomes known again, so that nothing is lost to a race with those who write.
 */
export async function sweepBodies(
  files: BodyFiles,
  isKnown: (generation: string) => boolean,
  signal: AbortSignal,
): Promise<number> {
  let removed = 0;
  for await (const generation of files.generations()) {
    await setImmediate();
    if (signal.aborted) break;
    if (isKnown(generation)) continue;
    await files.remove(generation);
    removed += 1;
  }
  return removed;
}
