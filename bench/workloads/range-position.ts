/** A workload that tests whether the cost of a range depends on its position or on the size of the entry. */

import { checkedGet, timedGet } from '../checked-get.ts';
import { medianOf } from '../median.ts';
import { blockBytes } from '../peers/peer.ts';
import { type SampleFile, sampleFile } from '../sample-file.ts';
import { untilHit } from './hits.ts';
import { type Measurement, type Metric, startTarget, type Target, type Workload } from './workload.ts';

/** Two entries, and their ranges. */
export interface RangePosition {
  readonly name: string;
  readonly title: string;
  readonly largeBytes: number;
  readonly smallBytes: number;
  /** At most a block, so that each range lies in one. */
  readonly rangeBytes: number;
  /** Less than the blocks that are read in one turn, so that every block comes from the disk. */
  readonly memoryBytes: number;
}

const metrics: readonly Metric[] = [
  { key: 'sizeRatio', label: 'large ÷ small', digits: 2, isCompared: false },
  { key: 'middleRatio', label: 'middle ÷ start', digits: 2, isCompared: false },
  { key: 'endRatio', label: 'end ÷ start', digits: 2, isCompared: false },
  { key: 'ms', label: 'ms/range', digits: 2, isCompared: true },
];

const positions = ['start', 'middle', 'end'] as const;

/** A position in an entry, and the times of its ranges. */
interface Place {
  readonly file: SampleFile;
  readonly size: 'large' | 'small';
  readonly position: (typeof positions)[number];
  readonly firstBlock: number;
  readonly times: number[];
}

/** Creates the workload. Every response is compared byte by byte, after its time was taken. */
export function createRangePosition(of: RangePosition): Workload {
  const { name, title, largeBytes, smallBytes, rangeBytes, memoryBytes } = of;
  const large = sampleFile(`${name}-large`, largeBytes);
  const small = sampleFile(`${name}-small`, smallBytes);
  // In one turn no block of the small entry is read twice.
  const blocksPerPlace = Math.floor(smallBytes / blockBytes / positions.length);
  const placesOf = (file: SampleFile, size: Place['size'], sizeBytes: number): Place[] => {
    const free = sizeBytes / blockBytes - blocksPerPlace;
    return positions.map((position, at) => {
      const firstBlock = Math.floor((free * at) / (positions.length - 1));
      return { file, size, position, firstBlock, times: [] };
    });
  };
  return {
    name,
    title,
    kind: 'speed',
    origin: { kind: 'windows', patternBytes: largeBytes, bytesPerSecond: undefined },
    bodyBytes: rangeBytes,
    goals: [],
    metrics,
    async prepare(contestant) {
      const target = await startTarget(contestant, { memoryBytes });
      for (const file of [large, small]) {
        await untilHit(target, ({ peer }) => checkedGet(peer.port, file));
        await untilHit(target, ({ peer }) => checkedGet(peer.port, file, { start: 0, end: rangeBytes }));
      }
      return () => measure(target);
    },
  };

  async function measure({ peer, seconds }: Target): Promise<Measurement> {
    const places = [...placesOf(large, 'large', largeBytes), ...placesOf(small, 'small', smallBytes)];
    const endAt = performance.now() + seconds * 1000;
    do {
      for (let at = 0; at < blocksPerPlace; at += 1) {
        for (const { file, firstBlock, times } of places) {
          const start = (firstBlock + at) * blockBytes;
          times.push(await timedGet(peer.port, file, { start, end: start + rangeBytes }));
        }
      }
    } while (performance.now() < endAt);
    return figures(places);
  }
}

function figures(places: readonly Place[]): Measurement {
  const median = (isMeant: (place: Place) => boolean) =>
    medianOf(places.filter(isMeant).flatMap(({ times }) => times)) ?? Number.NaN;
  const at = (position: Place['position']) => median((place) => place.position === position);
  return {
    sizeRatio: median(({ size }) => size === 'large') / median(({ size }) => size === 'small'),
    middleRatio: at('middle') / at('start'),
    endRatio: at('end') / at('start'),
    ms: median(() => true),
  };
}
