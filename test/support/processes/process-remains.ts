/** Checks that a process without work keeps no descriptors, deleted files or memory, and ends soon. Needs Linux. */

import { readdirSync, readlinkSync } from 'node:fs';
import { expect } from 'vitest';
import { openDescriptors, peakMemoryBytes } from './process-status.ts';
import type { RangewayProcess } from './rangeway-process.ts';

/** Upper limit on the peak memory of a server, in bytes. */
const memoryBytes = 512 * 1024 * 1024;

/** Options of polls for descriptors: a server closes the file of a body up to twenty seconds after its last read. */
const untilFilesClose = { timeout: 40_000 };

/** Returns the number of open descriptors of a process; 0 elsewhere than on Linux. */
export function descriptorsOf({ pid }: RangewayProcess): number {
  return process.platform === 'linux' ? openDescriptors(pid) : 0;
}

/**
 * Expects that a process without work is back at `descriptorsBefore`, keeps no deleted body open, and took little memory. Does
 * nothing elsewhere than on Linux.
 */
export async function expectNothingKept({ pid }: RangewayProcess, descriptorsBefore: number): Promise<void> {
  if (process.platform !== 'linux') return;
  const keptTooMuch = () => (openDescriptors(pid) > descriptorsBefore ? descriptorTargets(pid) : []);
  await expect.poll(keptTooMuch, untilFilesClose).toEqual([]);
  const isDeletedBody = (target: string) => /\.(?:body|sums) \(deleted\)$/.test(target);
  await expect.poll(() => descriptorTargets(pid).filter(isDeletedBody), untilFilesClose).toEqual([]);
  expect(peakMemoryBytes(pid)).toBeLessThan(memoryBytes);
}

/** Waits until no body file is open: files stay open for a while after a read. Does nothing elsewhere than on Linux. */
export async function untilBodiesClosed({ pid }: RangewayProcess): Promise<void> {
  if (process.platform !== 'linux') return;
  const isBody = (target: string) => /\.(?:body|sums)$/.test(target);
  await expect.poll(() => descriptorTargets(pid).filter(isBody), untilFilesClose).toEqual([]);
}

/** Stops an idle server, and expects that it exits with 0, and does not wait for the time that running responses are given. */
export async function expectPromptEnd(server: RangewayProcess): Promise<void> {
  expect(await server.stop('SIGTERM'), server.output()).toBe(0);
  expect(server.output()).not.toContain('"stage":"cut"');
}

/** Returns the targets of the descriptors of a process. */
function descriptorTargets(pid: number): string[] {
  return readdirSync(`/proc/${pid}/fd`).flatMap((descriptor) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${descriptor}`);
    } catch {
      // Closed since it was listed.
      return [];
    }
  });
}
