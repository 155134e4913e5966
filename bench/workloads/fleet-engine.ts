/** Hits whose bytes come from the engine, through one node and several, beside what the engine sends to a bare client. */

import type { Span } from '../../src/bytes/span.ts';
import { checkedGet } from '../checked-get.ts';
import { type Engine, startEngine } from '../engine/engine.ts';
import { benchmarkGets } from '../engine/redis-benchmark.ts';
import { BenchFault } from '../fault.ts';
import type { RangesPlan } from '../load/load.ts';
import type { RunningPeer } from '../peers/peer.ts';
import { subject } from '../rounds.ts';
import { sampleFile } from '../sample-file.ts';
import { fleetHost, fleetMetrics, latencyMetrics, runFleetLoad, shareMetrics } from './fleet-load.ts';
import { untilHit } from './hits.ts';
import type { Contestant, Measurement, Round, Workload } from './workload.ts';

/** The rows: the number of nodes that are loaded, and where ranges begin. */
const allRows: Readonly<Record<string, { readonly nodes: number; readonly isAligned: boolean }>> = {
  [subject]: { nodes: 1, isAligned: true },
  '2 nodes': { nodes: 2, isAligned: true },
  '3 nodes': { nodes: 3, isAligned: true },
  'any offset': { nodes: 1, isAligned: false },
};
const bareRow = 'redis-benchmark';

/** Memory of a node: the least that it accepts, so that hardly a block is in it. */
const nodeBytes = 1_000_000;
/** Number of connections of all clients together, and of redis-benchmark. */
const connections = 64;
/** Number of responses of each node that are compared byte by byte. */
const checkedAnswers = 16;

/** The file whose ranges are requested, and their size. */
export interface FleetEngine {
  readonly fileBytes: number;
  /** The size of a block in the engine. */
  readonly rangeBytes: number;
  /** Rows with more nodes are left out. */
  readonly mostNodes: number;
}

/** What all rows share. */
interface Fleet {
  readonly engine: Engine;
  readonly nodes: readonly RunningPeer[];
}

/** Creates the workload. All programs share all cores: the engine, the nodes and the clients work at the same time. */
export function createFleetEngine({ fileBytes, rangeBytes, mostNodes }: FleetEngine): Workload {
  const rows = Object.fromEntries(Object.entries(allRows).filter(([, { nodes }]) => nodes <= mostNodes));
  const name = 'fleet-engine';
  const file = sampleFile(name, fileBytes);
  let started: Promise<Fleet> | undefined;
  return {
    name,
    number: 'W26',
    title: `random ${rangeBytes / 1024} KiB ranges of a ${fileBytes / 2 ** 20} MiB entry in the engine, ${connections} connections; all on the same cores`,
    kind: 'speed',
    rows: { names: [...Object.keys(rows), bareRow], yardstick: bareRow, needsEngine: true },
    goals: [
      { key: 'rate', of: 'ratio', atLeast: 0.5 },
      { key: 'engineRatio', of: 'figure', atMost: 1.1 },
      // Proves that hits come from the engine: a few are in memory.
      { key: 'gets', of: 'figure', atLeast: 0.75, isCounted: true },
    ],
    origin: { kind: 'windows', patternBytes: fileBytes, bytesPerSecond: undefined },
    bodyBytes: rangeBytes,
    isOurs: true,
    metrics: [...fleetMetrics, ...shareMetrics, ...latencyMetrics],
    async prepare(contestant) {
      started ??= start(contestant);
      const { engine, nodes } = await started;
      const run = roundOf(contestant, engine, nodes);
      // One load on each node is enough: the node that is loaded alone is the first one of all rows.
      if (rows[contestant.name]?.isAligned === true) await contestant.warmUp(() => run(0));
      return run;
    },
  };

  async function start(contestant: Contestant): Promise<Fleet> {
    const { everyCore: cores } = contestant;
    const engine = contestant.hold(await startEngine(await contestant.createFolder(), 4 * fileBytes, cores));
    const settings = { engineUrl: `unix:${engine.socket}`, memoryBytes: nodeBytes, ...(cores && { cores }) };
    const nodes: RunningPeer[] = [];
    const asking = { fields: { Host: fleetHost } };
    for (let count = 0; count < mostNodes; count += 1) {
      const peer = await contestant.start(settings);
      nodes.push(peer);
      // The first node stores the file in the engine; the others find it there.
      if (count === 0) await untilHit({ ...contestant, peer }, () => checkedGet(peer.port, file, undefined, asking));
      const before = await contestant.origin.counters();
      for (let answer = 0; answer < checkedAnswers; answer += 1)
        await checkedGet(peer.port, file, randomSpan(), asking);
      const { requests } = await contestant.origin.counters();
      if (requests > before.requests) throw new BenchFault(`node ${count + 1} does not find the file in the engine`);
    }
    return { engine, nodes };
  }

  function roundOf(contestant: Contestant, engine: Engine, nodes: readonly RunningPeer[]): Round {
    const { everyCore: cores, seconds } = contestant;
    const row = rows[contestant.name];
    if (row === undefined) return () => measureBare(engine, contestant);
    const range: RangesPlan = { kind: 'ranges', file, sizeBytes: rangeBytes };
    const request = row.isAligned ? { ...range, stepBytes: rangeBytes } : range;
    const plan = { request, connections, seconds, ...(cores && { cores }) };
    return () => runFleetLoad({ ...contestant, engine, nodes: nodes.slice(0, row.nodes), cores, plan });
  }

  async function measureBare(engine: Engine, { everyCore: cores, seconds }: Contestant): Promise<Measurement> {
    const before = await engine.counters();
    const { gets, runs, ...result } = await benchmarkGets({
      ...{ socket: engine.socket, sizeBytes: rangeBytes, connections, seconds, cores },
    });
    const after = await engine.counters();
    const executed = after.gets - before.gets;
    if (executed < runs) throw new BenchFault(`redis-benchmark sent ${executed} GETs, not ${runs}`);
    const engineSeconds =
      after.seconds === undefined || before.seconds === undefined ? undefined : after.seconds - before.seconds;
    return {
      rate: gets / result.seconds,
      engineCpu: engineSeconds === undefined ? undefined : (engineSeconds / executed) * 1e6,
      engineRatio: (after.sentBytes - before.sentBytes) / (executed * rangeBytes),
      gets: 1,
      p50Ms: result.p50Us / 1e3,
      p99Ms: result.p99Us / 1e3,
    };
  }

  function randomSpan(): Span {
    const start = Math.floor(Math.random() * (fileBytes - rangeBytes + 1));
    return { start, end: start + rangeBytes };
  }
}
