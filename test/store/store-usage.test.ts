/** The usage that a store reports. */

import { describe, expect, it } from 'vitest';
import { createMemoryStore } from '../../src/store/memory/memory-store.ts';
import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { sequentialIds } from '../support/clocks/sequential-ids.ts';
import { openTestStore } from '../support/stores/disk-store.ts';
import { FailingFileSystem } from '../support/stores/failing-file-system.ts';
import { readKey, storeSample } from '../support/stores/stored-sample.ts';

const sizeBytes = 64 * 1024;
const maxSizeBytes = 1024 * 1024;

describe('a store', () => {
  it('in memory has all its used bytes in memory', async () => {
    const now = () => 0;
    const store = createMemoryStore({ maxSizeBytes, blockSizeBytes: 16 * 1024, now, randomId: sequentialIds() });
    expect(store.readUsage()).toEqual({
      entryCount: 0,
      usedBytes: 0,
      maxSizeBytes,
      memoryBytes: 0,
      maxMemoryBytes: maxSizeBytes,
    });
    await storeSample(store, { key: 'k', sizeBytes });
    const { entryCount, usedBytes, memoryBytes } = store.readUsage();
    expect([entryCount, usedBytes]).toEqual([1, memoryBytes]);
    expect(usedBytes).toBeGreaterThanOrEqual(sizeBytes);
    await store.removeKey('k');
    expect(store.readUsage()).toMatchObject({ entryCount: 0, usedBytes: 0 });
  });

  it('on a disk has in memory only entries that were read', async () => {
    const { store: disk, clock } = await openTestStore({ maxSizeBytes });
    const store = createTieredStore(createMemoryTier({ maxSizeBytes: maxSizeBytes / 2 }), disk, () => clock.now());
    expect(store.readUsage()).toEqual({
      entryCount: 0,
      usedBytes: 0,
      maxSizeBytes,
      memoryBytes: 0,
      maxMemoryBytes: maxSizeBytes / 2,
      isWritable: true,
    });
    await storeSample(disk, { key: 'k', sizeBytes });
    expect(store.readUsage()).toMatchObject({ entryCount: 1, memoryBytes: 0 });
    expect(store.readUsage().usedBytes).toBeGreaterThanOrEqual(sizeBytes);
    await readKey(store, 'k');
    expect(store.readUsage().memoryBytes).toBeGreaterThanOrEqual(sizeBytes);
  });

  it('is not writable after a fault of its disk, until a write succeeds', async () => {
    const disk = new FailingFileSystem();
    const { store, clock } = await openTestStore({ fileSystem: disk.fileSystem });
    const isWritable = () => store.readUsage().isWritable;
    disk.writeFault = 'ENOSPC';
    await expect(storeSample(store, { key: 'k', sizeBytes })).rejects.toMatchObject({ reason: 'no_room' });
    expect(isWritable()).toBe(false);
    disk.writeFault = undefined;
    clock.advance(11_000);
    expect(isWritable()).toBe(false);
    await storeSample(store, { key: 'k', sizeBytes });
    expect(isWritable()).toBe(true);
  });
});
