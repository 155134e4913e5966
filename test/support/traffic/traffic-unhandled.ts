/** Records unhandled rejections: code that runs unawaited must handle its own failure. */

import { onTestFinished } from 'vitest';

/** Returns a list to which unhandled rejections are added until the running test ends. */
export function noteUnhandled(): readonly unknown[] {
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => void unhandled.push(reason);
  process.on('unhandledRejection', note);
  onTestFinished(() => void process.off('unhandledRejection', note));
  return unhandled;
}
