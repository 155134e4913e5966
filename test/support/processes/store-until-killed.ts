/** A program that stores entry after entry until it is killed: `node store-until-killed.ts DIR`. */

import { randomUUID } from 'node:crypto';
import { openDiskStore } from '../../../src/store/disk/disk-store.ts';
import { blockOf, openSampleWriter, sampleMetadata, storeSample } from '../stores/stored-sample.ts';

const [dir = ''] = process.argv.slice(2);
const store = await openDiskStore({
  dir,
  maxSizeBytes: 1024 * 1024 * 1024,
  blockSizeBytes: 16 * 1024,
  now: Date.now,
  randomId: randomUUID,
  emit: () => {},
});
// One entry stays incomplete, and gets its blocks one by one at scattered indexes.
const part = { key: 'part', sizeBytes: 512 * 16 * 1024, seed: 7 };
const partial = await openSampleWriter(store, part);
await partial.publish(sampleMetadata(part.seed));
const sizes = [0, 700, 30_000, 40_000, 100_000, 1_000_000];
for (let at = 0; ; at += 1) {
  const sizeBytes = sizes[at % sizes.length] ?? 0;
  // Every second round writes the same key again, and many bodies stay half written.
  const key = at % 2 === 0 ? `k${at}` : 'again';
  const unfinished = await openSampleWriter(store, { key: 'never', sizeBytes: 64 * 1024 });
  for (let index = 0; index < 3; index += 1) await unfinished.writeBlock(index, new Uint8Array(16 * 1024));
  await storeSample(store, { key, sizeBytes, seed: at });
  const partBlock = (at * 37) % 512;
  await partial.writeBlock(partBlock, blockOf(part, 16 * 1024, partBlock));
  process.stdout.write(`${JSON.stringify({ key, sizeBytes, seed: at, partBlock })}\n`);
  if (at % 3 === 1) await unfinished[Symbol.asyncDispose]();
}
