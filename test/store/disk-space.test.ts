/** The room of the disk store: which writers wait for evictions, how far evictions go, and how much of the disk stays free. */

import { describe, expect, it } from 'vitest';
import { BackgroundTasks } from '../../src/store/disk/bodies/open-bodies.ts';
import { DiskSpace, type DiskSpaceOptions } from '../../src/store/disk/space/disk-space.ts';
import { openTestStore } from '../support/stores/disk-store.ts';
import { FailingFileSystem } from '../support/stores/failing-file-system.ts';
import { canOpen, storeSample } from '../support/stores/stored-sample.ts';

const block = 16 * 1024;

/** Creates a space of 1000 bytes of which 990 are taken; each step of its eviction frees 10. */
function createSpace(options: Partial<Pick<DiskSpaceOptions, 'lowWaterPercent' | 'minFreeBytes'>> = {}) {
  const taken = { allocatedBytes: 990, steps: 0, least: 0 };
  const disk = new FailingFileSystem();
  const background = new BackgroundTasks();
  const stopping = new AbortController();
  const space = new DiskSpace({
    dir: '.',
    maxSizeBytes: 1000,
    index: taken as unknown as DiskSpaceOptions['index'],
    eviction: {
      step: () => {
        taken.steps += 1;
        if (taken.allocatedBytes <= taken.least) return false;
        taken.allocatedBytes -= 10;
        return true;
      },
    } as unknown as DiskSpaceOptions['eviction'],
    fileSystem: disk.fileSystem,
    background,
    signal: stopping.signal,
    ...options,
  });
  return { space, taken, disk, background, stopping };
}

describe('an eviction', () => {
  it('lets a writer go on as soon as there is room, and continues to the low-water mark', async () => {
    const { space, taken, background } = createSpace({ lowWaterPercent: 50 });
    await space.reservation().growTo(25);
    expect(taken.allocatedBytes).toBeLessThanOrEqual(975);
    expect(taken.allocatedBytes).toBeGreaterThan(900);
    await background.settled();
    expect(taken.allocatedBytes).toBe(470);
  });

  it.each([
    [undefined, 930],
    [95, 930],
    [100, 980],
    [10, 80],
  ])('with a low-water mark of %s percent leaves %i bytes', async (lowWaterPercent, left) => {
    const { space, taken, background } = createSpace({ lowWaterPercent });
    await space.reservation().growTo(20);
    await background.settled();
    expect(taken.allocatedBytes).toBe(left);
  });

  it('does not begin below the high-water mark', async () => {
    const { space, taken, background } = createSpace({ lowWaterPercent: 50 });
    await space.reservation().growTo(10);
    await background.settled();
    expect(taken).toMatchObject({ allocatedBytes: 990, steps: 0 });
  });

  it('serves many writers at once', async () => {
    const { space, taken, background } = createSpace();
    // Otherwise the first writer waits for the measurement, and may reserve only after the eviction for the others.
    await space.measure();
    await Promise.all(Array.from({ length: 50 }, () => space.reservation().growTo(10)));
    await background.settled();
    expect(taken.allocatedBytes).toBe(450);
  });

  it('admits as many writers as fit when nothing more can be evicted', async () => {
    const { space, taken, background } = createSpace();
    taken.least = 900;
    const growing = Array.from({ length: 20 }, () => space.reservation().growTo(10));
    const settled = await Promise.allSettled(growing);
    expect(settled.filter(({ status }) => status === 'fulfilled')).toHaveLength(10);
    await background.settled();
    expect(taken.allocatedBytes).toBe(900);
    await expect(space.reservation().growTo(1)).rejects.toMatchObject({ name: 'StoreFault', reason: 'no_room' });
  });

  it('ends when the store is closed', async () => {
    const { space, taken, background, stopping } = createSpace({ lowWaterPercent: 10 });
    await space.reservation().growTo(20);
    stopping.abort();
    await background.settled();
    expect(taken.allocatedBytes).toBeGreaterThan(900);
  });
});

describe('a disk with a minimum of free space', () => {
  it.each([
    [10_000_000, 0],
    [10_005_000, 1],
    [11_000_000, 1],
    [1_000_000, 0],
  ])('and %i bytes free lets the store grow: %i', async (freeBytes, canGrow) => {
    const { space, taken, disk } = createSpace({ minFreeBytes: 10_000_000 });
    disk.freeBytes = freeBytes;
    taken.allocatedBytes = 900;
    await space.reservation().growTo(20);
    expect(taken.steps > 0).toBe(canGrow === 0);
  });

  it('is not filled further once that is reached', async () => {
    const disk = new FailingFileSystem();
    const minFreeBytes = 1024 ** 3;
    const { store } = await openTestStore({ fileSystem: disk.fileSystem, minFreeBytes });
    for (let at = 0; at < 10; at += 1) await storeSample(store, { key: `k${at}`, sizeBytes: 4 * block });
    disk.freeBytes = minFreeBytes;
    // The free space is measured only now and then.
    for (let at = 0; at < 300; at += 1) await storeSample(store, { key: `new${at}`, sizeBytes: 4 * block });
    expect(await canOpen(store, 'k0')).toBe(false);
    expect(await canOpen(store, 'new299')).toBe(true);
  });
});
