/** The blocks in the memory tier: the bound holds, and blocks that are read once do not push out those in use. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { keptBlockWeight, MemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { smallBlockBytes } from '../../src/store/tiered/small-blocks.ts';
import { SieveModel } from '../support/stores/eviction-models.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 100;
const bytesOf = (mark: number) => new Uint8Array(size).fill(mark);

/** Creates a tier with room for this many blocks. */
function roomFor(count: number): MemoryTier {
  return new MemoryTier({ maxSizeBytes: count * keptBlockWeight(size) });
}

describe('blocks in memory', () => {
  it('are returned by generation and index, as they were last kept', () => {
    const tier = roomFor(10);
    tier.keepBlock('a', 0, bytesOf(1));
    tier.keepBlock('a', 1, bytesOf(2));
    tier.keepBlock('b', 0, bytesOf(3));
    tier.keepBlock('a', 0, bytesOf(4));
    const found = [tier.block('a', 0), tier.block('a', 1), tier.block('b', 0), tier.block('b', 1), tier.block('c', 0)];
    expect(found.map((bytes) => bytes?.[0])).toEqual([4, 2, 3, undefined, undefined]);
    expect({ count: tier.blockCount, sizeBytes: tier.sizeBytes }).toEqual({
      count: 3,
      sizeBytes: 3 * keptBlockWeight(size),
    });
    tier.clear();
    expect({ count: tier.blockCount, sizeBytes: tier.sizeBytes, found: tier.block('a', 1) }).toEqual({
      count: 0,
      sizeBytes: 0,
    });
  });

  it('have room for another until one would have to be evicted', () => {
    const tier = roomFor(2);
    expect([tier.hasRoomFor(size), tier.hasRoomFor(2 * size + 1000)]).toEqual([true, false]);
    tier.keepBlock('a', 0, bytesOf(1));
    expect(tier.hasRoomFor(size)).toBe(true);
    tier.keepBlock('a', 1, bytesOf(2));
    expect(tier.hasRoomFor(size)).toBe(false);
  });

  it('that are used stay, however many others are read once', () => {
    const tier = roomFor(10);
    for (let index = 0; index < 5; index += 1) tier.keepBlock('hot', index, bytesOf(index));
    for (let index = 0; index < 1000; index += 1) {
      tier.keepBlock('scan', index, bytesOf(9));
      for (let hot = 0; hot < 5; hot += 1) expect(tier.block('hot', hot)?.[0]).toBe(hot);
    }
  });

  it.each([1, smallBlockBytes, smallBlockBytes + 1])(
    'of %i bytes do not keep the pool alive that they came from',
    (length) => {
      const tier = new MemoryTier({ maxSizeBytes: 1e6 });
      const pool = patternBytes(0, 3 * length);
      tier.keepBlock('a', 0, pool.subarray(length, 2 * length));
      expect(tier.block('a', 0)).toEqual(patternBytes(length, 2 * length));
      expect(tier.block('a', 0)?.buffer).not.toBe(pool.buffer);
    },
  );

  it('that are larger than the bound are not kept', () => {
    const tier = roomFor(1);
    tier.keepBlock('a', 0, bytesOf(1));
    tier.keepBlock('a', 1, new Uint8Array(size + 1));
    expect([tier.block('a', 0)?.[0], tier.block('a', 1)]).toEqual([1, undefined]);
  });

  it('are evicted in the order of SIEVE, within the bound', () => {
    const steps = fc.array(fc.tuple(fc.boolean(), fc.nat(15)), { maxLength: 300 });
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 8 }), (taken, capacity) => {
        const tier = roomFor(capacity);
        const model = new SieveModel(capacity);
        for (const [isSecond, index] of taken) {
          const generation = isSecond ? 'b' : 'a';
          const isThere = tier.block(generation, index) !== undefined;
          expect(isThere).toBe(model.use(`${generation}${index}`).isHit);
          if (!isThere) tier.keepBlock(generation, index, bytesOf(index));
          expect(tier.sizeBytes).toBe(tier.blockCount * keptBlockWeight(size));
          expect(tier.blockCount).toBeLessThanOrEqual(capacity);
        }
      }),
    );
  });
});
