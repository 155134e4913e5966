/** Processor time of a server and of a core, from Linux's /proc. */

import { readFileSync } from 'node:fs';
import type { CoreList } from './cores.ts';

/** The unit of /proc on Linux, whatever the kernel's own clock rate is. */
const ticksPerSecond = 100;

/** Returns the processor seconds of a process and its descendants, in user space and kernel; undefined where /proc is missing. */
export function processSeconds(pid: number): number | undefined {
  try {
    return processTree(pid).reduce((sum, each) => sum + processTicks(each), 0) / ticksPerSecond;
  } catch {
    return undefined;
  }
}

/** Returns the seconds that the cores were busy, with any program; undefined without a core, or where /proc is missing. */
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
  // The fields after these, guest time, are already counted in `user` and `nice`.
  const [user = 0, nice = 0, system = 0, , , interrupts = 0, softInterrupts = 0, stolen = 0] = line
    .split(' ')
    .map(Number);
  return user + nice + system + interrupts + softInterrupts + stolen;
}

function processTicks(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  // The program's name, in parentheses, may contain spaces and parentheses. utime and stime are fields 14 and 15 of proc(5).
  const afterName = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return Number(afterName[11]) + Number(afterName[12]);
}

/** Returns the ids of a process and of all its descendants. Throws where /proc is missing. */
export function processTree(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim();
  return [pid, ...(children === '' ? [] : children.split(' ').flatMap((child) => processTree(Number(child))))];
}
