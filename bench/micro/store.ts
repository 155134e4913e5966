/** The store's part of a hit: finding the entry and its blocks, and verifying a block's checksum. */

import { blockSum } from '../../src/store/disk/bodies/block-sums.ts';
import { parseRow, rowSum } from '../../src/store/disk/index/index-rows.ts';
import { createMemoryStore } from '../../src/store/memory/memory-store.ts';
import { sequentialIds } from '../../test/support/clocks/sequential-ids.ts';
import { storeSample } from '../../test/support/stores/stored-sample.ts';
import { patternBytes } from '../../test/support/values/pattern-body.ts';
import type { MicroCase } from '../micro-case.ts';
import { now, sizeBytes, stored } from '../micro-sample.ts';

const KiB = 1024;
const store = createMemoryStore({
  maxSizeBytes: 64 * KiB * KiB,
  blockSizeBytes: 256 * KiB,
  now: () => now,
  randomId: sequentialIds(),
});
const keys = Array.from({ length: 1024 }, (_, index) => `http://origin.example/ http://media.example.org/${index}`);
for (const key of keys) await storeSample(store, { key, sizeBytes: 1 });
const entry = await storeSample(store, { key: 'large', sizeBytes: 4 * KiB * KiB });

const place = { key: keys[0] ?? '', variant: 'gzip', generation: '0000000001', sizeBytes, isInline: false };
const metadata = JSON.stringify(stored);
const row = {
  key: place.key,
  variant: place.variant,
  generation: place.generation,
  size_bytes: sizeBytes,
  is_inline: 0,
  is_complete: 1,
  pinned_until: null,
  metadata,
  checksum: rowSum(place, metadata),
};
const block = patternBytes(0, 256 * KiB);

export const cases: readonly MicroCase[] = [
  { name: 'peek in memory, of 1,024 keys', call: (turn) => store.peek(keys[turn & 1023] ?? '') },
  { name: 'peek in memory, a key that is not there', call: () => store.peek('none') },
  { name: 'peekBlock', call: (turn) => entry.peekBlock(turn & 15) },
  { name: 'parseRow, of the index on disk', call: () => parseRow(row, place.key) },
  { name: 'blockSum, 256 KiB', call: () => blockSum('0000000001', 0, block) },
];
