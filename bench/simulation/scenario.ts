/** What is simulated: the catalogue, its viewers, the nodes and what happens to them. */

/** Bytes of a MiB. */
export const mebibyte = 2 ** 20;

/** The inputs of a simulation. Together with a policy they determine every figure. */
export interface Scenario {
  /** Number of nodes of the fleet. */
  readonly nodes: number;
  /** Seed of the catalogue and the trace. */
  readonly seed: number;
  /** Requests of the trace for each node: traffic grows with the fleet. */
  readonly requestsPerNode: number;
  /** Share of the trace that fills the caches and is not counted. */
  readonly warmUpShare: number;
  readonly titles: number;
  /** Exponent of the Zipf distribution of the titles: the n-th title is played in proportion to `n ** -skew`. */
  readonly skew: number;
  /** Mean size of a title in bytes; sizes are spread evenly from a quarter to seven quarters of it. */
  readonly meanTitleBytes: number;
  /** Bytes that one request reads: a segment, or a range of a file. */
  readonly requestBytes: number;
  /** The unit in which bytes are fetched and kept. */
  readonly blockSizeBytes: number;
  /** What one node can keep, in bytes. With an engine, only `memoryShare` of it is at the node. */
  readonly roomBytes: number;
  /** Share of the room that is memory of the node where there is an engine; the engine has the rest of all nodes. */
  readonly memoryShare: number;
  /** Points of each node on the ring. */
  readonly pointsPerNode: number;
  /** With bounded load: the load of a node over the mean above which it gets no further request. */
  readonly loadFactor: number;
  /** Requests that are in flight at once, for each node. */
  readonly inFlightPerNode: number;
  /** Share of new plays that go to one title while the flash crowd lasts; 0: there is no flash crowd. */
  readonly crowdShare: number;
  /** Share of the nodes that are lost, and come back empty later; at least one node, unless it is 0 or there is only one. */
  readonly churnShare: number;
}

/** The values of a run without options. The sizes stand for ones that are a thousand times as large: only their ratios count. */
export const defaultScenario: Omit<Scenario, 'nodes'> = {
  seed: 1,
  requestsPerNode: 1200,
  warmUpShare: 0.5,
  titles: 1000,
  skew: 0.8,
  meanTitleBytes: 32 * mebibyte,
  requestBytes: 2 * mebibyte,
  blockSizeBytes: mebibyte,
  roomBytes: 512 * mebibyte,
  memoryShare: 0.1,
  pointsPerNode: 160,
  loadFactor: 1.5,
  inFlightPerNode: 8,
  crowdShare: 0.3,
  churnShare: 0.05,
};

/** Where in the trace nodes are lost and return, and where the flash crowd begins and ends, as shares of the trace. */
export const episodes = { lostAt: 0.55, backAt: 0.7, crowdFrom: 0.8, crowdTo: 0.9 } as const;

/** How requests are routed, and whether the nodes share an engine. */
export interface Policy {
  readonly name: string;
  /** `bounded`: consistent hashing in which a node above the load factor is passed over. */
  readonly routing: 'round-robin' | 'hash' | 'bounded';
  readonly hasEngine: boolean;
}

/** All policies, in the order of the tables. */
export const policies: readonly Policy[] = [
  { name: 'round robin, own caches', routing: 'round-robin', hasEngine: false },
  { name: 'hash', routing: 'hash', hasEngine: false },
  { name: 'hash, bounded load', routing: 'bounded', hasEngine: false },
  { name: 'round robin, shared store', routing: 'round-robin', hasEngine: true },
  { name: 'hash, bounded, shared store', routing: 'bounded', hasEngine: true },
];
