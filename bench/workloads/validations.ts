/** Many clients that ask in a loop for one response with `no-cache`, before an origin that takes its time and changes the response. */

import { checkedGet } from '../checked-get.ts';
import { missingEngine, startEngine } from '../engine/engine.ts';
import type { PeerSettings, RunningPeer } from '../peers/peer.ts';
import { subject } from '../rounds.ts';
import { sampleFile } from '../sample-file.ts';
import { fleetHost, latencyMetrics, runFleetLoad } from './fleet-load.ts';
import type { Contestant, Metric, Workload } from './workload.ts';

/** The row without Rangeway: the clients ask the origin itself. */
const straightRow = 'straight';
const nodesRow = '3 nodes';

/** Processes of each row. More than one share the cores with the clients. */
const processesOf: Readonly<Record<string, { readonly nodes: number; readonly workers: number }>> = {
  [straightRow]: { nodes: 0, workers: 0 },
  [subject]: { nodes: 1, workers: 1 },
  '2 workers': { nodes: 1, workers: 2 },
  [nodesRow]: { nodes: 3, workers: 1 },
};

/** What the origin takes for an answer, and how often the response changes, in milliseconds. */
const delayMs = 50;
const changeEveryMs = 2_000;

const engineBytes = 64e6;

const metrics: readonly Metric[] = [
  { key: 'rate', label: 'req/s', digits: 0, isCompared: false },
  { key: 'originRate', label: 'origin req/s', digits: 1, isCompared: false },
  ...latencyMetrics.map((metric) => ({ ...metric, isCompared: false })),
  { key: 'cpu', label: 'CPU µs/req', digits: 1, isCompared: false },
];

/** The size of the response, and the number of clients. */
export interface Validations {
  readonly fileBytes: number;
  readonly connections: number;
}

/**
 * Creates the workload. One validation serves all requests that came before it was sent, so that the origin is asked at most once
 * in the time that it takes for an answer, and twice where the response has changed.
 */
export function createValidations({ fileBytes, connections }: Validations): Workload {
  const name = 'validations';
  const file = sampleFile(name, fileBytes);
  const hasEngine = missingEngine() === undefined;
  return {
    name,
    number: 'W28',
    title: `${connections} clients that ask in a loop for one response of ${fileBytes} bytes with no-cache; the origin takes ${delayMs} ms, and changes it every ${changeEveryMs / 1000} s`,
    kind: 'speed',
    rows: {
      names: Object.keys(processesOf).filter((row) => hasEngine || row !== nodesRow),
      yardstick: straightRow,
      needsEngine: false,
    },
    goals: [
      { key: 'originRate', of: 'figure', atMost: 42, isCounted: true },
      { key: 'p99Ms', of: 'figure', atMost: 150 },
    ],
    origin: {
      kind: 'windows',
      patternBytes: fileBytes,
      bytesPerSecond: undefined,
      validated: { delayMs, changeEveryMs },
    },
    bodyBytes: fileBytes,
    isOurs: true,
    metrics,
    async prepare(contestant) {
      const nodes = await startNodes(contestant);
      for (const { port } of nodes) await checkedGet(port, file, undefined, { fields: { Host: fleetHost } });
      const cores = nodes.length > 1 ? contestant.everyCore : contestant.cores;
      const plan = { request: { kind: 'whole', file } as const, connections, seconds: contestant.seconds };
      const run = () => runFleetLoad({ ...contestant, engine: undefined, nodes, cores, plan, asksOrigin: true });
      await contestant.warmUp(run);
      return run;
    },
  };
}

async function startNodes(contestant: Contestant): Promise<readonly RunningPeer[]> {
  const { nodes = 1, workers = 1 } = processesOf[contestant.name] ?? {};
  if (nodes === 0) return [{ ...contestant.origin, dir: '', pid: 0, [Symbol.asyncDispose]: async () => {} }];
  const { everyCore } = contestant;
  const own: PeerSettings = { isDefault: true, workers, ...(nodes + workers > 2 && everyCore && { cores: everyCore }) };
  if (nodes === 1) return [await contestant.start(own)];
  const folder = await contestant.createFolder();
  const engine = contestant.hold(await startEngine(folder, engineBytes, contestant.originCores));
  const started: RunningPeer[] = [];
  for (let count = 0; count < nodes; count += 1) {
    started.push(await contestant.start({ ...own, engineUrl: `unix:${engine.socket}` }));
  }
  return started;
}
