/** A workload of one client that wants the end of a big file first, of which the proxy has nothing yet. */

import { readPeriodic } from '../periodic-read.ts';
import { untilQuiet } from './amplification.ts';
import { type Goal, type Measurement, type Metric, startTarget, type Target, type Workload } from './workload.ts';

/** What an archive's directory takes. */
const tailBytes = 64 * 1024;

/** The speed of the origin's line. */
const bytesPerSecond = 50e6;

/** A file, and whether the origin gives parts of it. */
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
 * Makes the workload. The client asks by a suffix, since it does not know the size. A legacy origin has to send all that
 * comes before: the ideal is the file at the speed of its line. Every byte is compared.
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
      // This client is to be quick at its first measured request, too.
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
