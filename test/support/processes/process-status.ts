/** The state of a process according to /proc, for tests on Linux. */

import { readdirSync, readFileSync } from 'node:fs';
import { it } from 'vitest';

/** Declares a test that reads /proc. Elsewhere than on Linux it is skipped with that reason. */
export function itOnLinux(name: string, test: () => Promise<void>, timeoutMs?: number): void {
  it(
    name,
    async (context) => {
      if (process.platform === 'linux') return test();
      context.skip('reads /proc, which only Linux has');
    },
    timeoutMs,
  );
}

/** Returns the peak resident set of a process, in bytes. */
export function peakMemoryBytes(pid: number): number {
  return statusBytes(pid, 'VmHWM');
}

/** Returns the current resident set of a process, in bytes. */
export function residentBytes(pid: number): number {
  return statusBytes(pid, 'VmRSS');
}

function statusBytes(pid: number, name: string): number {
  const kibibytes = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  if (kibibytes === undefined) throw new Error(`/proc/${pid}/status has no ${name}`);
  return Number(kibibytes) * 1024;
}

/** Returns the number of open descriptors of a process. */
export function openDescriptors(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}
