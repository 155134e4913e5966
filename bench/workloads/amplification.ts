/** Creates workloads that count the bytes that the origin sent for the bytes that clients got. */

import { setTimeout as wait } from 'node:timers/promises';
import { type Span, SpanSet, spanSize } from '../../src/bytes/span.ts';
import { seededRandom } from '../../test/support/stores/traces.ts';
import type { Origin, OriginCounters, PeriodicOriginOptions } from '../origin/origin.ts';
import { blockBytes } from '../peers/peer.ts';
import { type PeriodicRead, readPeriodic } from '../periodic-read.ts';
import { type Goal, type Measurement, type Metric, startTarget, type Target, type Workload } from './workload.ts';

/** Speed of the origin's line: so slow that the buffers between origin and client stay nearly empty, so bytes sent had been requested. */
const bytesPerSecond = 50e6;

/** A fill may go on after its clients have left. The origin is idle after `quietLooks` readings of its counters without a change. */
const quietLooks = 10;
const lookEveryMs = 30;

/** Reads on a new connection, as `readPeriodic` does. */
export type Reader = (read: Omit<PeriodicRead, 'path' | 'sizeBytes'>) => Promise<void>;

/** An amplification workload. */
export interface Amplification {
  readonly name: string;
  readonly title: string;
  readonly goal?: Goal;
  readonly origin: Pick<PeriodicOriginOptions, 'sizeBytes' | 'hasRanges' | 'cutAt'>;
  /** Runs the clients on the file. `random` returns numbers in [0, 1), the same ones for all peers. */
  readonly play: (reader: Reader, random: () => number) => Promise<void>;
}

const metrics: readonly Metric[] = [
  { key: 'amplification', label: 'amplification', digits: 3, isCompared: false },
  { key: 'perBlocks', label: '÷ blocks', digits: 3, isCompared: false },
  { key: 'originMiB', label: 'origin MiB', digits: 1, isCompared: false },
  { key: 'clientMiB', label: 'distinct MiB', digits: 1, isCompared: false },
  { key: 'requests', label: 'requests', digits: 0, isCompared: false },
];

/** Creates the workload. Every round uses a new file, of which the proxy has stored nothing. */
export function createAmplification({ name, title, goal, origin, play }: Amplification): Workload {
  const { sizeBytes } = origin;
  return {
    name,
    title,
    kind: 'amplification',
    goals: goal === undefined ? [] : [goal],
    origin: { kind: 'periodic', bytesPerSecond, ...origin },
    bodyBytes: sizeBytes,
    metrics,
    async prepare(contestant) {
      const target = await startTarget(contestant);
      return (round) => measure(target, round);
    },
  };

  async function measure(target: Target, round: number): Promise<Measurement> {
    const path = `/${name}-${target.name}-${round}`;
    const read = new SpanSet();
    const before = await target.origin.counters();
    await play(
      async (wanted) => read.add(await readPeriodic(target.peer.port, { ...wanted, path, sizeBytes })),
      seededRandom(round),
    );
    const after = await untilQuiet(target.origin);
    const originBytes = after.bodyBytes - before.bodyBytes;
    return {
      amplification: originBytes / read.size,
      perBlocks: originBytes / touchedBytes(read, sizeBytes),
      originMiB: originBytes / 2 ** 20,
      clientMiB: read.size / 2 ** 20,
      requests: after.requests - before.requests,
    };
  }
}

/** Returns the bytes of all blocks that these spans touch. */
function touchedBytes(spans: Iterable<Span>, sizeBytes: number): number {
  const touched = new SpanSet();
  for (const { start, end } of spans) {
    const lastEnd = Math.ceil(end / blockBytes) * blockBytes;
    touched.add({ start: Math.floor(start / blockBytes) * blockBytes, end: Math.min(lastEnd, sizeBytes) });
  }
  return [...touched].reduce((sum, span) => sum + spanSize(span), 0);
}

/** Waits until the origin is idle. Resolves with its counters. */
export async function untilQuiet(origin: Origin): Promise<OriginCounters> {
  let last = await origin.counters();
  for (let looks = 0; looks < quietLooks; ) {
    await wait(lookEveryMs);
    const now = await origin.counters();
    const isQuiet = now.running === 0 && now.requests === last.requests && now.bodyBytes === last.bodyBytes;
    looks = isQuiet ? looks + 1 : 0;
    last = now;
  }
  return last;
}
