/** Runs a workload: starts all peers, measures them in turns, and takes the medians. */

import { closeConnections } from './checked-get.ts';
import { createContestants } from './contestants.ts';
import type { Cores } from './cores.ts';
import { BenchFault } from './fault.ts';
import type { GeneratorChoice } from './load/generators.ts';
import { medianOf } from './median.ts';
import { startOrigin } from './origin/origin.ts';
import type { Peer } from './peers/peer.ts';
import type { Measurement, Round, Workload } from './workloads/workload.ts';

/** The context of all workloads of a run. */
export interface RunContext {
  readonly peers: readonly Peer[];
  readonly generators: GeneratorChoice;
  readonly cores: Cores | undefined;
  readonly seconds: number;
  readonly rounds: number;
  readonly isShort: boolean;
  /** Folder for the files of the peers. */
  readonly scratch: string;
}

/** A period in which a peer was measured, in microseconds of the system's monotonic clock. */
export interface Period {
  readonly startUs: number;
  readonly endUs: number;
}

/** The figures of one peer. */
export interface PeerResult {
  readonly name: string;
  readonly rounds: readonly Measurement[];
  readonly median: Measurement;
  readonly periods: readonly Period[];
}

/** A peer that could not run a workload, and the reason. */
export interface LeftOut {
  readonly name: string;
  readonly reason: string;
}

/** The figures of all peers, in the order of the peers. */
export interface WorkloadResult {
  readonly workload: Workload;
  /** Name of the load generator. */
  readonly load: string;
  readonly peers: readonly PeerResult[];
  readonly leftOut: readonly LeftOut[];
}

/** The peer that the goals are for. It must be able to run every workload. */
export const subject = 'rangeway';

/** The peer that all others are compared with. */
export const yardstick = 'nginx';

/** Returns the name of the row that the ratios of a workload divide by. */
export function yardstickOf({ rows }: Pick<Workload, 'rows'>): string {
  return rows?.yardstick ?? yardstick;
}

/** A peer during the measurement. */
interface Recorded {
  readonly name: string;
  readonly measure: Round;
  readonly rounds: Measurement[];
  readonly periods: Period[];
}

/**
 * Runs one workload. Every peer starts with an empty cache. Returns undefined where no suitable load generator is
 * installed. Throws `BenchFault` if Rangeway fails; other peers that fail are left out.
 */
export async function runWorkload(workload: Workload, context: RunContext): Promise<WorkloadResult | undefined> {
  const generator = context.generators(workload);
  if (generator === undefined) return undefined;
  await using resources = new AsyncDisposableStack();
  resources.defer(closeConnections);
  const origin = resources.use(await startOrigin(workload.origin, context.cores?.origin));
  const leftOut: LeftOut[] = [];
  let recorded: Recorded[] = [];
  for (const contestant of createContestants(workload, context, { origin, generator }, resources)) {
    const mayFail = workload.rows === undefined && contestant.name !== subject;
    const measure = await unlessFaulty(contestant.name, mayFail, leftOut, () => workload.prepare(contestant));
    if (measure !== undefined) recorded.push({ name: contestant.name, measure, rounds: [], periods: [] });
  }
  const rounds = workload.kind === 'speed' ? context.rounds : 1;
  for (let round = 1; round <= rounds; round += 1) {
    const before = recorded;
    recorded = [];
    for (const record of before) {
      const mayFail = workload.rows === undefined && record.name !== subject;
      const isMeasured = await unlessFaulty(record.name, mayFail, leftOut, () => measureRound(record, round));
      if (isMeasured) recorded.push(record);
    }
  }
  return { workload, load: generator.name, peers: recorded.map((each) => summarise(workload, each)), leftOut };
}

/** Returns the result of an action. If a peer fails that may fail, adds it to `leftOut` and returns undefined. */
async function unlessFaulty<T>(
  name: string,
  mayFail: boolean,
  leftOut: LeftOut[],
  action: () => Promise<T>,
): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof BenchFault) || !mayFail) throw error;
    leftOut.push({ name, reason: error.message });
    return undefined;
  }
}

async function measureRound({ measure, rounds, periods }: Recorded, round: number): Promise<true> {
  const startUs = nowUs();
  rounds.push(await measure(round));
  periods.push({ startUs, endUs: nowUs() });
  return true;
}

function summarise({ metrics }: Workload, { name, rounds, periods }: Recorded): PeerResult {
  const median = Object.fromEntries(metrics.map(({ key }) => [key, medianOf(rounds.map((each) => each[key]))]));
  return { name, rounds, median, periods };
}

function nowUs(): number {
  return Number(process.hrtime.bigint() / 1000n);
}
