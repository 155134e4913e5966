/** Runs a round of steady load, and measures the processor time of the proxy. */

import type { CoreList } from '../cores.ts';
import { coreSeconds, processSeconds } from '../cpu-time.ts';
import { BenchFault } from '../fault.ts';
import { bodyBytesOf, type LoadResult, type Over, type RequestPlan } from '../load/load.ts';
import type { Measurement, Metric, Target } from './workload.ts';

/** A load, and the unit in which its work is counted. */
export interface SteadyLoad {
  readonly request: RequestPlan;
  readonly connections: number;
  readonly unit: 'requests' | 'gigabytes';
  /** As in `LoadPlan`. */
  readonly ratePerSecond?: number;
  readonly over?: Over | undefined;
  readonly cores?: CoreList;
}

/** The result of a round. */
export interface SteadyRound {
  readonly result: LoadResult;
  /** Number of requests that the origin got meanwhile. */
  readonly originRequests: number;
  readonly measurement: Measurement;
}

/** Processor time of a round; undefined where /proc is missing or, for the core, nothing is pinned. */
interface Usage {
  readonly peerSeconds: number | undefined;
  readonly coreSeconds: number | undefined;
  /** Duration of the measurement. */
  readonly seconds: number;
}

/** Well below 100 % busy, the peer waited for the load or for other programs: then compare the time per request, not the rate. */
const usageMetrics: readonly Metric[] = [
  { key: 'busyPercent', label: 'busy %', digits: 0, isCompared: false },
  { key: 'othersPercent', label: 'others %', digits: 0, isCompared: false },
];

/** The figures of work counted in requests, where the generator reports no latencies. */
export const countedRequestMetrics: readonly Metric[] = [
  { key: 'rate', label: 'req/s', digits: 0, isCompared: true },
  { key: 'cpu', label: 'CPU µs/req', digits: 1, isCompared: true },
  ...usageMetrics,
];

/** The figures of work counted in requests. */
export const requestMetrics: readonly Metric[] = [
  ...countedRequestMetrics,
  { key: 'p50Ms', label: 'p50 ms', digits: 2, isCompared: false },
  { key: 'p99Ms', label: 'p99 ms', digits: 2, isCompared: false },
];

/** The figures of work counted in gigabytes. */
export const volumeMetrics: readonly Metric[] = [
  { key: 'rate', label: 'GB/s', digits: 2, isCompared: true },
  { key: 'cpu', label: 'CPU ms/GB', digits: 0, isCompared: true },
  ...usageMetrics,
];

/** Maximum duration of a round that is repeated because it had no response, in seconds. */
const longestRound = 60;

/**
 * Loads a peer for one round. A round without a response is repeated with four times the duration: on a busy machine a short
 * round may end before the first response. Throws `BenchFault` for unexpected responses, and where there is none at last.
 */
export async function runSteadyLoad(target: Target, load: SteadyLoad): Promise<SteadyRound> {
  const before = await target.origin.counters();
  for (let { seconds } = target; ; seconds *= 4) {
    const stopWatching = watchUsage(target);
    const result = await target.generator.run(target.peer.port, { ...load, seconds });
    const usage = stopWatching();
    if (result.failures > 0) throw new BenchFault(`${target.name}: ${result.failures} answers were not as wanted`);
    // In a short round no large body may be read to its end.
    if (result.requests > 0 || (load.unit === 'gigabytes' && result.bytes > 0)) {
      const after = await target.origin.counters();
      return { result, originRequests: after.requests - before.requests, measurement: figures(load, result, usage) };
    }
    if (4 * seconds > longestRound) throw new BenchFault(`${target.name}: no answer within ${seconds} s`);
  }
}

function watchUsage({ peer, cores }: Target): () => Usage {
  const read = () => ({ peer: processSeconds(peer.pid), core: coreSeconds(cores), at: performance.now() });
  const before = read();
  return () => {
    const after = read();
    return {
      peerSeconds: difference(after.peer, before.peer),
      coreSeconds: difference(after.core, before.core),
      seconds: (after.at - before.at) / 1000,
    };
  };
}

function difference(after: number | undefined, before: number | undefined): number | undefined {
  return after === undefined || before === undefined ? undefined : after - before;
}

function figures({ unit, request }: SteadyLoad, result: LoadResult, usage: Usage): Measurement {
  const { requests, bytes, seconds, p50Us, p99Us, p999Us } = result;
  const percent = (part: number | undefined) => (part === undefined ? undefined : (part / usage.seconds) * 100);
  const per = (work: number) => (usage.peerSeconds === undefined ? undefined : usage.peerSeconds / work);
  const others = difference(usage.coreSeconds, usage.peerSeconds);
  const shares = {
    busyPercent: percent(usage.peerSeconds),
    // A core's time is sampled, a process's is not, so that a small difference may be negative.
    othersPercent: percent(others === undefined ? undefined : Math.max(0, others)),
  };
  if (unit === 'requests') {
    const inMs = (us: number | undefined) => (us === undefined ? undefined : us / 1e3);
    const times = { p50Ms: inMs(p50Us), p99Ms: inMs(p99Us), p999Ms: inMs(p999Us) };
    return { rate: requests / seconds, cpu: per(requests / 1e6), ...shares, ...times };
  }
  // Bytes of unfinished bodies count too, because few large bodies are read to their end in a round.
  const gigabytes = Math.max(bytes, requests * bodyBytesOf(request)) / 1e9;
  return { rate: gigabytes / seconds, cpu: per(gigabytes / 1e3), ...shares };
}
