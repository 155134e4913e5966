/** The amplification workloads. */

import { type Amplification, createAmplification, type Reader } from './amplification.ts';
import type { Workload } from './workload.ts';

const KiB = 1024;
const MiB = 1024 * KiB;

/** Sizes in bytes. */
interface Sizes {
  readonly herdFile: number;
  readonly seekFile: number;
  readonly cutFile: number;
}

const fullSizes: Sizes = { herdFile: 64 * MiB, seekFile: 256 * MiB, cutFile: 64 * MiB };
/** The file of the seeks is still so large that fetching the whole would not pay. */
const shortSizes: Sizes = { herdFile: 8 * MiB, seekFile: 96 * MiB, cutFile: 12 * MiB };

const clients = 50;
const rangeFileBytes = 1024 * MiB;
const rangeBytes = 64 * KiB;
const ranges = 100;
const seeks = 20;
/** Bytes that a player reads before its user seeks. */
const viewedBytes = 3 * MiB;
const cuts = 5;

/** Creates the workloads in the order in which they run. */
export function createAmplifications({ isShort }: { readonly isShort: boolean }): readonly Workload[] {
  const sizes = isShort ? shortSizes : fullSizes;
  const { herdFile } = sizes;
  const all: readonly Amplification[] = [
    {
      name: 'amplification-herd',
      title: `${clients} clients that download one cold file of ${herdFile / MiB} MiB at once, legacy origin`,
      goal: { key: 'amplification', of: 'figure', atMost: 1.001, isCounted: true },
      origin: { sizeBytes: herdFile, hasRanges: false, cutAt: [] },
      play: async (read) => void (await Promise.all(Array.from({ length: clients }, () => read({})))),
    },
    rangeWorkload({ isReadAgain: false }),
    rangeWorkload({ isReadAgain: true }),
    seekWorkload(sizes, true),
    seekWorkload(sizes, false),
    cutWorkload(sizes, true),
    cutWorkload(sizes, false),
  ];
  return all.map(createAmplification);
}

/** Reading the ranges once shows the excess bytes. Reading them again shows whether they were stored: it should cost nothing. */
function rangeWorkload({ isReadAgain }: { readonly isReadAgain: boolean }): Amplification {
  const again = isReadAgain ? ', then all of them again' : '';
  return {
    name: isReadAgain ? 'amplification-ranges-again' : 'amplification-ranges',
    title: `${ranges} random 64 KiB ranges of a cold file of ${rangeFileBytes / MiB} MiB, one by one${again}`,
    ...(isReadAgain ? {} : { goal: { key: 'perBlocks', of: 'figure', atMost: 1.1, isCounted: true } }),
    origin: { sizeBytes: rangeFileBytes, hasRanges: true, cutAt: [] },
    async play(read, random) {
      const starts = Array.from({ length: ranges }, () => Math.floor(random() * (rangeFileBytes - rangeBytes + 1)));
      for (const start of isReadAgain ? [...starts, ...starts] : starts) await read({ start, end: start + rangeBytes });
    },
  };
}

function seekWorkload({ seekFile }: Sizes, hasRanges: boolean): Amplification {
  const view = (read: Reader, start: number) => read({ start, leaveAfterBytes: viewedBytes });
  return {
    name: hasRanges ? 'amplification-seeks' : 'amplification-seeks-legacy',
    title: `a player that seeks ${seeks} times in a cold file of ${seekFile / MiB} MiB${originOf(hasRanges)}`,
    origin: { sizeBytes: seekFile, hasRanges, cutAt: [] },
    async play(read, random) {
      await view(read, 0);
      for (let count = 0; count < seeks; count += 1) await view(read, Math.floor(random() * (seekFile - viewedBytes)));
    },
  };
}

function cutWorkload({ cutFile }: Sizes, hasRanges: boolean): Amplification {
  const cutAt = Array.from({ length: cuts }, (_, index) => Math.floor(((index + 1) * cutFile) / (cuts + 1)) + 1);
  return {
    name: hasRanges ? 'amplification-cuts' : 'amplification-cuts-legacy',
    title: `a download of ${cutFile / MiB} MiB that the origin cuts off ${cuts} times${originOf(hasRanges)}`,
    ...(hasRanges ? { goal: { key: 'amplification', of: 'figure', atMost: 1.05, isCounted: true } } : {}),
    origin: { sizeBytes: cutFile, hasRanges, cutAt },
    play: (read) => read({}),
  };
}

function originOf(hasRanges: boolean): string {
  return hasRanges ? '' : ', legacy origin';
}
