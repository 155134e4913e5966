/** Workloads on one stored file with one worker and with two: the gain by the second worker. */

import { checkedGet } from '../checked-get.ts';
import { BenchFault } from '../fault.ts';
import { ampleMemoryBytes } from '../peers/peer.ts';
import { sampleFile } from '../sample-file.ts';
import { checkSample, untilHit } from './hits.ts';
import { runSteadyLoad, type SteadyLoad } from './steady-load.ts';
import { type Contestant, type Measurement, type Metric, startTarget, type Target, type Workload } from './workload.ts';

/** The parts of a workload of hits that are run with one worker and with two. */
export interface ScalingWorkload {
  readonly name: string;
  readonly title: string;
  readonly fileBytes: number;
  readonly rangeBytes: number | undefined;
  readonly connections: number;
}

const metrics: readonly Metric[] = [
  { key: 'scaling', label: '2 workers ÷ 1', digits: 2, isCompared: true },
  { key: 'one', label: 'req/s with 1', digits: 0, isCompared: true },
  { key: 'two', label: 'req/s with 2', digits: 0, isCompared: true },
];

/** Creates the workload. Workers and load share all cores of both, so that two workers can use more than one core. */
export function createScalingWorkload(of: ScalingWorkload): Workload {
  const { fileBytes, rangeBytes, connections } = of;
  const name = `scaling-${of.name}`;
  const file = sampleFile(name, fileBytes);
  return {
    name,
    number: 'W14',
    title: `${of.title}; load and workers on the same two cores`,
    kind: 'speed',
    goals: [{ key: 'scaling', of: 'ratio', atLeast: 1 }],
    origin: { kind: 'windows', patternBytes: fileBytes, bytesPerSecond: undefined },
    bodyBytes: rangeBytes ?? fileBytes,
    metrics,
    async prepare(contestant) {
      const one = await start(contestant, 1);
      const two = await start(contestant, 2);
      return async () => {
        const rates = { one: (await run(one))['rate'] ?? 0, two: (await run(two))['rate'] ?? 0 };
        return { ...rates, scaling: rates.two / rates.one };
      };
    },
  };

  async function start(contestant: Contestant, workers: number): Promise<Target> {
    // Workers divide the configured memory among them. Each must have room for the file.
    const memoryBytes = workers * ampleMemoryBytes;
    const target = await startTarget(contestant, { workers, memoryBytes, ...coresOf(contestant) });
    await untilHit(target, ({ peer }) => checkedGet(peer.port, file));
    if (rangeBytes !== undefined) await checkSample(target.peer.port, file, rangeBytes);
    await target.warmUp(() => run(target));
    return target;
  }

  async function run(target: Target): Promise<Measurement> {
    const load: SteadyLoad = {
      request: rangeBytes === undefined ? { kind: 'whole', file } : { kind: 'ranges', file, sizeBytes: rangeBytes },
      connections,
      unit: 'requests',
      ...coresOf(target),
    };
    const { originRequests, measurement } = await runSteadyLoad(target, load);
    if (originRequests > 0) throw new BenchFault(`${target.name}: ${originRequests} misses where all should be hits`);
    return measurement;
  }
}

function coresOf({ allCores }: Contestant) {
  return allCores === undefined ? {} : { cores: allCores };
}
