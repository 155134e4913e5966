/** Memory of a server. Only Linux tells it. */

import { readFileSync } from 'node:fs';
import { processTree } from './cpu-time.ts';

/**
 * What a process and its children have in memory, in bytes; what several of them share counts once, where the system says
 * how much that is. Undefined where /proc is not there.
 */
export function residentBytes(pid: number): number | undefined {
  try {
    return processTree(pid).reduce((sum, each) => sum + bytesOf(each), 0);
  } catch {
    return undefined;
  }
}

function bytesOf(pid: number): number {
  try {
    return kibibytes(readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1'), 'Pss');
  } catch {
    return kibibytes(readFileSync(`/proc/${pid}/status`, 'latin1'), 'VmRSS');
  }
}

function kibibytes(text: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s*([0-9]+) kB`, 'm').exec(text)?.[1]) * 1024;
}
