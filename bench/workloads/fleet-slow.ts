/** Hits in memory while the engine is slow: they must be as fast as with a healthy one. */

import { setTimeout as wait } from 'node:timers/promises';
import { checkedGet } from '../checked-get.ts';
import { startEngine } from '../engine/engine.ts';
import { openSlowRelay, type SlowRelay } from '../engine/slow-relay.ts';
import type { ObjectsPlan } from '../load/load.ts';
import { acceptEncoding } from '../load/requests.ts';
import type { RunningPeer } from '../peers/peer.ts';
import { subject } from '../rounds.ts';
import { distinctPatternBytes, sampleFile } from '../sample-file.ts';
import { fleetHost, latencyMetrics, runFleetLoad } from './fleet-load.ts';
import { untilHit } from './hits.ts';
import { askForAll } from './objects.ts';
import type { Contestant, Measurement, Metric, Workload } from './workload.ts';

const healthyRow = 'healthy engine';

/** How long the slow engine takes for each answer, in milliseconds. */
const slowMs = 500;
/** Interval of the requests that do ask the engine, in milliseconds, and their size in bytes. */
const readEveryMs = 100;
const readBytes = 64 * 1024;

/** Memory of the node. The objects fit into it, the file that is read from the engine does not. */
const nodeBytes = 16e6;

const asking = { fields: { Host: fleetHost, 'Accept-Encoding': acceptEncoding } };

const metrics: readonly Metric[] = [
  ...latencyMetrics.map((metric) => ({ ...metric, isCompared: true })).reverse(),
  { key: 'rate', label: 'req/s', digits: 0, isCompared: false },
  { key: 'cpu', label: 'CPU µs/req', digits: 1, isCompared: false },
  { key: 'readMs', label: 'engine hit ms', digits: 1, isCompared: false },
];

/** The objects in memory, and the file in the engine. */
export interface FleetSlow {
  readonly objects: number;
  readonly fileBytes: number;
}

/** What both rows share. */
interface Ground {
  readonly node: RunningPeer;
  readonly relay: SlowRelay;
  /** Requests per second: half of the highest rate. */
  readonly rate: number;
}

/**
 * Creates the workload. Requests for what is in memory are sent evenly, at half of the highest rate. Beside them ten requests a
 * second wait for the engine.
 */
export function createFleetSlow({ objects, fileBytes }: FleetSlow): Workload {
  const name = 'fleet-slow-engine';
  const file = sampleFile(name, fileBytes);
  const request: ObjectsPlan = {
    ...{ kind: 'objects', series: name, count: objects, sizeBytes: 1024, popularity: 'skewed', head: 'browser' },
  };
  let started: Promise<Ground> | undefined;
  return {
    name,
    number: 'W27',
    title: `${objects} objects of 1 KiB in memory, at half of the highest rate, while the engine answers after ${slowMs} ms`,
    kind: 'speed',
    rows: { names: [healthyRow, subject], yardstick: healthyRow, needsEngine: true },
    goals: [{ key: 'p99Ms', of: 'ratio', atMost: 1.5 }],
    origin: { kind: 'windows', patternBytes: Math.max(fileBytes, distinctPatternBytes), bytesPerSecond: undefined },
    bodyBytes: request.sizeBytes,
    isOurs: true,
    metrics,
    async prepare(contestant) {
      started ??= start(contestant);
      const ground = await started;
      return () => measure(contestant, ground);
    },
  };

  async function start(contestant: Contestant): Promise<Ground> {
    const { originCores } = contestant;
    const engine = contestant.hold(await startEngine(await contestant.createFolder(), 4 * fileBytes, originCores));
    const relay = contestant.hold(await openSlowRelay(engine.port));
    const node = await contestant.start({ engineUrl: `redis://127.0.0.1:${relay.port}`, memoryBytes: nodeBytes });
    const target = { ...contestant, peer: node };
    await untilHit(target, () => checkedGet(node.port, file, undefined, asking));
    await askForAll(target, request, asking);
    await contestant.warmUp(() => run(contestant, node));
    const { rate = 2 } = await run(contestant, node);
    return { node, relay, rate: rate / 2 };
  }

  function run(contestant: Contestant, node: RunningPeer, ratePerSecond?: number): Promise<Measurement> {
    const paced = ratePerSecond === undefined ? {} : { ratePerSecond };
    const plan = { request, connections: 64, seconds: contestant.seconds, ...paced };
    return runFleetLoad({ ...contestant, engine: undefined, nodes: [node], plan });
  }

  async function measure(contestant: Contestant, { node, relay, rate }: Ground): Promise<Measurement> {
    relay.delayMs = contestant.name === subject ? slowMs : 0;
    const over = new AbortController();
    const reading = readFromEngine(node, over.signal);
    try {
      const measurement = await run(contestant, node, rate);
      over.abort();
      return { ...measurement, readMs: await reading };
    } finally {
      over.abort();
      relay.delayMs = 0;
      await reading.catch(() => {});
    }
  }

  /** Reads random ranges until `over`, and compares their bytes. Returns how long the slowest took, in milliseconds. */
  async function readFromEngine({ port }: RunningPeer, over: AbortSignal): Promise<number> {
    const times: Promise<number>[] = [];
    for (; !over.aborted; await wait(readEveryMs)) {
      const start = Math.floor((Math.random() * fileBytes) / readBytes) * readBytes;
      const startedAt = performance.now();
      const read = checkedGet(port, file, { start, end: start + readBytes }, asking);
      times.push(read.then(() => performance.now() - startedAt));
    }
    return Math.max(...(await Promise.all(times)));
  }
}
