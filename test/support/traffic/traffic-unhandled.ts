/** Rejections that nobody looks at: whatever is left to itself must see to its own failure. */

import { onTestFinished } from 'vitest';

/** Gives a list of what is rejected unhandled from now on until the running test ends. */
export function noteUnhandled(): readonly unknown[] {
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => void unhandled.push(reason);
  process.on('unhandledRejection', note);
  onTestFinished(() => void process.off('unhandledRejection', note));
  return unhandled;
}
