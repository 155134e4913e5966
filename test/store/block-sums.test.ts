/** Checksums of blocks: what was noted matches, and nothing else. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BlockSums } from '../../src/store/disk/block-sums.ts';
import { patternBytes } from '../support/pattern-body.ts';

const bytes = patternBytes(0, 100);

function sumsOf(...blocks: readonly (readonly [number, Uint8Array])[]): BlockSums {
  const sums = new BlockSums('generation');
  for (const [index, block] of blocks) sums.note(index, block);
  return sums;
}

describe('a block matches', () => {
  const flipped = bytes.map((byte, at) => (at === 99 ? byte ^ 1 : byte));
  const rows: readonly [string, BlockSums, number, Uint8Array, boolean][] = [
    ['as it was noted', sumsOf([0, bytes]), 0, bytes, true],
    ['at a far index', sumsOf([100_000, bytes]), 100_000, bytes, true],
    ['not when it was not noted', sumsOf(), 0, bytes, false],
    ['not when another one was noted', sumsOf([1, bytes]), 0, bytes, false],
    ['not at another index', sumsOf([0, bytes], [1, flipped]), 1, bytes, false],
    ['not when a bit is flipped', sumsOf([0, bytes]), 0, flipped, false],
    ['not when it is shorter', sumsOf([0, bytes]), 0, bytes.subarray(0, 99), false],
    ['not when it is empty', sumsOf(), 0, new Uint8Array(), false],
    ['not in another generation', new BlockSums('other', sumsOf([0, bytes]).encode()), 0, bytes, false],
  ];
  it.each(rows)('%s', (_, sums, index, block, expected) => {
    expect(sums.match(index, block)).toBe(expected);
  });
});

it('sums survive being written and read; what is cut off is absent', () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ minLength: 1, maxLength: 20 }), { maxLength: 40 }),
      fc.nat(400),
      (blocks, cut) => {
        const encoded = sumsOf(...blocks.map((block, index) => [index, block] as const)).encode();
        expect(encoded).toHaveLength(8 * blocks.length);
        const read = new BlockSums('generation', encoded.subarray(0, Math.min(cut, encoded.length)));
        for (const [index, block] of blocks.entries()) {
          const isThere = 8 * (index + 1) <= cut;
          expect(read.lengthOf(index)).toBe(isThere ? block.length : 0);
          expect(read.match(index, block)).toBe(isThere);
        }
      },
    ),
  );
});
