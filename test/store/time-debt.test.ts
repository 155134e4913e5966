/** The bound on the time that slow calls in the same tick may take. */

import { expect, it } from 'vitest';
import { TimeDebt } from '../../src/store/disk/bodies/synchronous-io.ts';

/** Creates a debt with a clock. `take` makes a call that takes `ms` milliseconds; returns whether it was afforded. */
function debtWithClock() {
  let now = 0;
  const debt = new TimeDebt({ elapsed: () => now, quickMs: 1 });
  return {
    pass: (ms: number) => {
      now += ms;
    },
    take: (ms: number) =>
      debt.afford(() => {
        now += ms;
        return true;
      }) ?? false,
    debt,
  };
}

it('affords quick calls without end', () => {
  const { take } = debtWithClock();
  for (let at = 0; at < 10_000; at += 1) expect(take(1)).toBe(true);
});

it('affords no call after a slow one until enough time has paid off the debt', () => {
  const { take, pass } = debtWithClock();
  expect(take(101)).toBe(true);
  expect(take(0)).toBe(false);
  pass(3900);
  expect(take(0)).toBe(false);
  pass(200);
  expect(take(0)).toBe(true);
});

it('spends no more than its share of the time, however slow the calls are', () => {
  const { take, pass } = debtWithClock();
  let lostMs = 0;
  let allMs = 0;
  for (let at = 0; at < 100_000; at += 1) {
    const slowMs = 1 + ((at * 7) % 50);
    if (take(slowMs)) {
      lostMs += slowMs;
      allMs += slowMs;
    }
    pass(3);
    allMs += 3;
  }
  expect(lostMs).toBeGreaterThan(100);
  expect(lostMs / allMs).toBeLessThan(0.03);
});

it('counts a slow call that throws', () => {
  const { debt, pass, take } = debtWithClock();
  const failing = () => {
    pass(500);
    throw new Error('slow and in vain');
  };
  expect(() => debt.afford(failing)).toThrow('slow and in vain');
  expect(take(0)).toBe(false);
});
