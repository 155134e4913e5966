/** The table of leases: single cases, and random processes against the simplest model. */

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

/** Returns the result of a promise, or `waits` while it is pending. */
async function now<T>(promise: T | Promise<T>): Promise<T | 'waits'> {
  return await Promise.race([promise, new Promise<'waits'>((resolve) => setImmediate(() => resolve('waits')))]);
}

describe('a lease', () => {
  it('is granted to the first process in the same tick, and the others learn the holder', () => {
    const { table } = createTable();
    expect(table.acquire('k', a)).toEqual(ours);
    expect(table.acquire('k', b)).toEqual(theirs(a));
    expect(table.acquire('other', b)).toEqual(ours);
    expect(table.size).toBe(2);
  });

  it('is granted to its holder again, and is free after one release', () => {
    const { table } = createTable();
    expect(table.acquire('k', a)).toEqual(ours);
    expect(table.acquire('k', a)).toEqual(ours);
    table.release('k', 'a');
    expect(table.acquire('k', b)).toEqual(ours);
  });

  it('is not released by another process', () => {
    const { table } = createTable();
    table.acquire('k', a);
    table.release('k', 'b');
    table.release('unknown', 'a');
    expect(table.acquire('k', b)).toEqual(theirs(a));
  });

  it('of a dead process is free, and that process gets none any more', () => {
    const { table } = createTable();
    table.acquire('k', a);
    table.acquire('l', a);
    table.acquire('m', b);
    expect([...table.keysOf('a')].sort()).toEqual(['k', 'l']);
    table.noteDeath('a');
    expect(table.keysOf('a')).toEqual([]);
    expect(table.acquire('k', b)).toEqual(ours);
    expect(table.acquire('l', a)).toEqual(theirs(a));
    expect(table.acquire('l', b)).toEqual(ours);
  });
});

describe('a process that could not reach the holder of a lease', () => {
  const end: readonly (readonly [string, (table: ReturnType<typeof createLeaseTable>) => void])[] = [
    ['has died', (table) => table.noteDeath('a')],
    ['has released it', (table) => table.release('k', 'a')],
  ];
  it.each(end)(
    'waits until the holder %s; the first waiter gets the lease, the others learn that',
    async (_, happen) => {
      const { table, clock } = createTable();
      table.acquire('k', a);
      const first = table.acquire('k', b, 'a');
      const second = table.acquire('k', c, 'a');
      expect(await now(first)).toBe('waits');
      happen(table);
      expect(await now(first)).toEqual(ours);
      expect(await now(second)).toEqual(theirs(b));
      expect(clock.pending).toBe(0);
    },
  );

  it('learns after a time that the holder still has it', async () => {
    const { table, clock } = createTable();
    table.acquire('k', a);
    const waiting = table.acquire('k', b, 'a');
    clock.advance(1_999);
    expect(await now(waiting)).toBe('waits');
    clock.advance(1);
    expect(await now(waiting)).toEqual(theirs(a));
  });

  it('learns at once where a third process has it by now', () => {
    const { table } = createTable();
    table.acquire('k', c);
    expect(table.acquire('k', b, 'a')).toEqual(theirs(c));
    expect(table.acquire('free', b, 'a')).toEqual(ours);
  });

  it('and dies while it waits gets nothing', async () => {
    const { table, clock } = createTable();
    table.acquire('k', a);
    const waiting = table.acquire('k', b, 'a');
    table.noteDeath('b');
    table.noteDeath('a');
    expect(await now(waiting)).toBe('waits');
    expect(clock.pending).toBe(0);
    expect(table.acquire('k', c)).toEqual(ours);
  });
});

const names = ['a', 'b', 'c', 'd'];
const event = fc.record({
  kind: fc.constantFrom('acquire' as const, 'acquire' as const, 'release' as const, 'fall' as const, 'wait' as const),
  asker: fc.constantFrom(...names),
  lost: fc.option(fc.constantFrom(...names), { nil: undefined }),
  key: fc.constantFrom('k', 'l'),
});
type Event = typeof event extends fc.Arbitrary<infer E> ? E : never;

/** A model of the table: the holder of each key, and the dead processes. */
class Model {
  readonly holders = new Map<string, string>();
  readonly #dead = new Set<string>();

  fall(asker: string): void {
    this.#dead.add(asker);
    for (const [key, holder] of this.holders) if (holder === asker) this.holders.delete(key);
  }

  release(key: string, asker: string): void {
    if (this.holders.get(key) === asker) this.holders.delete(key);
  }

  acquire(key: string, asker: string): object {
    const holder = this.#dead.has(asker) ? asker : (this.holders.get(key) ?? asker);
    if (holder !== asker || this.#dead.has(asker)) return { kind: 'theirs', instance: holder, socket: holder };
    this.holders.set(key, asker);
    return ours;
  }

  keysOf(asker: string): string[] {
    return [...this.holders].filter(([, holder]) => holder === asker).map(([key]) => key);
  }
}

function happen(
  { kind, asker, lost, key }: Event,
  { table, clock }: ReturnType<typeof createTable>,
  model: Model,
): void {
  if (kind === 'wait') clock.advance(5_000);
  if (kind === 'fall') {
    table.noteDeath(asker);
    model.fall(asker);
  }
  if (kind === 'release') {
    table.release(key, asker);
    model.release(key, asker);
  }
  // A process that waits gets a promise. Here only answers in the same tick are compared.
  const isWaiting = lost !== undefined && lost !== asker && model.holders.get(key) === lost;
  if (kind !== 'acquire' || isWaiting) return;
  expect(table.acquire(key, { instance: asker, socket: asker }, lost)).toEqual(model.acquire(key, asker));
}

it('the table has at most one holder for each key, and keeps nothing of released leases', () => {
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
