/** Debts that go away with time, in a table that has an end. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LeakyBuckets } from '../../src/guard/limits/rate-limit.ts';

function createDebts(maxNames = 100) {
  const clock = { ms: 1000 };
  return { clock, debts: new LeakyBuckets({ maxNames, now: () => clock.ms }) };
}

describe('a debt', () => {
  it('grows with what is added, shrinks with what is paid back and with time, and is never negative', () => {
    const { clock, debts } = createDebts();
    debts.add('a', 100);
    debts.add('a', 50);
    debts.add('b', 7);
    expect([debts.of('a'), debts.of('b'), debts.of('c')]).toEqual([150, 7, 0]);
    debts.repay('a', 30);
    clock.ms += 20;
    expect([debts.of('a'), debts.of('b')]).toEqual([100, 0]);
    debts.repay('a', 1000);
    expect(debts.of('a')).toBe(0);
    debts.add('a', 10);
    expect(debts.of('a')).toBe(10);
  });

  it('that nobody has is not paid back, and nothing is saved up', () => {
    const { debts } = createDebts();
    debts.repay('a', 1000);
    expect(debts.size).toBe(0);
    debts.add('a', 10);
    expect(debts.of('a')).toBe(10);
  });

  it('is what a list of all that happened comes to', () => {
    const step = fc.record({
      name: fc.constantFrom('a', 'b', 'c'),
      change: fc.integer({ min: -50, max: 50 }),
      ms: fc.nat(30),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const { clock, debts } = createDebts();
        const owed = new Map<string, number>();
        for (const { name, change, ms } of steps) {
          if (change >= 0) debts.add(name, change);
          else debts.repay(name, -change);
          owed.set(name, Math.max(0, (owed.get(name) ?? 0) + change));
          clock.ms += ms;
          for (const [each, before] of owed) owed.set(each, Math.max(0, before - ms));
          for (const [each, want] of owed) expect(debts.of(each)).toBe(want);
        }
      }),
    );
  });
});

describe('the table', () => {
  it('forgets debts that are over as new ones come', () => {
    const { clock, debts } = createDebts(1_000_000);
    for (let index = 0; index < 1000; index += 1) debts.add(`old ${index}`, 10);
    clock.ms += 10;
    for (let index = 0; index < 400; index += 1) debts.add(`new ${index}`, 10);
    expect(debts.size).toBe(400);
    expect(debts.of('new 0')).toBe(10);
  });

  it('never holds more names than it may', () => {
    const { debts } = createDebts(50);
    for (let index = 0; index < 1000; index += 1) debts.add(`${index}`, 10);
    expect(debts.size).toBe(50);
  });

  it('keeps a large debt however many small ones are run up', () => {
    const { clock, debts } = createDebts(50);
    debts.add('large', 1_000_000);
    for (let index = 0; index < 10_000; index += 1) {
      debts.add(`small ${index}`, 10 + (index % 90));
      clock.ms += 1;
    }
    expect(debts.of('large')).toBe(990_000);
  });

  it('has room for one name at least', () => {
    const { debts } = createDebts(1);
    debts.add('a', 10);
    debts.add('b', 20);
    expect([debts.size, debts.of('a'), debts.of('b')]).toEqual([1, 0, 20]);
  });
});
