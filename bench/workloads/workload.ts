/** What a workload is: something that every peer is put through, and what is measured of it. */

import type { LoadGenerator } from '../load/load.ts';
import type { Origin, OriginOptions } from '../origin/origin.ts';
import type { RunningPeer } from '../peers/peer.ts';

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

/** A figure of a workload that Rangeway must not exceed. */
export interface Goal {
  /** The key of the metric. */
  readonly key: string;
  readonly atMost: number;
}

/** A peer under measurement. */
export interface Target {
  readonly name: string;
  readonly peer: RunningPeer;
  /** The core that it is pinned to. */
  readonly core: number | undefined;
  readonly origin: Origin;
  readonly generator: LoadGenerator;
  /** Of one round, where a workload has no end of its own. */
  readonly seconds: number;
}

/** A workload. Peers are prepared one after the other, then measured in turns. */
export interface Workload {
  readonly name: string;
  readonly title: string;
  /** Speed is measured in several rounds; what is only counted, in one. */
  readonly kind: 'speed' | 'amplification';
  readonly goal?: Goal;
  readonly origin: OriginOptions;
  /** The size of the bodies that it loads with, in bytes: the generator is chosen by it. */
  readonly bodyBytes: number;
  /** What a peer may keep in memory of its own, in bytes, where it is to read from the disk. nginx has the page cache alone. */
  readonly memoryBytes?: number;
  readonly metrics: readonly Metric[];
  /** Checks a sample of bytes, fills the cache and warms the peer up. Throws `BenchFault`. */
  prepare(target: Target): Promise<void>;
  /** One round. Throws `BenchFault` where it did not measure what it should, `Incapable` where the peer cannot do it. */
  measure(target: Target, round: number): Promise<Measurement>;
}
