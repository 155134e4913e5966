/** Workloads on many stored objects that many clients ask for, as users do. */

import { checkedGet } from '../checked-get.ts';
import { BenchFault } from '../fault.ts';
import type { ObjectsPlan } from '../load/load.ts';
import type { PeerSettings } from '../peers/peer.ts';
import { distinctFile, distinctPatternBytes } from '../sample-file.ts';
import { requestMetrics, runSteadyLoad, type SteadyLoad } from './steady-load.ts';
import { type Goal, startTarget, type Target, type Workload } from './workload.ts';

/** How often each object is asked for before anything is measured: a peer may keep in memory what was asked for again. */
const warmRounds = 3;
/** How many objects are asked for at a time then. */
const warmedAtOnce = 32;

/** A workload on many objects. */
export interface ObjectsWorkload extends Pick<ObjectsPlan, 'count' | 'sizeBytes' | 'popularity' | 'head'> {
  readonly name: string;
  readonly number: string;
  readonly title: string;
  readonly goals: readonly Goal[];
  /** How the peers run, where it is not as usual. */
  readonly settings?: PeerSettings;
}

/** Makes the workload. */
export function createObjectsWorkload(of: ObjectsWorkload): Workload {
  const { name, number, title, goals, count, sizeBytes, popularity, head, settings } = of;
  const load: SteadyLoad = {
    request: { kind: 'objects', series: name, count, sizeBytes, popularity, head },
    connections: 64,
    unit: 'requests',
  };
  const run = async (target: Target) => {
    const { originRequests, measurement } = await runSteadyLoad(target, load);
    if (originRequests > 0) throw new BenchFault(`${target.name}: ${originRequests} misses where all should be hits`);
    return measurement;
  };
  return {
    name,
    number,
    title,
    kind: 'speed',
    origin: { kind: 'windows', patternBytes: distinctPatternBytes, bytesPerSecond: undefined },
    bodyBytes: sizeBytes,
    metrics: requestMetrics,
    goals,
    async prepare(contestant) {
      const target = await startTarget(contestant, settings);
      for (let round = 0; round < warmRounds; round += 1) await askForAll(target, of);
      await target.warmUp(() => run(target));
      return () => run(target);
    },
  };
}

/** Asks for each object once and compares its bytes. */
async function askForAll({ peer }: Target, { name, count, sizeBytes }: ObjectsWorkload): Promise<void> {
  let index = 0;
  const askOneByOne = async (): Promise<void> => {
    while (index < count) await checkedGet(peer.port, distinctFile(name, index++, sizeBytes));
  };
  await Promise.all(Array.from({ length: warmedAtOnce }, askOneByOne));
}
