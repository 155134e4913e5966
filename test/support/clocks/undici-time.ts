/** The time of undici's timers, which have a resolution of a second: a test that waited for them would take as long. */

import { createRequire } from 'node:module';
import { peersQuiet, watchPeers } from './peer-quiet.ts';

/** undici's own timers. `tick` moves their time on; it is there for tests. */
const timers = createRequire(import.meta.url)('undici/lib/util/timers.js') as { tick(ms: number): void };

watchPeers();

/** Moves the time of undici on, whenever everything that was sent has arrived, until a promise is settled. */
export async function asUndiciWaits<T>(outcome: Promise<T>): Promise<T> {
  let isOver = false;
  const end = () => {
    isOver = true;
  };
  outcome.then(end, end);
  while (!isOver) {
    await peersQuiet();
    timers.tick(1_000);
  }
  return await outcome;
}
