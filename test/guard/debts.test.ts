/** Debts that time pays back, in a table of limited size. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LeakyBuckets } from '../../src/guard/limits/rate-limit.ts';

function createDebts(maxNames = 100) {
  const clock = { ms: 1000 };
  return { clock, debts: new LeakyBuckets({ maxNames, now: () => clock.ms }) };
}

describe('a debt', () => {
  it('grows by additions, shrinks by repayments and with time, and is never negative', () => {
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

  it('is not created by a repayment, which gives no credit', () => {
    const { debts } = createDebts();
    debts.repay('a', 1000);
    expect(debts.size).toBe(0);
    debts.add('a', 10);
    expect(debts.of('a')).toBe(10);
  });

  it('matches a model that applies all steps', () => {
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
  it('drops debts that are paid as new ones are added', () => {
    const { clock, debts } = createDebts(1_000_000);
    for (let index = 0; index < 1000; index += 1) debts.add(`old ${index}`, 10);
    clock.ms += 10;
    for (let index = 0; index < 400; index += 1) debts.add(`new ${index}`, 10);
    expect(debts.size).toBe(400);
    expect(debts.of('new 0')).toBe(10);
  });

  it('never holds more than maxNames names', () => {
    const { debts } = createDebts(50);
    for (let index = 0; index < 1000; index += 1) debts.add(`${index}`, 10);
    expect(debts.size).toBe(50);
  });

  it('keeps a large debt while many small ones are added', () => {
    const { clock, debts } = createDebts(50);
    debts.add('large', 1_000_000);
    for (let index = 0; index < 10_000; index += 1) {
      debts.add(`small ${index}`, 10 + (index % 90));
      clock.ms += 1;
    }
    expect(debts.of('large')).toBe(990_000);
  });

  it('works with room for one name', () => {
    const { debts } = createDebts(1);
    debts.add('a', 10);
    debts.add('b', 20);
    expect([debts.size, debts.of('a'), debts.of('b')]).toEqual([1, 0, 20]);
  });
});
