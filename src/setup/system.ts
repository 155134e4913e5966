/** What the machine gives: time, timers, chance. */

import { randomBytes } from 'node:crypto';
import type { Clock } from '../http/clock.ts';

/** The clock of this machine. */
export const systemClock: Clock = {
  now: Date.now,
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};

/**
 * A clock for what goes on beside requests: waiting by it does not keep the process alive, and its milliseconds never go back,
 * whoever sets the time.
 */
export const backgroundClock: Clock = {
  now: () => performance.now(),
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs).unref();
    return () => clearTimeout(timer);
  },
};

/** The clock of this machine, with milliseconds that never go back either: for what is counted over a time. */
export const monotonicClock: Clock = { ...systemClock, now: () => performance.now() };

/** 128 random bits, in hexadecimal. */
export function randomId(): string {
  return randomBytes(16).toString('hex');
}

/** A number from 0 to 1, by chance. */
export function randomFraction(): number {
  return Math.random();
}

/** Seconds as milliseconds. */
export function seconds(count: number): number {
  return count * 1000;
}
