/** What the machine gives: time, timers, chance. */

import { randomBytes } from 'node:crypto';
import type { Clock } from '../cache/clock.ts';

/** The clock of this machine. */
export const systemClock: Clock = {
  now: Date.now,
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};

/** 128 random bits, in hexadecimal. */
export function randomId(): string {
  return randomBytes(16).toString('hex');
}

/** Seconds as milliseconds. */
export function seconds(count: number): number {
  return count * 1000;
}
