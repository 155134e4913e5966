/** Loads one node or several that share an engine, and measures the work of each part. */

import type { CoreList } from '../cores.ts';
import { coreSeconds, processSeconds } from '../cpu-time.ts';
import type { Engine } from '../engine/engine.ts';
import { BenchFault } from '../fault.ts';
import { bodyBytesOf, type LoadGenerator, type LoadPlan, type LoadResult } from '../load/load.ts';
import type { Origin } from '../origin/origin.ts';
import type { RunningPeer } from '../peers/peer.ts';
import type { Measurement, Metric } from './workload.ts';

/** The name by which clients ask all nodes: it is in the keys of what they store. */
export const fleetHost = 'media.example.org';

/** What is loaded, and by what. */
export interface FleetLoad {
  readonly nodes: readonly RunningPeer[];
  /** The engine that the nodes share; undefined for a node with a disk store. */
  readonly engine: Engine | undefined;
  readonly origin: Origin;
  readonly generator: LoadGenerator;
  /** Cores whose use is measured. */
  readonly cores: CoreList | undefined;
  /** The load on all nodes together: each has a generator of its own, with its share of the connections. */
  readonly plan: Omit<LoadPlan, 'host'>;
  /** Whether answers may take a request to the origin; otherwise all must be hits. */
  readonly asksOrigin?: true;
}

/** The figures of a load. */
export const fleetMetrics: readonly Metric[] = [
  { key: 'rate', label: 'req/s', digits: 0, isCompared: true },
  { key: 'cpu', label: 'CPU µs/req', digits: 1, isCompared: true },
  { key: 'engineCpu', label: 'engine µs/req', digits: 1, isCompared: false },
  { key: 'engineRatio', label: 'engine ÷ client bytes', digits: 4, isCompared: false },
  { key: 'gets', label: 'GETs/req', digits: 2, isCompared: false },
];

/** Where the time of the cores goes, in percent of one core: which part is the bottleneck. */
export const shareMetrics: readonly Metric[] = [
  { key: 'nodePercent', label: 'nodes %', digits: 0, isCompared: false },
  { key: 'enginePercent', label: 'engine %', digits: 0, isCompared: false },
  { key: 'loadPercent', label: 'load %', digits: 0, isCompared: false },
  { key: 'allPercent', label: 'cores %', digits: 0, isCompared: false },
];

/** Latencies under a load. */
export const latencyMetrics: readonly Metric[] = [
  { key: 'p50Ms', label: 'p50 ms', digits: 2, isCompared: false },
  { key: 'p99Ms', label: 'p99 ms', digits: 2, isCompared: true },
];

/** Maximum duration of a round that is repeated because it had no response, in seconds. */
const longestRound = 60;

/**
 * Loads the nodes for one round. A round without a response is repeated with four times the duration:
 * on a busy machine a short round may end before the first one. Throws `BenchFault`.
 */
export async function runFleetLoad(load: FleetLoad): Promise<Measurement> {
  const { origin } = load;
  for (let { seconds } = load.plan; ; seconds *= 4) {
    const { requests: asked } = await origin.counters();
    const stop = await watch(load);
    const results = await Promise.all(runAll(load, seconds));
    const usage = await stop();
    const failures = sumOf(results, (result) => result.failures);
    if (failures > 0) throw new BenchFault(`${failures} answers were not as wanted`);
    const misses = (await origin.counters()).requests - asked;
    if (misses > 0 && load.asksOrigin !== true) throw new BenchFault(`${misses} misses where all should be hits`);
    if (sumOf(results, ({ requests }) => requests) > 0)
      return { ...figures(load, results, usage), originRate: misses / usage.seconds };
    if (4 * seconds > longestRound) throw new BenchFault(`no answer within ${seconds} s`);
  }
}

function runAll({ nodes, generator, plan }: FleetLoad, seconds: number): Promise<LoadResult>[] {
  const connections = Math.max(1, Math.floor(plan.connections / nodes.length));
  return nodes.map(({ port }) => generator.run(port, { ...plan, connections, seconds, host: fleetHost }));
}

/** The work of each part in a round. Times are in seconds, undefined where /proc is missing. */
interface Usage {
  readonly seconds: number;
  readonly nodes: number | undefined;
  readonly engine: number | undefined;
  readonly cores: number | undefined;
  readonly sentBytes: number | undefined;
  readonly gets: number | undefined;
}

async function watch({ nodes, engine, cores }: FleetLoad): Promise<() => Promise<Usage>> {
  const read = async () => {
    const counters = await engine?.counters();
    const times = nodes.map(({ pid }) => processSeconds(pid));
    const nodeSeconds = times.includes(undefined) ? undefined : sumOf(times, (each) => each ?? 0);
    return { counters, nodes: nodeSeconds, cores: coreSeconds(cores), at: performance.now() };
  };
  const before = await read();
  return async () => {
    const after = await read();
    return {
      seconds: (after.at - before.at) / 1000,
      nodes: difference(after.nodes, before.nodes),
      cores: difference(after.cores, before.cores),
      engine: difference(after.counters?.seconds, before.counters?.seconds),
      sentBytes: difference(after.counters?.sentBytes, before.counters?.sentBytes),
      gets: difference(after.counters?.gets, before.counters?.gets),
    };
  };
}

function figures({ cores = [], plan }: FleetLoad, results: readonly LoadResult[], usage: Usage): Measurement {
  const requests = sumOf(results, (result) => result.requests);
  const generators = results.map(({ cpuSeconds }) => cpuSeconds);
  const ownSeconds = generators.includes(undefined) ? undefined : sumOf(generators, (each) => each ?? 0);
  const percent = (part: number | undefined, of = 1) => scaled(part, 100 / usage.seconds / of);
  const worst = (times: readonly (number | undefined)[]) =>
    scaled(Math.max(...times.map((each) => each ?? 0)), 1 / 1e3);
  return {
    rate: sumOf(results, (result) => result.requests / result.seconds),
    cpu: scaled(usage.nodes, 1e6 / requests),
    engineCpu: scaled(usage.engine, 1e6 / requests),
    engineRatio: scaled(usage.sentBytes, 1 / (requests * bodyBytesOf(plan.request))),
    gets: scaled(usage.gets, 1 / requests),
    nodePercent: percent(usage.nodes),
    enginePercent: percent(usage.engine),
    loadPercent: percent(ownSeconds),
    // Idle cores mean that something waits; busy ones that there is nothing left to give.
    allPercent: percent(usage.cores, Math.max(1, cores.length)),
    p50Ms: worst(results.map(({ p50Us }) => p50Us)),
    p99Ms: worst(results.map(({ p99Us }) => p99Us)),
  };
}

function difference(after: number | undefined, before: number | undefined): number | undefined {
  return after === undefined || before === undefined ? undefined : after - before;
}

function scaled(value: number | undefined, factor: number): number | undefined {
  return value === undefined ? undefined : value * factor;
}

function sumOf<T>(items: readonly T[], figureOf: (item: T) => number): number {
  return items.reduce((sum, item) => sum + figureOf(item), 0);
}
