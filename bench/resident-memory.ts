/** Memory of a server, from Linux's /proc. */

import { readFileSync } from 'node:fs';
import { processTree } from './cpu-time.ts';

/**
 * Returns the resident bytes of a process and its descendants; undefined where /proc is missing. Memory that they share
 * counts once, where `smaps_rollup` can be read; otherwise once per process.
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
