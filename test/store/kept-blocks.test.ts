/** The blocks in memory: what is kept is told as it is, the bound holds, and what is read once does not push out the rest. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { KeptBlocks } from '../../src/store/memory/kept-blocks.ts';
import { blockWeight } from '../../src/store/memory/memory-size.ts';
import { SieveModel } from '../support/eviction-models.ts';

const size = 100;
const bytesOf = (mark: number) => new Uint8Array(size).fill(mark);

/** Room for so many blocks. */
function roomFor(count: number): KeptBlocks {
  return new KeptBlocks(count * blockWeight(size));
}

describe('blocks in memory', () => {
  it('are told by generation and index, as they were kept last', () => {
    const kept = roomFor(10);
    kept.keep('a', 0, bytesOf(1));
    kept.keep('a', 1, bytesOf(2));
    kept.keep('b', 0, bytesOf(3));
    kept.keep('a', 0, bytesOf(4));
    const told = [kept.get('a', 0), kept.get('a', 1), kept.get('b', 0), kept.get('b', 1), kept.get('c', 0)];
    expect(told.map((bytes) => bytes?.[0])).toEqual([4, 2, 3, undefined, undefined]);
    expect({ count: kept.count, sizeBytes: kept.sizeBytes }).toEqual({ count: 3, sizeBytes: 3 * blockWeight(size) });
    kept.clear();
    expect({ count: kept.count, sizeBytes: kept.sizeBytes, told: kept.get('a', 1) }).toEqual({
      count: 0,
      sizeBytes: 0,
    });
  });

  it('have room for another one until one has to leave for it', () => {
    const kept = roomFor(2);
    expect([kept.hasRoomFor(size), kept.hasRoomFor(2 * size + 1000)]).toEqual([true, false]);
    kept.keep('a', 0, bytesOf(1));
    expect(kept.hasRoomFor(size)).toBe(true);
    kept.keep('a', 1, bytesOf(2));
    expect(kept.hasRoomFor(size)).toBe(false);
  });

  it('that are used stay, however many come that are read once', () => {
    const kept = roomFor(10);
    for (let index = 0; index < 5; index += 1) kept.keep('hot', index, bytesOf(index));
    for (let index = 0; index < 1000; index += 1) {
      kept.keep('scan', index, bytesOf(9));
      for (let hot = 0; hot < 5; hot += 1) expect(kept.get('hot', hot)?.[0]).toBe(hot);
    }
  });

  it('are none that is larger than all the room', () => {
    const kept = roomFor(1);
    kept.keep('a', 0, bytesOf(1));
    kept.keep('a', 1, new Uint8Array(size + 1));
    expect([kept.get('a', 0)?.[0], kept.get('a', 1)]).toEqual([1, undefined]);
  });

  it('leave when their room becomes less, those that were not used first', () => {
    const kept = roomFor(4);
    for (let index = 0; index < 4; index += 1) kept.keep('a', index, bytesOf(index));
    kept.get('a', 0);
    kept.limit(2 * blockWeight(size));
    const told = [0, 1, 2, 3].map((index) => kept.get('a', index)?.[0]);
    expect({ told, hasRoom: kept.hasRoomFor(size) }).toEqual({ told: [0, undefined, undefined, 3], hasRoom: false });
    kept.limit(3 * blockWeight(size));
    expect(kept.hasRoomFor(size)).toBe(true);
    kept.limit(0);
    expect(kept.count).toBe(0);
  });

  it('leave in the order of SIEVE, and keep to the bound', () => {
    const steps = fc.array(fc.tuple(fc.boolean(), fc.nat(15)), { maxLength: 300 });
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 8 }), (taken, capacity) => {
        const kept = roomFor(capacity);
        const model = new SieveModel(capacity);
        for (const [isSecond, index] of taken) {
          const generation = isSecond ? 'b' : 'a';
          const isThere = kept.get(generation, index) !== undefined;
          expect(isThere).toBe(model.use(`${generation}${index}`).isHit);
          if (!isThere) kept.keep(generation, index, bytesOf(index));
          expect(kept.sizeBytes).toBe(kept.count * blockWeight(size));
          expect(kept.count).toBeLessThanOrEqual(capacity);
        }
      }),
    );
  });
});
