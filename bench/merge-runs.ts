/** Several runs of the same workloads as one. */

import { medianOf } from './median.ts';
import type { PeerResult, WorkloadResult } from './rounds.ts';

/** Joins the rounds of all runs, and takes their medians. Workloads and peers keep the order of the first run that has them. */
export function mergeRuns(runs: readonly (readonly WorkloadResult[])[]): readonly WorkloadResult[] {
  const byName = Map.groupBy(runs.flat(), ({ workload }) => workload.name);
  return [...byName.values()].flatMap((results) => {
    const [first] = results;
    if (first === undefined) return [];
    const peers = Map.groupBy(
      results.flatMap((result) => result.peers),
      ({ name }) => name,
    );
    const leftOut = new Map(results.flatMap((result) => result.leftOut.map((each) => [each.name, each] as const)));
    return [{ ...first, peers: [...peers.values()].flatMap(mergePeer), leftOut: [...leftOut.values()] }];
  });

  function mergePeer(results: readonly PeerResult[]): PeerResult[] {
    const [first] = results;
    if (first === undefined) return [];
    const rounds = results.flatMap((result) => result.rounds);
    const keys = Object.keys(first.median);
    const median = Object.fromEntries(keys.map((key) => [key, medianOf(rounds.map((round) => round[key]))]));
    return [{ name: first.name, rounds, median, periods: results.flatMap(({ periods }) => periods) }];
  }
}
