/** The clocks and random ids of the machine. */

import { afterEach, expect, it, vi } from 'vitest';
import { backgroundClock, monotonicClock, randomId } from '../../src/setup/system.ts';

afterEach(() => void vi.useRealTimers());

it.each([
  ['backgroundClock', backgroundClock],
  ['monotonicClock', monotonicClock],
])('%s does not go back when the system time is set back', (_name, clock) => {
  vi.useFakeTimers({ toFake: ['Date'] });
  const before = clock.now();
  vi.setSystemTime(Date.now() - 3_600_000);
  expect(clock.now()).toBeGreaterThanOrEqual(before);
});

it('randomId returns ids of 128 bits, all different', () => {
  const ids = Array.from({ length: 1000 }, randomId);
  expect(ids.filter((id) => !/^[0-9a-f]{32}$/.test(id))).toEqual([]);
  expect(new Set(ids).size).toBe(1000);
});
