/** SIEVE: which entries the hand evicts, that it matches the published algorithm, and that it withstands scans. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Sieved, sieve } from '../../src/store/disk/space/eviction.ts';
import { LruModel, type NameCache, SieveModel } from '../support/stores/eviction-models.ts';
import { type TraceOptions, trace } from '../support/stores/traces.ts';

/** Parses a queue: names, each with its weight, `*` when it was used and `!` when it is held. */
function queueOf(text: string): Sieved<string>[] {
  return [...text.matchAll(/([a-z])(\d*)([*!]*)/g)].map(([, id = '', weight = '', marks = '']) => ({
    id,
    weight: Number(weight || 1),
    isUsed: marks.includes('*'),
    isHeld: marks.includes('!'),
  }));
}

describe('a move of the hand', () => {
  const rows: readonly [string, number, string, string, string | undefined][] = [
    ['a b c', 1, 'a', '', 'a'],
    ['a b c', 2, 'ab', '', 'b'],
    ['a b c', 4, 'abc', '', 'c'],
    ['a5 b c', 4, 'a', '', 'a'],
    ['a b5 c', 4, 'ab', '', 'b'],
    ['a* b c', 1, 'b', 'a', 'b'],
    ['a* b* c*', 1, '', 'abc', 'c'],
    ['a! b c', 1, 'b', '', 'b'],
    ['a!* b* c', 1, 'c', 'b', 'c'],
    ['a! b!', 1, '', '', 'b'],
    ['a b* c', 1, 'a', '', 'a'],
    ['a b', 0, '', '', undefined],
    ['', 1, '', '', undefined],
  ];
  it.each(rows)('along "%s" for %i evicts "%s", spares "%s", passes %s', (queue, weight, evicted, spared, passed) => {
    const move = sieve(queueOf(queue), weight);
    expect({ ...move, evicted: move.evicted.join(''), spared: move.spared.join('') }).toEqual({
      evicted,
      spared,
      passed,
    });
  });

  it('reads no more of the queue than it must', () => {
    const looked: string[] = [];
    const queue = queueOf('a* b c d');
    const watched = (function* () {
      for (const thing of queue) {
        looked.push(thing.id);
        yield thing;
      }
    })();
    sieve(watched, 1);
    expect(looked.join('')).toBe('abc');
  });
});

/** A cache with a queue, which moves the hand over parts of it. */
class SieveCache implements NameCache {
  readonly #capacity: number;
  readonly #partLength: number;
  readonly #things = new Map<number, { readonly name: string; isUsed: boolean }>();
  readonly #numbers = new Map<string, number>();
  #last = 0;
  #hand = 0;

  constructor(capacity: number, partLength: number) {
    this.#capacity = capacity;
    this.#partLength = partLength;
  }

  use(name: string) {
    const thing = this.#things.get(this.#numbers.get(name) ?? 0);
    if (thing !== undefined) thing.isUsed = true;
    if (thing !== undefined) return { isHit: true, evicted: undefined };
    const evicted = this.#things.size < this.#capacity ? undefined : this.#evict();
    this.#last += 1;
    this.#things.set(this.#last, { name, isUsed: false });
    this.#numbers.set(name, this.#last);
    return { isHit: false, evicted };
  }

  #evict(): string {
    for (;;) {
      const rest = [...this.#things].filter(([number]) => number > this.#hand);
      const part = rest.slice(0, this.#partLength);
      const queue = part.map(([id, { isUsed }]) => ({ id, weight: 1, isUsed, isHeld: false }));
      const { evicted, spared, passed } = sieve(queue, 1);
      for (const number of spared) this.#things.set(number, { name: this.#nameOf(number), isUsed: false });
      this.#hand = passed === undefined || passed === rest.at(-1)?.[0] ? 0 : passed;
      const [number] = evicted;
      if (number === undefined) continue;
      const name = this.#nameOf(number);
      this.#things.delete(number);
      this.#numbers.delete(name);
      return name;
    }
  }

  #nameOf(number: number): string {
    return this.#things.get(number)?.name ?? '';
  }
}

it('SIEVE evicts what the model evicts, in whatever parts the queue is read', () => {
  const uses = fc.array(fc.nat(11), { maxLength: 120 });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 9 }), uses, (capacity, partLength, names) => {
      const model = new SieveModel(capacity);
      const cache = new SieveCache(capacity, partLength);
      for (const name of names) expect(cache.use(`n${name}`)).toEqual(model.use(`n${name}`));
    }),
  );
});

/** Returns the share of hits in the requests for names that are requested more than once. */
function hitRatio(cache: NameCache, options: TraceOptions): number {
  let [hits, count] = [0, 0];
  for (const name of trace(options)) {
    const { isHit } = cache.use(name);
    if (name.startsWith('once')) continue;
    hits += Number(isHit);
    count += 1;
  }
  return hits / count;
}

describe('compared with LRU, SIEVE', () => {
  const capacity = 100;
  const zipf = { seed: 20_240_416, requests: 30_000, names: 1000, skew: 0.9 };
  const traces: readonly [string, TraceOptions][] = [
    ['skewed popularity', zipf],
    ['short scans now and then', { ...zipf, scanEvery: 200, scanLength: 50 }],
    ['scans longer than the store', { ...zipf, scanEvery: 1000, scanLength: 500 }],
    ['scans without end', { ...zipf, scanEvery: 10, scanLength: 30 }],
  ];
  it.each(traces)('has at least as many hits in a trace of %s', (_, options) => {
    const lru = hitRatio(new LruModel(capacity), options);
    const ours = hitRatio(new SieveCache(capacity, 16), options);
    expect(ours, `SIEVE ${ours}, LRU ${lru}`).toBeGreaterThanOrEqual(lru);
  });
});
