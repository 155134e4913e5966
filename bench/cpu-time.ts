/** Processor time, of a server and of a core. Only Linux tells it. */

import { readFileSync } from 'node:fs';
import type { CoreList } from './cores.ts';

/** Linux counts in these units for every program, whatever the kernel's own clock is. */
const ticksPerSecond = 100;

/** Processor seconds, in user space and in the kernel, of a process and its children; undefined where /proc is not there. */
export function processSeconds(pid: number): number | undefined {
  try {
    return processTree(pid).reduce((sum, each) => sum + processTicks(each), 0) / ticksPerSecond;
  } catch {
    return undefined;
  }
}

/** Seconds that cores were not idle, for whomever; undefined without a core, or where /proc is not there. */
export function coreSeconds(cores: CoreList = []): number | undefined {
  try {
    const stat = readFileSync('/proc/stat', 'latin1');
    const seconds = cores.map((core) => coreTicks(stat, core) / ticksPerSecond);
    return seconds.length === 0 ? undefined : seconds.reduce((sum, each) => sum + each);
  } catch {
    return undefined;
  }
}

function coreTicks(stat: string, core: number): number {
  const line = new RegExp(`^cpu${core} (.*)`, 'm').exec(stat)?.[1] ?? '';
  // The time that virtual machines get from us, after these, is counted in the first two.
  const [user = 0, nice = 0, system = 0, , , interrupts = 0, softInterrupts = 0, stolen = 0] = line
    .split(' ')
    .map(Number);
  return user + nice + system + interrupts + softInterrupts + stolen;
}

function processTicks(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  // The name of the program, in parentheses, may hold anything. utime and stime are the fields 14 and 15 of proc(5).
  const afterName = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return Number(afterName[11]) + Number(afterName[12]);
}

/** A process and all that it has started, by their ids. Throws where /proc is not there. */
export function processTree(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim();
  return [pid, ...(children === '' ? [] : children.split(' ').flatMap((child) => processTree(Number(child))))];
}
