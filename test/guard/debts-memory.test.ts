/** What a table of leaky buckets keeps in memory. In a process of its own, because it counts the bytes of the heap. */

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { LeakyBuckets } from '../../src/guard/limits/rate-limit.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const heldBytes = (): number => {
  collect();
  return process.memoryUsage().heapUsed;
};

describe('100,000 debts that are added and repaid', () => {
  it.each([
    ['an empty table', []],
    ['a table with another debtor', ['another']],
  ])('leave nothing in %s', (_what, others) => {
    const debts = new LeakyBuckets({ maxNames: 1000, now: () => 0 });
    for (const name of others) debts.add(name, 1);
    const addAndRepay = (pairs: number): void => {
      for (let pair = 0; pair < pairs; pair += 1) {
        debts.add('client', 10);
        debts.repay('client', 10);
      }
    };
    addAndRepay(1000);
    const before = heldBytes();
    addAndRepay(100_000);
    // An iterator at rest keeps every table that its map has had since: some 150 bytes for each pair, 15 MB.
    expect(heldBytes() - before).toBeLessThan(1_000_000);
    expect(debts.size).toBe(others.length);
  });
});
