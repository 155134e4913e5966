/** A workload of ranges at half of a peer's highest rate: the latency at the 99th and the 99.9th percentile. */

import { checkedGet } from '../checked-get.ts';
import { BenchFault } from '../fault.ts';
import { subject } from '../rounds.ts';
import { sampleFile } from '../sample-file.ts';
import { checkSample, untilHit } from './hits.ts';
import { runSteadyLoad, type SteadyLoad } from './steady-load.ts';
import { type Measurement, type Metric, startTarget, type Workload } from './workload.ts';

/** The entry and its ranges. */
export interface LatencyWorkload {
  readonly fileBytes: number;
  readonly rangeBytes: number;
  readonly connections: number;
  /** Whether Rangeway has its default options, and all peers get half of Rangeway's highest rate. */
  readonly isDefault: boolean;
}

const metrics: readonly Metric[] = [
  { key: 'p99Ms', label: 'p99 ms', digits: 2, isCompared: true },
  { key: 'p999Ms', label: 'p99.9 ms', digits: 2, isCompared: true },
  { key: 'p50Ms', label: 'p50 ms', digits: 2, isCompared: true },
  { key: 'rate', label: 'req/s', digits: 0, isCompared: false },
  { key: 'busyPercent', label: 'busy %', digits: 0, isCompared: false },
  { key: 'othersPercent', label: 'others %', digits: 0, isCompared: false },
];

/**
 * Creates the workload. Requests are sent evenly, at half of the peer's own highest rate (with `isDefault`, Rangeway's), whether
 * or not earlier ones were answered. The latency of a request that waits for a connection counts from the time when it was due.
 */
export function createLatencyWorkload({ fileBytes, rangeBytes, connections, isDefault }: LatencyWorkload): Workload {
  const name = isDefault ? 'latency-default' : 'latency';
  let ownRate: number | undefined;
  const file = sampleFile(name, fileBytes);
  const load: SteadyLoad = {
    request: { kind: 'ranges', file, sizeBytes: rangeBytes },
    connections,
    unit: 'requests',
  };
  return {
    name,
    number: isDefault ? 'W24' : 'W11',
    title: `random ${rangeBytes / 1024} KiB ranges of a ${fileBytes / 2 ** 20} MiB entry, at half of ${isDefault ? `Rangeway's highest rate, default options` : `each peer's own highest rate`}`,
    kind: 'speed',
    goals: isDefault
      ? [{ key: 'p99Ms', of: 'ratio', atMost: 3 }]
      : [
          { key: 'p99Ms', of: 'ratio', atMost: 1.5 },
          { key: 'p999Ms', of: 'ratio', atMost: 1.5 },
        ],
    ...(isDefault && { hasFloor: true }),
    origin: { kind: 'windows', patternBytes: fileBytes, bytesPerSecond: undefined },
    bodyBytes: rangeBytes,
    metrics,
    async prepare(contestant) {
      const target = await startTarget(contestant, isDefault ? { isDefault } : {});
      const run = async (ratePerSecond?: number): Promise<Measurement> => {
        const paced = ratePerSecond === undefined ? load : { ...load, ratePerSecond };
        const { originRequests, measurement } = await runSteadyLoad(target, paced);
        if (originRequests > 0) throw new BenchFault(`${target.name}: ${originRequests} misses among hits`);
        return measurement;
      };
      await untilHit(target, ({ peer }) => checkedGet(peer.port, file));
      await checkSample(target.peer.port, file, rangeBytes);
      await target.warmUp(run);
      // Rangeway is prepared first, so its rate is known for the other peers.
      const rate = ownRate ?? (await run())['rate'] ?? 1;
      if (isDefault && target.name === subject) ownRate = rate;
      return () => run(rate / 2);
    },
  };
}
