/** Checks that a process without work keeps no descriptors, deleted files or memory, and ends soon. Needs Linux. */

import { readdirSync, readlinkSync } from 'node:fs';
import { expect } from 'vitest';
import { openDescriptors, peakMemoryBytes } from './process-status.ts';
import type { RangewayProcess } from './rangeway-process.ts';

/** Upper limit on the peak memory of a server, in bytes. */
const memoryBytes = 512 * 1024 * 1024;

/** Time within which an idle server must end, in milliseconds: far less than the thirty seconds of grace for running responses. */
const endsWithinMs = 20_000;

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
  await expect.poll(keptTooMuch).toEqual([]);
  const isDeletedBody = (target: string) => /\.(?:body|sums) \(deleted\)$/.test(target);
  await expect.poll(() => descriptorTargets(pid).filter(isDeletedBody)).toEqual([]);
  expect(peakMemoryBytes(pid)).toBeLessThan(memoryBytes);
}

/** Waits until no body file is open: files stay open for a while after a read. Does nothing elsewhere than on Linux. */
export async function untilBodiesClosed({ pid }: RangewayProcess): Promise<void> {
  if (process.platform !== 'linux') return;
  const isBody = (target: string) => /\.(?:body|sums)$/.test(target);
  await expect.poll(() => descriptorTargets(pid).filter(isBody)).toEqual([]);
}

/** Stops an idle server, and expects that it exits with 0 soon. */
export async function expectPromptEnd(server: RangewayProcess): Promise<void> {
  const startedAt = performance.now();
  expect(await server.stop('SIGTERM'), server.output()).toBe(0);
  expect(performance.now() - startedAt).toBeLessThan(endsWithinMs);
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
