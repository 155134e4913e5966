/** A clock that stands still until a test moves it. */

import type { Clock } from '../../../src/http/clock.ts';

export interface FakeClock extends Clock {
  /** Advances the time, and runs the callbacks that are due, in order. */
  advance(ms: number): void;
  /** Number of pending callbacks. */
  readonly pending: number;
  /** Waits until at least `count` callbacks are pending. */
  whenPending(count: number): Promise<void>;
}

/** Readings of the clock in one turn of the event loop above which code must be in an endless loop. */
const MAX_LOOKS = 20_000;

/** Creates a clock; `startAt` is in epoch milliseconds. `now` throws in an endless loop. */
export function createFakeClock(startAt = Date.UTC(2026, 0, 1)): FakeClock {
  let now = startAt;
  let looks = 0;
  const timers = new Set<{ at: number; callback: () => void }>();
  const watchers = new Set<() => void>();
  return {
    now: () => {
      if (looks === 0) setImmediate(() => (looks = 0));
      looks += 1;
      if (looks > MAX_LOOKS) throw new Error('endless loop: too many clock readings in one turn of the event loop');
      return now;
    },
    after(delayMs, callback) {
      const timer = { at: now + delayMs, callback };
      timers.add(timer);
      for (const watcher of watchers) watcher();
      return () => timers.delete(timer);
    },
    advance(ms) {
      const until = now + ms;
      for (;;) {
        const [next] = [...timers].filter((timer) => timer.at <= until).sort((a, b) => a.at - b.at);
        if (next === undefined) break;
        timers.delete(next);
        now = Math.max(now, next.at);
        next.callback();
      }
      now = until;
    },
    get pending() {
      return timers.size;
    },
    whenPending: (count) =>
      new Promise((resolve) => {
        const watcher = () => {
          if (timers.size < count) return;
          watchers.delete(watcher);
          resolve();
        };
        watchers.add(watcher);
        watcher();
      }),
  };
}
