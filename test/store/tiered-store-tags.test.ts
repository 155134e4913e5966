/** Removal by tag with a memory tier in front: entries that only memory still has are removed too. */

import { expect, it, vi } from 'vitest';
import { createMemoryStore } from '../../src/store/memory/memory-store.ts';
import { StoreFault } from '../../src/store/store.ts';
import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { sequentialIds } from '../support/clocks/sequential-ids.ts';
import { storeTagged } from '../support/stores/stored-sample.ts';

const block = 1024;

/** Creates a store and a memory tier in front of it. */
function createTier() {
  const clock = { now: 1_000 };
  const now = () => clock.now;
  const below = createMemoryStore({ maxSizeBytes: 1_000_000, blockSizeBytes: block, now, randomId: sequentialIds() });
  return { clock, below, store: createTieredStore(createMemoryTier({ maxSizeBytes: 1_000_000 }), below, now) };
}

it('entries that the store below has evicted and memory still has are removed and reported', async () => {
  const { below, store } = createTier();
  for (const [key, tag] of [
    ['evicted', 't'],
    ['kept', 't'],
    ['other', 'u'],
  ] as const) {
    await storeTagged(store, { key, sizeBytes: 1 }, [tag]);
    await store.find(key);
  }
  for (const key of ['evicted', 'other']) await below.removeKey(key);
  expect(store.peek('evicted')?.[0]?.peekBlock(0)).toBeDefined();
  expect([...(await store.removeTagged('t'))].sort()).toEqual(['evicted', 'kept']);
  for (const key of ['evicted', 'kept']) {
    expect(store.peek(key)).toEqual([]);
    expect(await store.find(key)).toEqual([]);
  }
  expect(store.peek('other')).toHaveLength(1);
});

it('a generation in memory whose pin has ended is not reported', async () => {
  const { clock, below, store } = createTier();
  await storeTagged(store, { key: 'k', sizeBytes: 1 }, ['pinned']);
  await storeTagged(store, { key: 'k', sizeBytes: 1 }, ['current'], 2_000);
  expect(await store.find('k')).toHaveLength(2);
  await below.removeKey('k');
  clock.now = 2_000;
  expect(await store.removeTagged('pinned')).toEqual([]);
  expect(await store.removeTagged('current')).toEqual([]);
  expect(await store.find('k')).toEqual([]);
});

it('a look-up that the removal overtook is not kept, though the store below has evicted its entry', async () => {
  const { below, store } = createTier();
  await storeTagged(store, { key: 'k', sizeBytes: 1 }, ['t']);
  const { promise: gate, resolve: release } = Promise.withResolvers<void>();
  const found = await below.find('k');
  vi.spyOn(below, 'find').mockImplementationOnce(async () => {
    await gate;
    return found;
  });
  const overtaken = store.find('k');
  await below.removeKey('k');
  await store.removeTagged('t');
  release();
  expect(await overtaken).toHaveLength(1);
  expect(store.peek('k')).toEqual([]);
  expect(await store.find('k')).toEqual([]);
});

it('entries that a failed removal may have removed are dropped from memory', async () => {
  const { below, store } = createTier();
  await storeTagged(store, { key: 'k', sizeBytes: 1 }, ['t']);
  await store.find('k');
  const fault = new StoreFault('io', 'as the test wants it');
  vi.spyOn(below, 'removeTagged').mockRejectedValueOnce(fault);
  await expect(store.removeTagged('t')).rejects.toBe(fault);
  await below.removeKey('k');
  expect(store.peek('k')).toEqual([]);
});
