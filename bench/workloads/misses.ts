/** A workload of misses: each file is requested once, so it is fetched, stored and sent. */

import { checkedGet } from '../checked-get.ts';
import { BenchFault } from '../fault.ts';
import { distinctFile, distinctPatternBytes } from '../sample-file.ts';
import { requestMetrics, runSteadyLoad } from './steady-load.ts';
import { type Goal, type Measurement, startTarget, type Target, type Workload } from './workload.ts';

/** Number of responses that are compared byte by byte before the measurement. */
const checkedAnswers = 32;

/** A workload of misses. */
export interface MissWorkload {
  readonly name: string;
  readonly title: string;
  readonly fileBytes: number;
  readonly connections: number;
  readonly goals: readonly Goal[];
}

/** Creates the workload. */
export function createMissWorkload({ name, title, goals, fileBytes, connections }: MissWorkload): Workload {
  const run = async (target: Target, part: string): Promise<Measurement> => {
    const series = `${name}-${target.name}-${part}`;
    const { result, originRequests, measurement } = await runSteadyLoad(target, {
      request: { kind: 'distinct', series, sizeBytes: fileBytes },
      connections,
      unit: 'requests',
    });
    if (originRequests < result.requests) {
      throw new BenchFault(
        `${target.name}: ${originRequests} requests to the origin for ${result.requests} different files`,
      );
    }
    return measurement;
  };
  return {
    name,
    number: 'W6',
    title,
    kind: 'speed',
    origin: { kind: 'windows', patternBytes: distinctPatternBytes, bytesPerSecond: undefined },
    bodyBytes: fileBytes,
    hasFloor: true,
    metrics: requestMetrics,
    goals,
    async prepare(contestant) {
      const target = await startTarget(contestant);
      for (let index = 0; index < checkedAnswers; index += 1) {
        const file = distinctFile(`${name}-${target.name}-check`, index, fileBytes);
        await checkedGet(target.peer.port, file);
      }
      await target.warmUp(() => run(target, 'warm'));
      return (round) => run(target, String(round));
    },
  };
}
