/** Checksums of blocks: a sum matches only the same bytes, at the same index, in the same generation. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BlockSums, encodeSum, isSameSum, sumOf, sumsSizeBytes } from '../../src/store/disk/bodies/block-sums.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const bytes = patternBytes(0, 100);

function sumsOf(...blocks: readonly (readonly [number, Uint8Array])[]): BlockSums {
  const sums = new BlockSums();
  for (const [index, block] of blocks) sums.set(index, sumOf('generation', index, block));
  return sums;
}

describe('a block matches its recorded sum', () => {
  const flipped = bytes.map((byte, at) => (at === 99 ? byte ^ 1 : byte));
  const rows: readonly [string, BlockSums, string, number, Uint8Array, boolean][] = [
    ['when it is unchanged', sumsOf([0, bytes]), 'generation', 0, bytes, true],
    ['at a far index', sumsOf([100_000, bytes]), 'generation', 100_000, bytes, true],
    ['not when no sum was recorded', sumsOf(), 'generation', 0, bytes, false],
    ['not when only the sum of another block was recorded', sumsOf([1, bytes]), 'generation', 0, bytes, false],
    ['not at a negative index', sumsOf([1, bytes]), 'generation', -1, bytes, false],
    ['not at another index', sumsOf([0, bytes], [1, flipped]), 'generation', 1, bytes, false],
    ['not when a bit is flipped', sumsOf([0, bytes]), 'generation', 0, flipped, false],
    ['not when it is shorter', sumsOf([0, bytes]), 'generation', 0, bytes.subarray(0, 99), false],
    ['not in another generation', sumsOf([0, bytes]), 'other', 0, bytes, false],
  ];
  it.each(rows)('%s', (_, sums, generation, index, block, expected) => {
    expect(isSameSum(sums.get(index), sumOf(generation, index, block))).toBe(expected);
  });
});

it('deleting the sum of a block makes it absent and leaves the others', () => {
  const sums = sumsOf([0, bytes], [1, bytes], [2, bytes]);
  sums.set(1, undefined);
  sums.set(100, undefined);
  expect([0, 1, 2, 3, 100].map((index) => sums.get(index) !== undefined)).toEqual([true, false, true, false, false]);
});

it('records written to a sidecar in any order are read back; those cut off or never written are absent', () => {
  const blocks = fc.uniqueArray(fc.tuple(fc.nat(30), fc.uint8Array({ minLength: 1, maxLength: 20 })), {
    selector: ([index]) => index,
    maxLength: 20,
  });
  fc.assert(
    fc.property(blocks, fc.nat(260), (written, cut) => {
      const sidecar = new Uint8Array(sumsSizeBytes(31));
      for (const [index, block] of written) {
        sidecar.set(encodeSum(sumOf('generation', index, block)), sumsSizeBytes(index));
      }
      const read = new BlockSums(sidecar.subarray(0, cut));
      for (let index = 0; index < 31; index += 1) {
        const block = written.find(([at]) => at === index)?.[1];
        const isThere = block !== undefined && sumsSizeBytes(index + 1) <= cut;
        expect(read.get(index)).toEqual(isThere ? sumOf('generation', index, block) : undefined);
      }
    }),
  );
});

it('an absent block has the record of a block that was never written', () => {
  expect(encodeSum(undefined)).toEqual(new Uint8Array(8));
});
