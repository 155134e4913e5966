/** How much processor time a server has used. */

import { readFileSync } from 'node:fs';

/** Linux counts in these units for every program, whatever the kernel's own clock is. */
const ticksPerSecond = 100;

/** Processor seconds, in user space and in the kernel, of a process and its children; undefined where /proc is not there. */
export function cpuSeconds(pid: number): number | undefined {
  try {
    return processTree(pid).reduce((sum, each) => sum + ticksOf(each), 0) / ticksPerSecond;
  } catch {
    return undefined;
  }
}

function ticksOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  // The name of the program, in parentheses, may hold anything. utime and stime are the fields 14 and 15 of proc(5).
  const afterName = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return Number(afterName[11]) + Number(afterName[12]);
}

function processTree(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim();
  return [pid, ...(children === '' ? [] : children.split(' ').flatMap((child) => processTree(Number(child))))];
}
