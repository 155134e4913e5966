/** All workloads. */

import { createAmplifications } from './amplifications.ts';
import { createColdFile } from './cold-file.ts';
import { createHitWorkload } from './hits.ts';
import { createMissWorkload } from './misses.ts';
import { createRangePosition } from './range-position.ts';
import type { Workload } from './workload.ts';

const KiB = 1024;
const MiB = 1024 * KiB;

/** Sizes of the files, in bytes. */
interface Sizes {
  readonly file: number;
  readonly bigFile: number;
  readonly coldFile: number;
  readonly hugeFile: number;
  readonly smallFile: number;
}

const fullSizes: Sizes = {
  file: 64 * MiB,
  bigFile: 256 * MiB,
  coldFile: 100 * MiB,
  hugeFile: 1024 * MiB,
  smallFile: 16 * MiB,
};
/** Enough to have several blocks. */
const shortSizes: Sizes = {
  file: 4 * MiB,
  bigFile: 8 * MiB,
  coldFile: 8 * MiB,
  hugeFile: 64 * MiB,
  smallFile: 4 * MiB,
};

/** The workloads in the order in which they run. The short ones are for their checks. */
export function createWorkloads({ isShort }: { readonly isShort: boolean }): readonly Workload[] {
  const { file, bigFile, coldFile, hugeFile, smallFile } = isShort ? shortSizes : fullSizes;
  return [
    createHitWorkload({
      name: 'object-1k',
      title: 'a whole object of 1 KiB, 64 connections',
      fileBytes: KiB,
      rangeBytes: undefined,
      connections: 64,
      unit: 'requests',
    }),
    createHitWorkload({
      name: 'ranges-1k',
      title: `random 1 KiB ranges of a ${file / MiB} MiB entry, 64 connections`,
      fileBytes: file,
      rangeBytes: KiB,
      connections: 64,
      unit: 'requests',
    }),
    createHitWorkload({
      name: 'ranges-64k',
      title: `random 64 KiB ranges of a ${bigFile / MiB} MiB entry, 64 connections`,
      fileBytes: bigFile,
      rangeBytes: 64 * KiB,
      connections: 64,
      unit: 'requests',
    }),
    createHitWorkload({
      name: 'ranges-1m',
      title: `random 1 MiB ranges of a ${bigFile / MiB} MiB entry, 32 connections`,
      fileBytes: bigFile,
      rangeBytes: MiB,
      connections: 32,
      unit: 'requests',
    }),
    createHitWorkload({
      name: 'downloads',
      title: `whole downloads of ${file / MiB} MiB, 16 at a time`,
      fileBytes: file,
      rangeBytes: undefined,
      connections: 16,
      unit: 'gigabytes',
    }),
    createMissWorkload({
      name: 'misses',
      title: 'distinct files of 64 KiB, each asked for once, 64 connections',
      fileBytes: 64 * KiB,
      connections: 64,
    }),
    createColdFile({
      name: 'cold-file',
      title: `50 clients at random 64 KiB ranges of a cold ${coldFile / MiB} MiB file, legacy origin at 50 MB/s`,
      fileBytes: coldFile,
      rangeBytes: 64 * KiB,
      clients: 50,
      bytesPerSecond: 50e6,
    }),
    createRangePosition({
      name: 'range-position',
      title: `64 KiB ranges at the start, middle and end of ${hugeFile / MiB} and ${smallFile / MiB} MiB entries on the disk, one client`,
      largeBytes: hugeFile,
      smallBytes: smallFile,
      rangeBytes: 64 * KiB,
      memoryBytes: 4 * MiB,
    }),
    ...createAmplifications({ isShort }),
  ];
}
