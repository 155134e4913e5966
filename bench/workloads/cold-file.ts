/** A workload of many clients that request ranges of one big cold file at the same time. */

import { setTimeout as wait } from 'node:timers/promises';
import type { Span } from '../../src/bytes/span.ts';
import { seededRandom } from '../../test/support/stores/traces.ts';
import { checkedGet } from '../checked-get.ts';
import { sampleFile } from '../sample-file.ts';
import { type Measurement, type Metric, startTarget, type Target, type Workload } from './workload.ts';

const pauseMs = 10;

/** The cold file and its clients. */
export interface ColdFile {
  readonly name: string;
  readonly title: string;
  readonly fileBytes: number;
  readonly rangeBytes: number;
  readonly clients: number;
  /** Speed of the origin's line. */
  readonly bytesPerSecond: number;
}

const metrics: readonly Metric[] = [
  { key: 'timeRatio', label: 'time ÷ ideal', digits: 2, isCompared: false },
  { key: 'originRatio', label: 'origin bytes ÷ file', digits: 2, isCompared: false },
];

/**
 * Creates the workload. The origin has no ranges. Ideally it gets one request, and the last response ends when the highest
 * requested byte has arrived. Every response is compared byte by byte.
 */
export function createColdFile(of: ColdFile): Workload {
  const { name, title, fileBytes, bytesPerSecond } = of;
  return {
    name,
    title,
    number: 'W7',
    kind: 'speed',
    goals: [
      { key: 'originRatio', of: 'figure', atMost: 1, isCounted: true },
      { key: 'timeRatio', of: 'figure', atMost: 1.1 },
    ],
    origin: { kind: 'windows', patternBytes: fileBytes, bytesPerSecond },
    bodyBytes: of.rangeBytes,
    metrics,
    async prepare(contestant) {
      const target = await startTarget(contestant);
      return (round) => measure(target, round);
    },
  };

  async function measure({ name: peerName, peer, origin }: Target, round: number): Promise<Measurement> {
    const file = sampleFile(`${name}-${peerName}-${round}`, fileBytes);
    const spans = randomSpans(round, of);
    const before = await origin.counters();
    const startedAt = performance.now();
    await Promise.all(spans.map((span) => checkedGet(peer.port, file, span)));
    const seconds = (performance.now() - startedAt) / 1000;
    let after = await origin.counters();
    for (; after.running > 0; after = await origin.counters()) await wait(pauseMs);
    const idealSeconds = Math.max(...spans.map(({ end }) => end)) / bytesPerSecond;
    return {
      timeRatio: seconds / idealSeconds,
      originRatio: (after.bodyBytes - before.bodyBytes) / fileBytes,
    };
  }
}

/** Returns the ranges of a round, the same ones for all peers. */
function randomSpans(round: number, { clients, fileBytes, rangeBytes }: ColdFile): Span[] {
  const random = seededRandom(round);
  return Array.from({ length: clients }, () => {
    const start = Math.floor(random() * (fileBytes - rangeBytes + 1));
    return { start, end: start + rangeBytes };
  });
}
