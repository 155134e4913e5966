/** What the origins need to send at the speed of a line. */

import type { Clock } from '../../src/http/clock.ts';

/** What may pass at once after a rest, in bytes; timers are late by less than this takes. */
export const burstBytes = 256 * 1024;

/** Time as the system has it, in milliseconds. */
export const systemClock: Clock = {
  now: () => performance.now(),
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};
