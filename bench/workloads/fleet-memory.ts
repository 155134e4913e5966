/** Hits in memory, with a store in an engine and with a store on the disk: what the engine costs where it is not asked. */

import { checkedGet } from '../checked-get.ts';
import { startEngine } from '../engine/engine.ts';
import type { ObjectsPlan, RangesPlan } from '../load/load.ts';
import { acceptEncoding } from '../load/requests.ts';
import type { PeerSettings } from '../peers/peer.ts';
import { subject } from '../rounds.ts';
import { distinctPatternBytes } from '../sample-file.ts';
import { fleetHost, fleetMetrics, latencyMetrics, runFleetLoad } from './fleet-load.ts';
import { checkSample } from './hits.ts';
import { askForAll } from './objects.ts';
import { type Contestant, startTarget, type Target, type Workload } from './workload.ts';

/** The files, which fit into memory. */
export interface FleetMemory {
  readonly name: string;
  readonly title: string;
  readonly request: ObjectsPlan | RangesPlan;
}

const diskRow = 'disk store';

/** Memory of the engine; it must hold all files. */
const engineBytes = 512 * 1024 ** 2;

/** Creates the workload. Both servers send from memory: sendfile would send from the disk store's files. */
export function createFleetMemory({ name, title, request }: FleetMemory): Workload {
  const run = (target: Target, plan: RunPlan) => runFleetLoad({ ...target, ...plan, nodes: [target.peer] });
  const patternBytes = request.kind === 'ranges' ? request.file.window.end : distinctPatternBytes;
  return {
    name,
    number: 'W25',
    title,
    kind: 'speed',
    rows: { names: [subject, diskRow], yardstick: diskRow, needsEngine: true },
    goals: [
      { key: 'rate', of: 'ratio', atLeast: 0.95 },
      { key: 'cpu', of: 'ratio', atMost: 1.05 },
      // Not counted: the engine is asked for its size every ten seconds, which is more than a hundredth of a short round on a slow machine.
      { key: 'engineRatio', of: 'figure', atMost: 0.01 },
    ],
    origin: { kind: 'windows', patternBytes, bytesPerSecond: undefined },
    bodyBytes: request.sizeBytes,
    isOurs: true,
    metrics: [...fleetMetrics, ...latencyMetrics],
    async prepare(contestant) {
      const engine = contestant.name === subject ? await openEngine(contestant) : undefined;
      const store: PeerSettings = engine === undefined ? { isCopying: true } : { engineUrl: `unix:${engine.socket}` };
      const target = await startTarget(contestant, { ...store, isDefault: true });
      await askThroughAll(target, request);
      const plan = { engine, plan: { request, connections: 64, seconds: target.seconds } };
      await target.warmUp(() => run(target, plan));
      return () => run(target, plan);
    },
  };
}

type RunPlan = Pick<Parameters<typeof runFleetLoad>[0], 'engine' | 'plan'>;

async function openEngine(contestant: Contestant) {
  return contestant.hold(await startEngine(await contestant.createFolder(), engineBytes, contestant.originCores));
}

/** Requests each file until it is stored and in memory, and compares its bytes. Throws `BenchFault`. */
async function askThroughAll(target: Target, request: FleetMemory['request']): Promise<void> {
  const fields = { Host: fleetHost, 'Accept-Encoding': acceptEncoding };
  if (request.kind === 'objects') return await askForAll(target, request, { fields });
  for (let count = 0; count < 3; count += 1) await checkedGet(target.peer.port, request.file, undefined, { fields });
  await checkSample(target.peer.port, request.file, request.sizeBytes, { fields });
}
