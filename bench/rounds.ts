/** Runs a workload: all peers side by side, measured in turns, and the medians of what was measured. */

import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { closeConnections } from './checked-get.ts';
import type { Cores } from './cores.ts';
import { BenchFault, Incapable } from './fault.ts';
import type { GeneratorChoice } from './load/generators.ts';
import { startOrigin } from './origin/origin.ts';
import type { Peer } from './peers/peer.ts';
import type { Measurement, Target, Workload } from './workloads/workload.ts';

/** What workloads run with. */
export interface RunContext {
  readonly peers: readonly Peer[];
  readonly generators: GeneratorChoice;
  readonly cores: Cores | undefined;
  readonly seconds: number;
  readonly rounds: number;
  /** A folder for what the peers write. */
  readonly scratch: string;
}

/** A time during which a peer was measured, in microseconds of the system's monotonic clock. */
export interface Period {
  readonly startUs: number;
  readonly endUs: number;
}

/** What was measured of one peer. */
export interface PeerResult {
  readonly name: string;
  readonly rounds: readonly Measurement[];
  readonly median: Measurement;
  readonly periods: readonly Period[];
}

/** A peer that cannot do what a workload measures. */
export interface LeftOut {
  readonly name: string;
  readonly reason: string;
}

/** What was measured of all peers, in their order. */
export interface WorkloadResult {
  readonly workload: Workload;
  /** The name of the generator. */
  readonly load: string;
  readonly peers: readonly PeerResult[];
  readonly leftOut: readonly LeftOut[];
}

/** The peer that the benchmark is about. It has to be able to do everything. */
export const subject = 'rangeway';

/** A peer as it is being measured. */
interface Recorded {
  readonly target: Target;
  readonly rounds: Measurement[];
  readonly periods: Period[];
}

/** Runs one workload; every peer begins with an empty cache. Throws `BenchFault`. */
export async function runWorkload(workload: Workload, context: RunContext): Promise<WorkloadResult> {
  await using resources = new AsyncDisposableStack();
  const generator = context.generators(workload.bodyBytes);
  const targets = await openTargets(workload, context, generator, resources);
  for (const target of targets) await workload.prepare(target);
  let recorded: readonly Recorded[] = targets.map((target) => ({ target, rounds: [], periods: [] }));
  const leftOut: LeftOut[] = [];
  const rounds = workload.kind === 'speed' ? context.rounds : 1;
  for (let round = 1; round <= rounds; round += 1) {
    for (const record of recorded) {
      const reason = await measure(workload, record, round);
      if (reason !== undefined) leftOut.push({ name: record.target.name, reason });
    }
    recorded = recorded.filter(({ target }) => !leftOut.some(({ name }) => name === target.name));
  }
  return {
    workload,
    load: generator.name,
    peers: recorded.map(({ target, rounds, periods }) => {
      const median = Object.fromEntries(
        workload.metrics.map(({ key }) => [key, medianOf(rounds.map((each) => each[key]))]),
      );
      return { name: target.name, rounds, median, periods };
    }),
    leftOut,
  };
}

/** Measures one round; tells why it could not. */
async function measure(workload: Workload, record: Recorded, round: number): Promise<string | undefined> {
  const { target, rounds, periods } = record;
  const startUs = nowUs();
  try {
    rounds.push(await workload.measure(target, round));
  } catch (error) {
    if (!(error instanceof Incapable)) throw error;
    if (target.name === subject) throw new BenchFault(`${subject}: ${error.message}`);
    return error.message;
  }
  periods.push({ startUs, endUs: nowUs() });
  return undefined;
}

async function openTargets(
  workload: Workload,
  { peers, cores, seconds, scratch }: RunContext,
  generator: Target['generator'],
  resources: AsyncDisposableStack,
): Promise<Target[]> {
  const origin = resources.use(await startOrigin(workload.origin, cores?.origin));
  const originHasRanges = workload.origin.kind === 'periodic' && workload.origin.hasRanges;
  const targets: Target[] = [];
  const { memoryBytes } = workload;
  for (const { name, start } of peers) {
    const dir = join(scratch, `${workload.name}-${name}`);
    await mkdir(dir);
    resources.defer(() => rm(dir, { recursive: true, force: true }));
    const place = { originPort: origin.port, originHasRanges, dir, core: cores?.proxy, memoryBytes };
    const peer = resources.use(await start(place));
    targets.push({ name, peer, core: cores?.proxy, origin, generator, seconds });
  }
  resources.defer(closeConnections);
  return targets;
}

/** The middle one; of an even count, the lower one of the two in the middle, which was measured. */
export function medianOf(values: readonly (number | undefined)[]): number | undefined {
  const known = values.filter((value) => value !== undefined).sort((a, b) => a - b);
  return known[Math.floor((known.length - 1) / 2)];
}

function nowUs(): number {
  return Number(process.hrtime.bigint() / 1000n);
}
