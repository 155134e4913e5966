/** The system clock, for tests over sockets. */

import type { Clock } from '../../../src/http/clock.ts';

export const realClock: Clock = {
  now: Date.now,
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs).unref();
    return () => clearTimeout(timer);
  },
};
