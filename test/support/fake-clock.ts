/** A clock that stands still until a test moves it. */

import type { Clock } from '../../src/cache/clock.ts';

export interface FakeClock extends Clock {
  /** Moves the time on and calls back whom that time has come for, in order. */
  advance(ms: number): void;
  /** How many callbacks are waited for. */
  readonly pending: number;
  /** Waits until that many callbacks are waited for. */
  whenPending(count: number): Promise<void>;
}

export function createFakeClock(startAt = Date.UTC(2026, 0, 1)): FakeClock {
  let now = startAt;
  const timers = new Set<{ at: number; callback: () => void }>();
  const watchers = new Set<() => void>();
  return {
    now: () => now,
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
