/** The cost of a 64 KiB range that is not in memory: reading the pieces that contain it, and checking them. */

import { openSync, readSync } from 'node:fs';
import { readFileInto } from '../../src/setup/store.ts';
import { matchesTrace, pieceBytes, tracedSumOf } from '../../src/store/disk/bodies/block-sums.ts';
import { LentBuffers, QuickReads } from '../../src/store/disk/bodies/synchronous-io.ts';
import { MemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { patternBytes } from '../../test/support/values/pattern-body.ts';
import type { MicroCase } from '../micro-case.ts';

const KiB = 1024;
const block = patternBytes(0, 256 * KiB);
const trace = tracedSumOf('0000000001', 0, block).trace ?? new Uint32Array();
const pieces = block.subarray(pieceBytes, pieceBytes + 72 * KiB);

// Any large file in the page cache will do.
const file = openSync(process.execPath, 'r');
const reads = new QuickReads({ elapsed: () => performance.now(), readSync, readFileInto, after: () => () => {} });
const buffers = new LentBuffers();

const kept = new MemoryTier({ maxSizeBytes: 64 * KiB * KiB });
for (let index = 0; index < 128; index += 1) kept.keepBlock('0000000001', index, block);

export const cases: readonly MicroCase[] = [
  { name: 'a block that is in memory', call: (turn) => kept.block('0000000001', turn & 127) },
  { name: 'check 72 KiB of a block', call: () => matchesTrace(trace, 1, pieces) },
  { name: 'sum of a block of 256 KiB, with those of its pieces', call: () => tracedSumOf('0000000001', 0, block) },
  {
    name: 'read 72 KiB in the same tick',
    call: (turn) => {
      const bytes = buffers.lend(72 * KiB);
      const isRead = reads.read(file, bytes, (turn & 127) * pieceBytes);
      buffers.giveBack(bytes);
      return isRead;
    },
  },
];
