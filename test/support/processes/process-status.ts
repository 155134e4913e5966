/** What the system knows of a process, for tests that run where it tells: on Linux. */

import { readdirSync, readFileSync } from 'node:fs';
import { it } from 'vitest';

/** A test that asks the system about processes. Elsewhere it is skipped with a line that says so. */
export function itOnLinux(name: string, test: () => Promise<void>, timeoutMs?: number): void {
  it(
    name,
    async (context) => {
      if (process.platform === 'linux') return test();
      const sentence = `"${name}" reads /proc, which only Linux has`;
      console.warn(`SKIPPED: ${sentence}`);
      return context.skip(sentence);
    },
    timeoutMs,
  );
}

/** The most memory that a process has ever had at once, in bytes: its peak resident set. */
export function peakMemoryBytes(pid: number): number {
  return statusBytes(pid, 'VmHWM');
}

/** The memory that a process has now, in bytes: its resident set. */
export function residentBytes(pid: number): number {
  return statusBytes(pid, 'VmRSS');
}

function statusBytes(pid: number, name: string): number {
  const kibibytes = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  if (kibibytes === undefined) throw new Error(`/proc/${pid}/status has no ${name}`);
  return Number(kibibytes) * 1024;
}

/** How many files, sockets and the like a process has open. */
export function openDescriptors(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}
