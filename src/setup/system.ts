/** What the machine gives: time, timers, chance. */

import { randomFillSync } from 'node:crypto';
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

const idBytes = 16;

/** Random bytes for ids, drawn many at a time: drawing 16 costs as much as drawing these. */
const drawn = Buffer.allocUnsafeSlow(128 * idBytes);
let usedBytes = drawn.length;

/** 128 random bits, in hexadecimal. */
export function randomId(): string {
  if (usedBytes === drawn.length) {
    randomFillSync(drawn);
    usedBytes = 0;
  }
  usedBytes += idBytes;
  return drawn.toString('hex', usedBytes - idBytes, usedBytes);
}

/** A number from 0 to 1, by chance. */
export function randomFraction(): number {
  return Math.random();
}

/** Seconds as milliseconds. */
export function seconds(count: number): number {
  return count * 1000;
}
