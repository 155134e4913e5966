/** The blocks in the memory tier: the bound holds, and what is read once does not push out what is used again. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { blockWeight } from '../../src/store/memory/memory-shelf.ts';
import { MemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { SieveModel } from '../support/stores/eviction-models.ts';

const size = 100;
const bytesOf = (mark: number) => new Uint8Array(size).fill(mark);

/** Room for so many blocks. */
function roomFor(count: number): MemoryTier {
  return new MemoryTier({ maxSizeBytes: count * blockWeight(size) });
}

describe('blocks in memory', () => {
  it('are told by generation and index, as they were kept last', () => {
    const kept = roomFor(10);
    kept.keepBlock('a', 0, bytesOf(1));
    kept.keepBlock('a', 1, bytesOf(2));
    kept.keepBlock('b', 0, bytesOf(3));
    kept.keepBlock('a', 0, bytesOf(4));
    const told = [kept.block('a', 0), kept.block('a', 1), kept.block('b', 0), kept.block('b', 1), kept.block('c', 0)];
    expect(told.map((bytes) => bytes?.[0])).toEqual([4, 2, 3, undefined, undefined]);
    expect({ count: kept.blockCount, sizeBytes: kept.sizeBytes }).toEqual({
      count: 3,
      sizeBytes: 3 * blockWeight(size),
    });
    kept.clear();
    expect({ count: kept.blockCount, sizeBytes: kept.sizeBytes, told: kept.block('a', 1) }).toEqual({
      count: 0,
      sizeBytes: 0,
    });
  });

  it('have room for another one until one has to leave for it', () => {
    const kept = roomFor(2);
    expect([kept.hasRoomFor(size), kept.hasRoomFor(2 * size + 1000)]).toEqual([true, false]);
    kept.keepBlock('a', 0, bytesOf(1));
    expect(kept.hasRoomFor(size)).toBe(true);
    kept.keepBlock('a', 1, bytesOf(2));
    expect(kept.hasRoomFor(size)).toBe(false);
  });

  it('that are used stay, however many come that are read once', () => {
    const kept = roomFor(10);
    for (let index = 0; index < 5; index += 1) kept.keepBlock('hot', index, bytesOf(index));
    for (let index = 0; index < 1000; index += 1) {
      kept.keepBlock('scan', index, bytesOf(9));
      for (let hot = 0; hot < 5; hot += 1) expect(kept.block('hot', hot)?.[0]).toBe(hot);
    }
  });

  it('are none that is larger than all the room', () => {
    const kept = roomFor(1);
    kept.keepBlock('a', 0, bytesOf(1));
    kept.keepBlock('a', 1, new Uint8Array(size + 1));
    expect([kept.block('a', 0)?.[0], kept.block('a', 1)]).toEqual([1, undefined]);
  });

  it('leave in the order of SIEVE, and keep to the bound', () => {
    const steps = fc.array(fc.tuple(fc.boolean(), fc.nat(15)), { maxLength: 300 });
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 8 }), (taken, capacity) => {
        const kept = roomFor(capacity);
        const model = new SieveModel(capacity);
        for (const [isSecond, index] of taken) {
          const generation = isSecond ? 'b' : 'a';
          const isThere = kept.block(generation, index) !== undefined;
          expect(isThere).toBe(model.use(`${generation}${index}`).isHit);
          if (!isThere) kept.keepBlock(generation, index, bytesOf(index));
          expect(kept.sizeBytes).toBe(kept.blockCount * blockWeight(size));
          expect(kept.blockCount).toBeLessThanOrEqual(capacity);
        }
      }),
    );
  });
});
