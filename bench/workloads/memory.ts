/** A workload that measures a peer's memory: idle, per open connection, and with a hot entry. */

import { setTimeout as wait } from 'node:timers/promises';
import { checkedGet } from '../checked-get.ts';
import { IdleConnections } from '../idle-connections.ts';
import { residentBytes } from '../resident-memory.ts';
import { sampleFile } from '../sample-file.ts';
import { untilHit } from './hits.ts';
import { runSteadyLoad } from './steady-load.ts';
import { type Contestant, type Measurement, type Metric, startTarget, type Target, type Workload } from './workload.ts';

/** Sizes in bytes, and the number of connections opened before the first reading of the memory, and after it. */
export interface MemoryWorkload {
  readonly hotBytes: number;
  readonly memoryBytes: number;
  readonly firstConnections: number;
  readonly furtherConnections: number;
  /** Time before each reading, for a peer to give memory back to the system. */
  readonly settleMs: number;
}

const objectBytes = 4096;
const rangeBytes = 64 * 1024;
const MiB = 2 ** 20;

const metrics: readonly Metric[] = [
  { key: 'perConnectionKiB', label: 'KiB/connection', digits: 1, isCompared: true },
  { key: 'idleMiB', label: 'idle MiB', digits: 1, isCompared: true },
  { key: 'hotMiB', label: 'hot MiB', digits: 0, isCompared: false },
  { key: 'hotRatio', label: 'hot ÷ (idle + configured)', digits: 2, isCompared: false },
];

/**
 * Creates the workload. Each connection has received one response. The first connections are not counted, because of the
 * one-time costs of the first requests. The hot entry is larger than the configured memory.
 */
export function createMemoryWorkload(of: MemoryWorkload): Workload {
  const { hotBytes, memoryBytes, firstConnections, furtherConnections, settleMs } = of;
  const small = sampleFile('memory-small', objectBytes);
  const hot = sampleFile('memory-hot', hotBytes);
  return {
    name: 'memory',
    number: 'W10',
    title: `idle; for each of ${furtherConnections} idle connections; with a ${hotBytes / MiB} MiB entry hot, ${memoryBytes / MiB} MiB configured`,
    kind: 'speed',
    goals: [
      { key: 'perConnectionKiB', of: 'ratio', atMost: 1.5 },
      { key: 'hotRatio', of: 'figure', atMost: 1.25 },
    ],
    origin: { kind: 'windows', patternBytes: hotBytes, bytesPerSecond: undefined },
    bodyBytes: rangeBytes,
    metrics,
    prepare: async (contestant) => () => measure(contestant),
  };

  /** Measures one round, with a new process. */
  async function measure(contestant: Contestant): Promise<Measurement> {
    const target = await startTarget(contestant, { memoryBytes });
    await using _ = target.peer;
    await wait(settleMs);
    const idle = residentBytes(target.peer.pid);
    const perConnection = await connectionBytes(target);
    await untilHit(target, ({ peer }) => checkedGet(peer.port, hot));
    await runSteadyLoad(target, {
      request: { kind: 'ranges', file: hot, sizeBytes: rangeBytes },
      connections: 64,
      unit: 'requests',
    });
    const busy = residentBytes(target.peer.pid);
    return {
      perConnectionKiB: perConnection === undefined ? undefined : perConnection / 1024,
      idleMiB: idle === undefined ? undefined : idle / MiB,
      hotMiB: busy === undefined ? undefined : busy / MiB,
      hotRatio: busy === undefined || idle === undefined ? undefined : busy / (idle + memoryBytes),
    };
  }

  async function connectionBytes(target: Target): Promise<number | undefined> {
    const { peer } = target;
    await untilHit(target, ({ peer }) => checkedGet(peer.port, small));
    using connections = new IdleConnections();
    await connections.open(peer.port, small, firstConnections);
    await wait(settleMs);
    const before = residentBytes(peer.pid);
    await connections.open(peer.port, small, furtherConnections);
    await wait(settleMs);
    const after = residentBytes(peer.pid);
    return before === undefined || after === undefined ? undefined : (after - before) / furtherConnections;
  }
}
