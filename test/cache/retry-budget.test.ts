import { describe, expect, it } from 'vitest';
import { createRetryBudget } from '../../src/cache/fill/fill.ts';

const rules = { maxAttempts: 4, firstDelayMs: 100, maxDelayMs: 500 };

describe('a retry budget of 4 attempts, 100 ms to 500 ms apart', () => {
  it.each<[string, number, readonly number[], readonly (number | undefined)[]]>([
    ['ends without progress', 0, [0, 0, 0, 0, 0, 0], [100, 200, 400, 500, undefined, undefined]],
    ['ends without progress past a start', 50, [50, 50, 50, 50, 50], [100, 200, 400, 500, undefined]],
    ['is full again after a byte of progress', 0, [0, 0, 1, 1, 2, 2], [100, 200, 100, 200, 100, 200]],
    ['is full again after progress in the last attempt', 0, [0, 0, 0, 0, 1], [100, 200, 400, 500, 100]],
    ['does not count bytes as progress that were there before', 0, [9, 5, 9, 9, 9], [100, 200, 400, 500, undefined]],
    ['is full at the first failure past the start', 50, [60, 60], [100, 200]],
  ])('%s (from %i: %o)', (_name, start, frontiers, pauses) => {
    const budget = createRetryBudget(rules, start);
    expect(frontiers.map((frontier) => budget.next(frontier))).toEqual(pauses);
  });

  it('gives no pause where it has no attempts', () => {
    const budget = createRetryBudget({ ...rules, maxAttempts: 0 }, 0);
    expect([budget.next(0), budget.next(1)]).toEqual([undefined, undefined]);
  });

  it('never pauses longer than maxDelayMs, however many attempts there are', () => {
    const budget = createRetryBudget({ ...rules, maxAttempts: 5000 }, 0);
    const pauses = Array.from({ length: 5000 }, () => budget.next(0));
    expect(new Set(pauses)).toEqual(new Set([100, 200, 400, 500]));
  });
});
