/** Sidecars: they are read page by page, and sums that are set meanwhile stay. */

import { truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { encodeSum, Sidecar, sumOf } from '../../src/store/disk/bodies/block-sums.ts';
import { temporaryDirectory } from '../support/stores/disk-store.ts';
import { FailingFileSystem } from '../support/stores/failing-file-system.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const sumAt = (index: number) => sumOf('generation', index, patternBytes(index, index + 10));

/** Opens the sidecar of a body with all its blocks, truncated to `cutBytes` if given. */
async function openSidecar(blockCount: number, cutBytes?: number) {
  const path = join(await temporaryDirectory(), 'sums');
  await writeFile(path, Buffer.concat(Array.from({ length: blockCount }, (_, index) => encodeSum(sumAt(index)))));
  if (cutBytes !== undefined) await truncate(path, cutBytes);
  const disk = new FailingFileSystem();
  const sidecar = await Sidecar.open(disk.fileSystem, path, blockCount);
  onTestFinished(() => sidecar.close());
  return { disk, sidecar };
}

describe('a sidecar', () => {
  const rows: readonly [blockCount: number, index: number, isKnownAtOnce: boolean][] = [
    [1, 0, true],
    [512, 511, true],
    [513, 0, false],
    [513, 512, false],
    [5000, 511, false],
    [5000, 512, false],
    [5000, 4999, false],
  ];
  it.each(rows)(
    'of %i blocks has the sum of block %i; without another read: %s',
    async (blockCount, index, isKnownAtOnce) => {
      const { disk, sidecar } = await openSidecar(blockCount);
      expect(sidecar.knows(index)).toBe(isKnownAtOnce);
      await Promise.all([sidecar.load(index), sidecar.load(index)]);
      await sidecar.load(index);
      expect([sidecar.get(index), sidecar.get(blockCount)]).toEqual([sumAt(index), undefined]);
      expect(disk.reads).toBe(1);
      expect(disk.bytesRead).toBeLessThanOrEqual(4096);
    },
  );

  it('has the sums of all blocks after it was read as a whole, and reads no more then', async () => {
    const { disk, sidecar } = await openSidecar(1200);
    await sidecar.load(600);
    sidecar.set(600, undefined);
    await sidecar.loadAll();
    disk.readFault = 'EIO';
    await sidecar.load(3);
    for (const index of [0, 511, 512, 1023, 1024, 1199]) expect(sidecar.get(index)).toEqual(sumAt(index));
    expect(sidecar.get(600)).toBeUndefined();
  });

  it('reports blocks that were cut off as absent', async () => {
    const { sidecar } = await openSidecar(1200, 600 * 8 + 5);
    for (const index of [599, 600, 1100]) await sidecar.load(index);
    expect([599, 600, 1100].map((index) => sidecar.get(index))).toEqual([sumAt(599), undefined, undefined]);
    await sidecar.loadAll();
    expect([0, 599, 600, 1199].map((index) => sidecar.get(index) !== undefined)).toEqual([true, true, false, false]);
  });

  it('keeps sums that are set while an earlier read of their page is under way', async () => {
    const { disk, sidecar } = await openSidecar(1200);
    const { promise, resolve } = Promise.withResolvers<void>();
    disk.readGate = promise;
    const late = sidecar.load(700);
    disk.readGate = Promise.resolve();
    await sidecar.loadAll();
    sidecar.set(700, sumAt(1));
    sidecar.set(701, undefined);
    resolve();
    await late;
    expect([sidecar.get(700), sidecar.get(701)]).toEqual([sumAt(1), undefined]);
  });

  it('rejects when a page cannot be read, and reads it again next time', async () => {
    const { disk, sidecar } = await openSidecar(1200);
    disk.readFault = 'EIO';
    await expect(sidecar.load(700)).rejects.toMatchObject({ code: 'EIO' });
    disk.readFault = undefined;
    await sidecar.load(700);
    expect(sidecar.get(700)).toEqual(sumAt(700));
  });
});
