/** What the machine gives. */

import { afterEach, expect, it, vi } from 'vitest';
import { backgroundClock, monotonicClock } from '../../src/setup/system.ts';

afterEach(() => void vi.useRealTimers());

it.each([
  ['backgroundClock', backgroundClock],
  ['monotonicClock', monotonicClock],
])('%s does not go back when somebody sets the time', (_name, clock) => {
  vi.useFakeTimers({ toFake: ['Date'] });
  const before = clock.now();
  vi.setSystemTime(Date.now() - 3_600_000);
  expect(clock.now()).toBeGreaterThanOrEqual(before);
});
