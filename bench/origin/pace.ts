/** The clock and the burst size with which origins pace their bodies. */

import type { Clock } from '../../src/http/clock.ts';

/** Bytes that may be sent at once after a pause; sending them takes longer than a timer is usually late. */
export const burstBytes = 256 * 1024;

/** A clock on the process's monotonic time, in milliseconds, and on its timers. */
export const systemClock: Clock = {
  now: () => performance.now(),
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};
