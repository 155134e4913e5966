/** A workload that measures the time from a peer's start to its first hit, with very many entries in the cache. */

import { execFileSync } from 'node:child_process';
import { checkedGet, closeConnections } from '../checked-get.ts';
import { BenchFault } from '../fault.ts';
import type { RunningPeer } from '../peers/peer.ts';
import type { SampleFile } from '../sample-file.ts';
import { untilHit } from './hits.ts';
import { type Contestant, type Measurement, type Metric, startTarget, type Workload } from './workload.ts';

const objectBytes = 1024;

const metrics: readonly Metric[] = [
  { key: 'firstMs', label: 'first hit ms', digits: 0, isCompared: true },
  { key: 'laterMs', label: 'a later one ms', digits: 1, isCompared: true },
];

/** Creates the workload. The entries are copies of one entry under other keys. Each start requests another copy. */
export function createStartWorkload({ entries }: { readonly entries: number }): Workload {
  const name = 'start-million';
  const pathOf = (number: number) => `/${name}-${String(number).padStart(7, '0')}/0-${objectBytes}`;
  const fileOf = (number: number): SampleFile => ({ path: pathOf(number), window: { start: 0, end: objectBytes } });
  return {
    name,
    number: 'W9',
    title: `from its start to the first hit, with ${entries.toLocaleString('en-GB')} entries of 1 KiB in its cache`,
    kind: 'speed',
    goals: [{ key: 'firstMs', of: 'figure', atMost: 1000 }],
    origin: { kind: 'windows', patternBytes: objectBytes, bytesPerSecond: undefined },
    bodyBytes: objectBytes,
    metrics,
    async prepare(contestant) {
      if (contestant.multiply === undefined)
        throw new BenchFault('the benchmark cannot fill its cache with that many entries');
      const target = await startTarget(contestant);
      await untilHit(target, ({ peer }) => checkedGet(peer.port, fileOf(0)));
      closeConnections();
      await target.peer[Symbol.asyncDispose]();
      await contestant.multiply(target.peer.dir, entries, pathOf);
      // Without it, a starting peer would wait until the disk has written the copies.
      execFileSync('sync');
      return (round) => measure(contestant, target.peer, round);
    },
  };

  async function measure(contestant: Contestant, earlier: RunningPeer, round: number): Promise<Measurement> {
    const before = await contestant.origin.counters();
    const startedAt = performance.now();
    await using peer = await contestant.start({ again: earlier });
    await checkedGet(peer.port, fileOf(entries - round));
    const firstMs = performance.now() - startedAt;
    const laterAt = performance.now();
    await checkedGet(peer.port, fileOf(Math.floor(entries / 2) - round));
    const laterMs = performance.now() - laterAt;
    const after = await contestant.origin.counters();
    closeConnections();
    if (after.requests > before.requests) throw new BenchFault(`${contestant.name}: a miss where all should be hits`);
    return { firstMs, laterMs };
  }
}
