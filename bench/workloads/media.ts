/** A workload on large files, as of films, that do not fit in a peer's memory: ranges of them, and a share of ranges of new files. */

import { checkedGet } from '../checked-get.ts';
import { checkedGetSecurely } from '../checked-get-h2.ts';
import { BenchFault } from '../fault.ts';
import type { Over } from '../load/load.ts';
import { distinctFile, distinctPatternBytes } from '../sample-file.ts';
import { askForAll } from './objects.ts';
import { requestMetrics, runSteadyLoad } from './steady-load.ts';
import { type Goal, type Measurement, startTarget, type Target, type Workload } from './workload.ts';

/** Number of ranges that are compared byte by byte. */
const checkedAnswers = 32;

/** The files and their ranges. */
export interface MediaWorkload {
  readonly name: string;
  readonly number: string;
  readonly title: string;
  readonly goals: readonly Goal[];
  readonly count: number;
  readonly fileBytes: number;
  readonly rangeBytes: number;
  /** Share of the requests (0 to 1) for files that were not requested before. */
  readonly newShare: number;
  readonly over?: Over;
}

/** Creates a workload of ranges of large files. */
export function createMediaWorkload(of: MediaWorkload): Workload {
  const { name, number, title, goals, count, fileBytes, rangeBytes, newShare, over } = of;
  const isSecure = over !== undefined;
  const connections = over === 'http2' ? 8 : 32;
  const run = async (target: Target, part: string): Promise<Measurement> => {
    const { result, originRequests, measurement } = await runSteadyLoad(target, {
      request: {
        ...{ kind: 'media', series: name, count, fileBytes, sizeBytes: rangeBytes },
        ...{ newShare, newSeries: `${name}-${target.name}-${part}` },
      },
      connections,
      unit: 'requests',
      over,
    });
    // The share is random, so that its upper limit is generous.
    const most = 2 * newShare * result.requests + 4 * connections;
    if (originRequests > most) {
      throw new BenchFault(`${target.name}: ${originRequests} requests to the origin for ${result.requests} ranges`);
    }
    return measurement;
  };
  return {
    name,
    number,
    title,
    kind: 'speed',
    origin: { kind: 'windows', patternBytes: distinctPatternBytes, bytesPerSecond: undefined },
    bodyBytes: rangeBytes,
    metrics: requestMetrics,
    goals,
    over,
    isOurs: true,
    hasFloor: true,
    async prepare(contestant) {
      const target = await startTarget(contestant, { isDefault: true, isSecure });
      await askForAll(target, { series: name, count, sizeBytes: fileBytes }, { isSecure });
      for (let index = 0; index < checkedAnswers; index += 1) {
        const start = Math.floor(Math.random() * (fileBytes - rangeBytes + 1));
        const span = { start, end: start + rangeBytes };
        const file = distinctFile(name, index % count, fileBytes);
        if (over === 'http2') await checkedGetSecurely(target.peer.port, file, span);
        else await checkedGet(target.peer.port, file, span, { isSecure });
      }
      await target.warmUp(() => run(target, 'warm'));
      return (round) => run(target, String(round));
    },
  };
}
