/** What a workload is: something that every peer is put through, and what is measured of it. */

import type { CoreList } from '../cores.ts';
import type { LoadGenerator, Over } from '../load/load.ts';
import type { Origin, OriginOptions } from '../origin/origin.ts';
import type { Peer, PeerSettings, RunningPeer } from '../peers/peer.ts';

/** One figure of a workload. The first one of a workload is its main one. */
export interface Metric {
  readonly key: string;
  /** The head of its column, with its unit. */
  readonly label: string;
  /** Decimal places. */
  readonly digits: number;
  /** Whether a ratio to nginx says something. */
  readonly isCompared: boolean;
}

/** The figures of one round, by their keys; undefined where the system does not tell. */
export type Measurement = Readonly<Record<string, number | undefined>>;

/** Bounds of a figure of Rangeway's, or of its ratio to nginx's in the same run. */
export interface Goal {
  /** The key of the metric. */
  readonly key: string;
  readonly of: 'figure' | 'ratio';
  readonly atLeast?: number;
  readonly atMost?: number;
  /** Whether the figure is counted and not timed, so that every machine comes to the same: then a short run fails without it. */
  readonly isCounted?: true;
}

/** A peer that takes part in a workload. */
export interface Contestant {
  readonly name: string;
  /** The cores of the proxy. */
  readonly cores: CoreList | undefined;
  /** The cores of the proxy and those of the load. */
  readonly allCores: CoreList | undefined;
  readonly origin: Origin;
  readonly generator: LoadGenerator;
  /** Of one round, where a workload has no end of its own. */
  readonly seconds: number;
  /** Starts the peer in front of the origin, with an empty cache, until the end of the workload. Throws `BenchFault`. */
  start(settings?: PeerSettings): Promise<RunningPeer>;
  /** Runs what is not measured, unless the checks are all that counts. */
  warmUp(run: () => Promise<unknown>): Promise<void>;
  /** As the peer has it. */
  readonly multiply: Peer['multiply'];
}

/** A peer under measurement. */
export interface Target extends Contestant {
  readonly peer: RunningPeer;
}

/** One round. Throws `BenchFault` where it did not measure what it should. */
export type Round = (round: number) => Promise<Measurement>;

/** A workload. Peers are prepared one after the other, then measured in turns. */
export interface Workload {
  readonly name: string;
  /** Its number in the table of goals, such as `W1`, where it has one. */
  readonly number?: string;
  readonly title: string;
  /** Speed is measured in several rounds; what is only counted, in one. */
  readonly kind: 'speed' | 'amplification';
  readonly goals: readonly Goal[];
  readonly origin: OriginOptions;
  /** The size of the bodies that it loads with, in bytes: the generator is chosen by it. */
  readonly bodyBytes: number;
  /** Whether it loads over TLS and HTTP/2, by h2load. */
  readonly isSecure?: true;
  readonly over?: Over | undefined;
  /** Whether only our own generator can load it. */
  readonly isOurs?: true;
  /** Whether the floor takes part: what bare Node takes for the same. */
  readonly hasFloor?: true;
  readonly metrics: readonly Metric[];
  /** Starts a peer, checks a sample of bytes, fills the cache and warms the peer up. Throws `BenchFault`. */
  prepare(contestant: Contestant): Promise<Round>;
}

/** What tables call it. */
export function workloadLabel({ name, number }: Pick<Workload, 'name' | 'number'>): string {
  return number === undefined ? name : `${number} ${name}`;
}

/** A contestant with its one peer started. */
export async function startTarget(contestant: Contestant, settings?: PeerSettings): Promise<Target> {
  return { ...contestant, peer: await contestant.start(settings) };
}
