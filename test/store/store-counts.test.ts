/** The counts of stores: evicted entries and damaged blocks. */

import { expect, it } from 'vitest';
import { createMemoryStore } from '../../src/store/memory/memory-store.ts';
import type { StoreEvent } from '../../src/telemetry/events.ts';
import { sequentialIds } from '../support/clocks/sequential-ids.ts';
import { flipBit } from '../support/stores/damage.ts';
import { bodyFiles, openTestStore } from '../support/stores/disk-store.ts';
import { findFirst, readKey, storeSample } from '../support/stores/stored-sample.ts';

const block = 16 * 1024;

it('a store in memory counts evicted entries, also many at once, and no other removals', async () => {
  const events: StoreEvent[] = [];
  const store = createMemoryStore({
    maxSizeBytes: 64 * block,
    blockSizeBytes: block,
    now: () => 0,
    randomId: sequentialIds(),
    emit: (event) => {
      if (event.kind === 'store') events.push(event);
    },
  });
  for (let at = 0; at < 14; at += 1) await storeSample(store, { key: `k${at}`, sizeBytes: 4 * block });
  await store.removeKey('k0');
  await storeSample(store, { key: 'k1', sizeBytes: 4 * block, seed: 2 });
  expect(events).toEqual([]);
  const before = store.readUsage().entryCount;
  await storeSample(store, { key: 'large', sizeBytes: 15 * block });
  const left = before + 1 - store.readUsage().entryCount;
  expect(left).toBeGreaterThan(1);
  expect(events.map(({ level }) => level)).toEqual(events.map(() => 'debug'));
  expect(events.reduce((sum, { count }) => sum + (count?.evictedEntries ?? 0), 0)).toBe(left);
});

it('a store on the disk counts evicted entries', async () => {
  const { store, counts } = await openTestStore({ maxSizeBytes: 64 * block });
  for (let at = 0; at < 40; at += 1) await storeSample(store, { key: `k${at}`, sizeBytes: 4 * block });
  await store.removeKey('k39');
  expect(counts).toEqual({ evictedEntries: 39 - store.readUsage().entryCount, damagedBlocks: 0 });
});

it('a store on the disk counts each damaged block once', async () => {
  const { store, dir, counts } = await openTestStore();
  await storeSample(store, { key: 'k', sizeBytes: 4 * block });
  const [body = ''] = (await bodyFiles(dir)).filter((path) => path.endsWith('.body'));
  await flipBit(body, block + 7);
  await flipBit(body, 2 * block + 7);
  for (let round = 0; round < 2; round += 1) {
    const reader = await (await findFirst(store, 'k'))?.open();
    for (const index of [1, 2]) await expect(reader?.readBlock(index)).rejects.toMatchObject({ code: 'bytes_gone' });
    reader?.close();
  }
  expect(await readKey(store, 'k')).toBeUndefined();
  expect(counts).toEqual({ evictedEntries: 0, damagedBlocks: 2 });
});
