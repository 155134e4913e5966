/** The test files that run apart from the others, or not in `npm test`. Patterns from the root of the project. */

import { matchesGlob } from 'node:path';
import type { WireName } from './support/wire/wire-names.ts';

/** Test files that take long, need other programs, or repeat suites over other wires: see test/README.md. */
export const thorough = [
  'test/bench/road.test.ts',
  'test/clients/*.test.ts',
  'test/dashboard/{browser,scale}.test.ts',
  'test/faults/*.test.ts',
  'test/contract/{disk-store-tiers,shared-store}.test.ts',
  'test/contract/redis-{store,cluster,local}.test.ts',
  'test/store/{redis-store,redis-client,local-tier}.test.ts',
  'test/hostile/{amplification,cost,deception,ranges,regular-expressions}.test.ts',
  'test/origin/timeouts.test.ts',
  'test/process/{activity,admin,admin-fleet,admin-socket,client-limits,fair-shares,fields,large-body,leaks,listeners}.test.ts',
  'test/process/{load,local-tier,log,machines,metrics,names,origins,purge-workers,ranges-from-disk}.test.ts',
  'test/process/{reload,route-options,secrets,streams,systemd,terminal-output,warm-manifest,workers,workers-fill}.test.ts',
  'test/recipes/!(index).test.ts',
  'test/scenario/{random-ranges,random-traffic-disk,random-traffic-engine}.test.ts',
  'test/store/{disk-store-kill,sharing-processes}.test.ts',
  'test/wire/over-*.test.ts',
];

/**
 * Scenarios that also run over each wire, with a listener, sockets and a strict client between the client and the proxy: heads and
 * lengths, ranges and parts, bodies in both directions, cuts, and clients that leave. `planted/faults.ts` shows that these,
 * `wire/`, `listener/` and `embed/` find what all scenarios found over a wire.
 */
export const carried = ['test/scenario/{caching,head,leaving,parts,posted,ranges,relay,small-bodies,unread}.test.ts'];

/**
 * The wires that `npm test` runs them over: HTTP/2, which differs most from direct calls, and the library, where a planted fault is
 * found by nothing else.
 */
export const quickWires: readonly WireName[] = ['http2', 'node'];

/** Random tests over each wire, which `npm test` leaves out. Over an engine they test the store: once is enough. */
export const carriedRandom = ['test/scenario/random-{ranges,traffic,traffic-disk}.test.ts'];

/** Test files of the packages, which are built for them. */
export const packages = ['test/packages/*.test.ts'];

/** Test files that each run in their own process: they change global state, or count resources of the process. */
export const apart = [
  // They change the default carrier of listeners.
  'test/wire/over-*.test.ts',
  // It counts executed code by V8's coverage.
  'test/fuzz/fuzzer.test.ts',
  // They count memory.
  'test/guard/debts-memory.test.ts',
  'test/hostile/kept-texts.test.ts',
  // They count descriptors, sockets and timers.
  'test/setup/succession.test.ts',
  'test/store/disk-store-fault.test.ts',
];

/** Whether a test file has a process of its own. */
export function isApart(file: string): boolean {
  return apart.some((pattern) => matchesGlob(file, pattern));
}

/** Whether `npm test` runs a test file. */
export function isQuick(file: string): boolean {
  return ![...thorough, ...packages].some((pattern) => matchesGlob(file, pattern));
}

/** Whether `npm test` runs a scenario over a wire. */
export function isCarried(file: string, wire: WireName): boolean {
  return quickWires.includes(wire) && carried.some((pattern) => matchesGlob(file, pattern));
}
