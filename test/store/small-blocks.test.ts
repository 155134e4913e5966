/** Small blocks in slabs: their bytes stay right when blocks around them leave, and the memory of those that left is freed. */

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { MemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { type SmallBlock, SmallBlocks, smallBlockBytes } from '../../src/store/tiered/small-blocks.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const slabBytes = 64 * 1024;

/** Keeps a block whose content only `seed` and its size determine. */
function keepSample(blocks: SmallBlocks, sizeBytes: number, seed: number): SmallBlock {
  const block: SmallBlock = { slab: undefined, offset: 0, sizeBytes };
  blocks.keep(block, patternBytes(0, sizeBytes, seed));
  return block;
}

/** Returns the size of the slabs that these blocks keep in memory, in bytes. */
function keptBytes(blocks: Iterable<SmallBlock>): number {
  return new Set([...blocks].map(({ slab }) => slab)).size * slabBytes;
}

it('blocks have their bytes, and bytes that were returned stay as they were, whatever is removed', () => {
  const step = fc.oneof(
    fc.record({ add: fc.integer({ min: 1, max: smallBlockBytes }) }),
    fc.record({ remove: fc.nat() }),
  );
  fc.assert(
    fc.property(fc.array(step, { minLength: 100, maxLength: 400, size: 'max' }), (steps) => {
      const blocks = new SmallBlocks();
      const kept: { readonly block: SmallBlock; readonly seed: number; readonly early: Uint8Array | undefined }[] = [];
      const left: typeof kept = [];
      for (const [seed, taken] of steps.entries()) {
        if ('add' in taken) {
          const block = keepSample(blocks, taken.add, seed);
          kept.push({ block, seed, early: blocks.bytesOf(block) });
          continue;
        }
        const [removed] = kept.splice(taken.remove % Math.max(1, kept.length), 1);
        if (removed === undefined) continue;
        blocks.remove(removed.block);
        expect(blocks.bytesOf(removed.block)).toBeUndefined();
        left.push(removed);
      }
      for (const { block, seed } of kept) {
        expect(blocks.bytesOf(block)).toEqual(patternBytes(0, block.sizeBytes, seed));
      }
      for (const { block, seed, early } of [...kept, ...left]) {
        expect(early).toEqual(patternBytes(0, block.sizeBytes, seed));
      }
    }),
    { numRuns: 30 },
  );
});

it('at most a quarter of the slabs, and two more, belong to removed blocks', () => {
  const blocks = new SmallBlocks();
  const kept = new Set<SmallBlock>();
  let liveBytes = 0;
  for (let round = 0; round < 20_000; round += 1) {
    // A size and a choice that repeat after a long time.
    const sizeBytes = 64 + ((round * 7919) % (1024 - 64));
    kept.add(keepSample(blocks, sizeBytes, round));
    liveBytes += sizeBytes;
    const [first] = [...kept].slice((round * 31) % 500);
    if (kept.size <= 500 || first === undefined) continue;
    blocks.remove(first);
    kept.delete(first);
    liveBytes -= first.sizeBytes;
    // A slab also has an end of at most 1 KiB that no block fitted into.
    const mostBytes = liveBytes / (3 / 4 - 1 / 64) + 2 * slabBytes;
    if (round % 100 === 0) expect(keptBytes(kept)).toBeLessThanOrEqual(mostBytes);
  }
});

it('removing one block moves at most a thousand others, however small they are', () => {
  const blocks = new SmallBlocks();
  const kept = Array.from({ length: 3000 }, (_, seed) => keepSample(blocks, 1, seed));
  expect(keptBytes(kept)).toBe(3 * slabBytes);
  expect(Math.max(...kept.map(({ slab }) => slab?.blocks.length ?? 0))).toBe(1024);
});

it('the memory of evicted blocks is freed', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: object) => void;
  const bytesNow = () => {
    collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
    return process.memoryUsage().arrayBuffers;
  };
  const before = bytesNow();
  const tier = new MemoryTier({ maxSizeBytes: 2e6 });
  for (let at = 0; at < 40_000; at += 1) {
    tier.keepBlock(`g${at}`, 0, new Uint8Array(1000).fill(at));
    // One block of each slab stays, because it is used; the others leave.
    if (at % 600 === 0) for (let used = 0; used < at; used += 60) tier.block(`g${used}`, 0);
  }
  expect(tier.blockCount).toBeGreaterThan(1000);
  expect(bytesNow() - before).toBeLessThan(2e6);
  tier.clear();
  expect(bytesNow() - before).toBeLessThan(3 * slabBytes);
});
