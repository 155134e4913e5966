/** One turn of the event loop: all that follows from what has happened so far, without timers, has happened then. */

import { quiet } from '../wire/wire-quiet.ts';

/** Where clients are connected over a wire, it takes until nothing moves there any more. */
export function turn(): Promise<void> {
  return quiet();
}
