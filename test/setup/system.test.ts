/** The clocks and random ids of the machine. */

import { afterEach, expect, it, vi } from 'vitest';
import {
  backgroundClock,
  createUnsuspendedNow,
  monotonicClock,
  randomId,
  unsuspendedClock,
} from '../../src/setup/system.ts';

afterEach(() => void vi.useRealTimers());

it.each([
  ['backgroundClock', backgroundClock],
  ['monotonicClock', monotonicClock],
  ['unsuspendedClock', unsuspendedClock],
])('%s does not go back when the system time is set back', (_name, clock) => {
  vi.useFakeTimers({ toFake: ['Date'] });
  const before = clock.now();
  vi.setSystemTime(Date.now() - 3_600_000);
  expect(clock.now()).toBeGreaterThanOrEqual(before);
});

it('the clock of a fleet goes on while the machine is suspended, and leaves out small corrections and steps back', () => {
  let elapsed = 0;
  let time = 1e12;
  const now = createUnsuspendedNow(
    () => elapsed,
    () => time,
  );
  const pass = (elapsedMs: number, timeMs: number) => {
    elapsed += elapsedMs;
    time += timeMs;
    return now();
  };
  expect(pass(100, 100)).toBe(100);
  expect(pass(100, 150)).toBe(200);
  // Asleep for an hour.
  expect(pass(0, 3_600_000)).toBe(3_600_200);
  expect(pass(100, -3_600_000)).toBe(3_600_300);
  expect(pass(100, 100)).toBe(3_600_400);
});

it('randomId returns ids of 128 bits, all different', () => {
  const ids = Array.from({ length: 1000 }, randomId);
  expect(ids.filter((id) => !/^[0-9a-f]{32}$/.test(id))).toEqual([]);
  expect(new Set(ids).size).toBe(1000);
});
