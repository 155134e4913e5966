/** One turn of the event loop. Then everything has happened that follows from earlier events without timers. */

import { quiet } from '../wire/wire-quiet.ts';

/** Waits one turn. Over a wire it waits until nothing moves there any more. */
export function turn(): Promise<void> {
  return quiet();
}
