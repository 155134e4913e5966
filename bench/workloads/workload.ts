/** The types of a workload: its peers, metrics and goals. `workloads.ts` lists all workloads. */

import type { CoreList } from '../cores.ts';
import type { LoadGenerator, Over } from '../load/load.ts';
import type { Origin, OriginOptions } from '../origin/origin.ts';
import type { Peer, PeerSettings, RunningPeer } from '../peers/peer.ts';

/** A figure of a workload. The first metric of a workload is the main one. */
export interface Metric {
  readonly key: string;
  /** Column heading, with the unit. */
  readonly label: string;
  /** Decimal places. */
  readonly digits: number;
  /** Whether its ratio to nginx is meaningful. */
  readonly isCompared: boolean;
}

/** The figures of one round, by the keys of their metrics; undefined where the system does not provide a figure. */
export type Measurement = Readonly<Record<string, number | undefined>>;

/** Bounds of a figure of Rangeway, or of its ratio to nginx's figure in the same run. */
export interface Goal {
  /** The key of the metric. */
  readonly key: string;
  readonly of: 'figure' | 'ratio';
  readonly atLeast?: number;
  readonly atMost?: number;
  /** Whether the figure is counted, not timed, and so independent of the machine. A short run fails where such a goal is missed. */
  readonly isCounted?: true;
}

/** A peer that takes part in a workload. */
export interface Contestant {
  readonly name: string;
  /** The cores of the proxy. */
  readonly cores: CoreList | undefined;
  /** The cores of the proxy and those of the load. */
  readonly allCores: CoreList | undefined;
  /** All cores that the benchmark may use. */
  readonly everyCore: CoreList | undefined;
  /** Cores of the origin, and of an engine that has little to do. */
  readonly originCores: CoreList | undefined;
  readonly origin: Origin;
  readonly generator: LoadGenerator;
  /** Duration of one round, for workloads without an end of their own. */
  readonly seconds: number;
  /** Starts the peer, with an empty cache unless `settings.again`, until the end of the workload. Throws `BenchFault`. */
  start(settings?: PeerSettings): Promise<RunningPeer>;
  /** Ends a resource at the end of the workload, after the peers that are started later. */
  hold<T extends AsyncDisposable>(resource: T): T;
  /** Creates a folder that is removed at the end of the workload. */
  createFolder(): Promise<string>;
  /** Runs a warm-up round; does nothing in a short run. */
  warmUp(run: () => Promise<unknown>): Promise<void>;
  /** The peer's `multiply`. */
  readonly multiply: Peer['multiply'];
}

/** A peer under measurement. */
export interface Target extends Contestant {
  readonly peer: RunningPeer;
}

/** Measures one round; rounds are numbered from 1. Throws `BenchFault` where it did not measure what it should. */
export type Round = (round: number) => Promise<Measurement>;

/** The rows of a workload in which only Rangeway takes part. None of them may fail. */
export interface OwnRows {
  /** One of them has the name of the subject. Each is prepared as a contestant of its name, with Rangeway as the peer. */
  readonly names: readonly string[];
  /** The row that ratios divide by. */
  readonly yardstick: string;
  /** Whether it needs redis-server and redis-benchmark. */
  readonly needsEngine: boolean;
}

/** A workload. Peers are prepared one after the other, then measured in turns. */
export interface Workload {
  readonly name: string;
  /** Number in the table of goals, such as `W1`; undefined where it has none. */
  readonly number?: string;
  readonly title: string;
  /** `speed` is measured in several rounds, `amplification` in one. */
  readonly kind: 'speed' | 'amplification';
  readonly goals: readonly Goal[];
  readonly origin: OriginOptions;
  /** Size of the response bodies, in bytes; the choice of the generator depends on it. */
  readonly bodyBytes: number;
  /** Whether the load comes over TLS and HTTP/2 from h2load. */
  readonly isSecure?: true;
  readonly over?: Over | undefined;
  /** Whether only the Node generator can send the load. */
  readonly isOurs?: true;
  /** Whether the floor takes part. */
  readonly hasFloor?: true;
  readonly metrics: readonly Metric[];
  /** Set where the rows of the table are not the installed peers, but Rangeway in several surroundings. */
  readonly rows?: OwnRows;
  /** Starts a peer, checks a sample of bytes, fills the cache and warms the peer up. Throws `BenchFault`. */
  prepare(contestant: Contestant): Promise<Round>;
}

/** Returns the name of a workload in tables. */
export function workloadLabel({ name, number }: Pick<Workload, 'name' | 'number'>): string {
  return number === undefined ? name : `${number} ${name}`;
}

/** Starts the peer of a contestant. */
export async function startTarget(contestant: Contestant, settings?: PeerSettings): Promise<Target> {
  return { ...contestant, peer: await contestant.start(settings) };
}
