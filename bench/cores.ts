/** Chooses the processor cores of the proxies and of the load. With two cores or more they do not share one. */

import { readFileSync } from 'node:fs';
import { findProgram } from './programs.ts';

/** Numbers of processor cores, as the system counts them. */
export type CoreList = readonly number[];

/** The cores of each part of the benchmark. With two cores the origin shares one with the load. */
export interface Cores {
  readonly proxy: CoreList;
  readonly load: CoreList;
  readonly origin: CoreList;
  /** All cores that the benchmark may use. */
  readonly all: CoreList;
}

/** Chooses from the cores that this process may use; undefined where fewer than two are known, or `taskset` is missing. */
export function chooseCores(): Cores | undefined {
  const all = allowedCores();
  const [proxy, load, origin = load] = all;
  if (proxy === undefined || load === undefined || origin === undefined) return undefined;
  return findProgram('taskset') === undefined ? undefined : { proxy: [proxy], load: [load], origin: [origin], all };
}

/** Returns a command that runs on these cores only; the command itself where `cores` is undefined. */
export function pinned(cores: CoreList | undefined, command: readonly string[]): readonly string[] {
  return cores === undefined ? command : ['taskset', '-c', cores.join(','), ...command];
}

/** Returns the cores that this process may use; none where /proc is missing. Linux lists them as `0-1,4`. */
function allowedCores(): number[] {
  let status: string;
  try {
    status = readFileSync('/proc/self/status', 'latin1');
  } catch {
    return [];
  }
  const list = /^Cpus_allowed_list:\s*(\S+)/m.exec(status)?.[1] ?? '';
  return list.split(',').flatMap((part) => {
    const [first = Number.NaN, last = first] = part.split('-').map(Number);
    return Number.isNaN(first) ? [] : Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
}
