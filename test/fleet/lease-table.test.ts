/** The table of leases: tables, and random processes against the dumbest model. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createLeaseTable, type LeaseHolder } from '../../src/fleet/leases.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';

const [a, b, c] = ['a', 'b', 'c'].map((instance) => ({ instance, socket: `/peers/${instance}` })) as [
  LeaseHolder,
  LeaseHolder,
  LeaseHolder,
];
const ours = { kind: 'ours' };
const theirs = ({ instance, socket }: LeaseHolder) => ({ kind: 'theirs', instance, socket });

function createTable() {
  const clock = createFakeClock();
  return { clock, table: createLeaseTable(clock) };
}

/** What a promise has come to, if it has. */
async function now<T>(promise: T | Promise<T>): Promise<T | 'waits'> {
  return await Promise.race([promise, new Promise<'waits'>((resolve) => setImmediate(() => resolve('waits')))]);
}

describe('a lease', () => {
  it('is given to the first one who asks, in the same tick, and the others are told who has it', () => {
    const { table } = createTable();
    expect(table.acquire('k', a)).toEqual(ours);
    expect(table.acquire('k', b)).toEqual(theirs(a));
    expect(table.acquire('other', b)).toEqual(ours);
    expect(table.size).toBe(2);
  });

  it('is given again to who has it, and is free when that one has given it back once', () => {
    const { table } = createTable();
    expect(table.acquire('k', a)).toEqual(ours);
    expect(table.acquire('k', a)).toEqual(ours);
    table.release('k', 'a');
    expect(table.acquire('k', b)).toEqual(ours);
  });

  it('is not taken back by who does not have it', () => {
    const { table } = createTable();
    table.acquire('k', a);
    table.release('k', 'b');
    table.release('unknown', 'a');
    expect(table.acquire('k', b)).toEqual(theirs(a));
  });

  it('of a dead process is free, and it gets no more', () => {
    const { table } = createTable();
    table.acquire('k', a);
    table.acquire('l', a);
    table.acquire('m', b);
    expect([...table.keysOf('a')].sort()).toEqual(['k', 'l']);
    table.fall('a');
    expect(table.keysOf('a')).toEqual([]);
    expect(table.acquire('k', b)).toEqual(ours);
    expect(table.acquire('l', a)).toEqual(theirs(a));
    expect(table.acquire('l', b)).toEqual(ours);
  });
});

describe('who could not reach the one that has a lease', () => {
  const end: readonly (readonly [string, (table: ReturnType<typeof createLeaseTable>) => void])[] = [
    ['has died', (table) => table.fall('a')],
    ['has given it back', (table) => table.release('k', 'a')],
  ];
  it.each(end)('waits until that one %s; the first that waits gets it, the others are told so', async (_, happen) => {
    const { table, clock } = createTable();
    table.acquire('k', a);
    const first = table.acquire('k', b, 'a');
    const second = table.acquire('k', c, 'a');
    expect(await now(first)).toBe('waits');
    happen(table);
    expect(await now(first)).toEqual(ours);
    expect(await now(second)).toEqual(theirs(b));
    expect(clock.pending).toBe(0);
  });

  it('is told after a time that the other one has it still', async () => {
    const { table, clock } = createTable();
    table.acquire('k', a);
    const waiting = table.acquire('k', b, 'a');
    clock.advance(1_999);
    expect(await now(waiting)).toBe('waits');
    clock.advance(1);
    expect(await now(waiting)).toEqual(theirs(a));
  });

  it('is told at once where yet another one has it by now', () => {
    const { table } = createTable();
    table.acquire('k', c);
    expect(table.acquire('k', b, 'a')).toEqual(theirs(c));
    expect(table.acquire('free', b, 'a')).toEqual(ours);
  });

  it('and has died itself gets nothing', async () => {
    const { table, clock } = createTable();
    table.acquire('k', a);
    const waiting = table.acquire('k', b, 'a');
    table.fall('b');
    table.fall('a');
    expect(await now(waiting)).toBe('waits');
    expect(clock.pending).toBe(0);
    expect(table.acquire('k', c)).toEqual(ours);
  });
});

const names = ['a', 'b', 'c', 'd'];
const event = fc.record({
  kind: fc.constantFrom('acquire' as const, 'acquire' as const, 'release' as const, 'fall' as const, 'wait' as const),
  who: fc.constantFrom(...names),
  lost: fc.option(fc.constantFrom(...names), { nil: undefined }),
  key: fc.constantFrom('k', 'l'),
});
type Event = typeof event extends fc.Arbitrary<infer E> ? E : never;

/** The table as it is told: who has which key, and who has died. */
class Model {
  readonly holders = new Map<string, string>();
  readonly #dead = new Set<string>();

  fall(who: string): void {
    this.#dead.add(who);
    for (const [key, holder] of this.holders) if (holder === who) this.holders.delete(key);
  }

  release(key: string, who: string): void {
    if (this.holders.get(key) === who) this.holders.delete(key);
  }

  acquire(key: string, who: string): object {
    const holder = this.#dead.has(who) ? who : (this.holders.get(key) ?? who);
    if (holder !== who || this.#dead.has(who)) return { kind: 'theirs', instance: holder, socket: holder };
    this.holders.set(key, who);
    return ours;
  }

  keysOf(who: string): string[] {
    return [...this.holders].filter(([, holder]) => holder === who).map(([key]) => key);
  }
}

function happen({ kind, who, lost, key }: Event, { table, clock }: ReturnType<typeof createTable>, model: Model): void {
  if (kind === 'wait') clock.advance(5_000);
  if (kind === 'fall') {
    table.fall(who);
    model.fall(who);
  }
  if (kind === 'release') {
    table.release(key, who);
    model.release(key, who);
  }
  // Those who wait are told in promises; here it counts what is told at once.
  const isWaiting = lost !== undefined && lost !== who && model.holders.get(key) === lost;
  if (kind !== 'acquire' || isWaiting) return;
  expect(table.acquire(key, { instance: who, socket: who }, lost)).toEqual(model.acquire(key, who));
}

it('has at most one holder for each key, whatever happens, and keeps nothing of what is over', () => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 60 }), (events) => {
      const ground = createTable();
      const model = new Model();
      for (const each of events) {
        happen(each, ground, model);
        expect(ground.table.size).toBe(model.holders.size);
        for (const name of names) {
          expect([...ground.table.keysOf(name)].sort()).toEqual(model.keysOf(name).sort());
        }
      }
    }),
  );
});
