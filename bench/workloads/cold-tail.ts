/** A workload of one client whose first request is for the end of a big cold file. */

import { readPeriodic } from '../periodic-read.ts';
import { untilQuiet } from './amplification.ts';
import { type Goal, type Measurement, type Metric, startTarget, type Target, type Workload } from './workload.ts';

/** Size of the range in bytes: about that of an archive's directory. */
const tailBytes = 64 * 1024;

/** Speed of the origin's line. */
const bytesPerSecond = 50e6;

/** The file, and whether the origin supports ranges. */
export interface ColdTail {
  readonly hasRanges: boolean;
  readonly fileBytes: number;
}

const time: Metric = { key: 'timeRatio', label: 'time ÷ ideal', digits: 2, isCompared: false };
const counts: readonly Metric[] = [
  { key: 'requests', label: 'requests', digits: 0, isCompared: false },
  { key: 'originMiB', label: 'origin MiB', digits: 2, isCompared: false },
];
const milliseconds: Metric = { key: 'ms', label: 'ms', digits: 1, isCompared: true };

const legacyGoals: readonly Goal[] = [
  { key: 'timeRatio', of: 'figure', atMost: 1.1 },
  { key: 'requests', of: 'figure', atMost: 1, isCounted: true },
];
const rangeGoals: readonly Goal[] = [
  { key: 'requests', of: 'figure', atMost: 3, isCounted: true },
  { key: 'originMiB', of: 'figure', atMost: 1, isCounted: true },
];

/**
 * Creates the workload. The client sends a suffix range, as one that does not know the size. A legacy origin has to send the
 * whole file, so the ideal time is that of the file at the speed of the line. Every byte that the client gets is compared.
 */
export function createColdTail({ hasRanges, fileBytes }: ColdTail): Workload {
  const name = hasRanges ? 'cold-tail' : 'cold-tail-legacy';
  const origin = hasRanges ? 'origin with ranges' : 'legacy origin at 50 MB/s';
  return {
    name,
    number: 'W8',
    title: `the last ${tailBytes / 1024} KiB of a cold ${fileBytes / 2 ** 20} MiB file, ${origin}`,
    kind: 'speed',
    goals: hasRanges ? rangeGoals : legacyGoals,
    origin: { kind: 'periodic', sizeBytes: fileBytes, hasRanges, cutAt: [], bytesPerSecond },
    bodyBytes: tailBytes,
    metrics: hasRanges ? [milliseconds, ...counts] : [time, ...counts],
    async prepare(contestant) {
      const target = await startTarget(contestant);
      // The benchmark's own client code is warmed up for the first measured request.
      await readPeriodic(contestant.origin.port, { path: '/warm', sizeBytes: fileBytes, leaveAfterBytes: 1 });
      return (round) => measure(target, round);
    },
  };

  async function measure({ name: peerName, peer, origin }: Target, round: number): Promise<Measurement> {
    const path = `/${name}-${peerName}-${round}`;
    const before = await origin.counters();
    const startedAt = performance.now();
    await readPeriodic(peer.port, { path, sizeBytes: fileBytes, start: fileBytes - tailBytes, isSuffix: true });
    const ms = performance.now() - startedAt;
    const after = await untilQuiet(origin);
    return {
      ms,
      timeRatio: ms / 1000 / (fileBytes / bytesPerSecond),
      requests: after.requests - before.requests,
      originMiB: (after.bodyBytes - before.bodyBytes) / 2 ** 20,
    };
  }
}
