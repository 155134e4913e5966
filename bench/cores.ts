/** Which processor cores the proxies and the load run on: never the same one, where there are two. */

import { readFileSync } from 'node:fs';
import { findProgram } from './programs.ts';

/** Numbers of cores. */
export type CoreList = readonly number[];

/** Who runs on which cores. With two cores the origin shares one with the load. */
export interface Cores {
  readonly proxy: CoreList;
  readonly load: CoreList;
  readonly origin: CoreList;
}

/** Chooses among the cores that this process may use. Undefined where nothing can be pinned. */
export function chooseCores(): Cores | undefined {
  const [proxy, load, origin = load] = allowedCores();
  if (proxy === undefined || load === undefined || origin === undefined) return undefined;
  return findProgram('taskset') === undefined ? undefined : { proxy: [proxy], load: [load], origin: [origin] };
}

/** A command that runs on these cores only; without any, the command as it is. */
export function pinned(cores: CoreList | undefined, command: readonly string[]): readonly string[] {
  return cores === undefined ? command : ['taskset', '-c', cores.join(','), ...command];
}

/** Linux tells them as a list such as `0-1,4`. */
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
