/** A memory tier in front of a shared store applies the changes that other processes announce. */

import { describe, expect, it, vi } from 'vitest';
import { createMemoryStore } from '../../src/store/memory/memory-store.ts';
import type { StoreChange } from '../../src/store/store.ts';
import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { sequentialIds } from '../support/clocks/sequential-ids.ts';
import { storeTagged } from '../support/stores/stored-sample.ts';

const keys = ['a/1', 'a/2', 'b/1'] as const;

/** Creates a store with all keys in memory; `left` returns the keys that are still there. */
async function createTier() {
  const options = { maxSizeBytes: 1_000_000, blockSizeBytes: 1024, now: () => 1_000 };
  const below = createMemoryStore({ ...options, randomId: sequentialIds() });
  const applyChange = vi.spyOn(below, 'applyChange');
  const store = createTieredStore(createMemoryTier({ maxSizeBytes: 1_000_000 }), below, options.now);
  for (const key of keys) {
    await storeTagged(store, { key, sizeBytes: 1 }, key.endsWith('1') ? ['one'] : []);
    await store.find(key);
  }
  return { below, applyChange, store, left: () => keys.filter((key) => store.peek(key)?.length === 1) };
}

const changes: readonly [StoreChange, readonly string[]][] = [
  [{ kind: 'keys', keys: ['a/1', 'none'] }, ['a/2', 'b/1']],
  [{ kind: 'tag', tag: 'one' }, ['a/2']],
  [{ kind: 'tag', tag: 'two' }, keys],
  [{ kind: 'prefix', prefix: 'a/' }, ['b/1']],
  [{ kind: 'prefix', prefix: '' }, []],
  [{ kind: 'generations', generations: ['0000000001'] }, keys],
  [{ kind: 'lost', generations: ['0000000001'] }, keys],
  [{ kind: 'fresh' }, []],
  [{ kind: 'evicting' }, keys],
  [{ kind: 'fallen', instances: ['w1'] }, keys],
];

it.each(changes)('%j is applied', async (change, want) => {
  const { below, applyChange, store, left } = await createTier();
  await below.removePrefixed('');
  store.applyChange(change);
  expect(left()).toEqual(want);
  expect(applyChange).toHaveBeenCalledExactlyOnceWith(change);
});

it.each(changes)('%j of the store below is applied in memory, and not passed down', async (change, want) => {
  const { below, applyChange, store, left } = await createTier();
  await below.removePrefixed('');
  store.forget(change);
  expect(left()).toEqual(want);
  expect(applyChange).not.toHaveBeenCalled();
});

describe('a look-up that began before a change and ends after it', () => {
  const overtaking: readonly StoreChange[] = [
    { kind: 'keys', keys: ['a/1'] },
    { kind: 'tag', tag: 'one' },
    { kind: 'prefix', prefix: 'a' },
    { kind: 'fresh' },
  ];
  it.each(overtaking)('is not kept: %j', async (change) => {
    const { below, store } = await createTier();
    store.applyChange({ kind: 'fresh' });
    const found = await below.find('a/1');
    const { promise: gate, resolve: release } = Promise.withResolvers<void>();
    vi.spyOn(below, 'find').mockImplementationOnce(async () => {
      await gate;
      return found;
    });
    const overtaken = store.find('a/1');
    await below.removeKey('a/1');
    store.applyChange(change);
    release();
    expect(await overtaken).toHaveLength(1);
    expect(store.peek('a/1')).toEqual([]);
    expect(await store.find('a/1')).toEqual([]);
  });
});
