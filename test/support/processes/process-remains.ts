/** What a process must not keep when its work is over: descriptors, deleted files, memory, and itself. Linux tells. */

import { readdirSync, readlinkSync } from 'node:fs';
import { expect } from 'vitest';
import { openDescriptors, peakMemoryBytes } from './process-status.ts';
import type { RangewayProcess } from './rangeway-process.ts';

/** What a server may have taken at most, in bytes, whatever it went through. */
const memoryBytes = 512 * 1024 * 1024;

/** How soon a server that has nothing to do ends, in milliseconds: far less than the thirty seconds for what is under way. */
const endsWithinMs = 10_000;

/** How many files, sockets and the like a process has open; 0 where the system does not tell. */
export function descriptorsOf({ pid }: RangewayProcess): number {
  return process.platform === 'linux' ? openDescriptors(pid) : 0;
}

/**
 * Expects that a process without work is back at so many descriptors, keeps no deleted body, and took little memory.
 * Expects nothing where the system does not tell.
 */
export async function expectNothingKept({ pid }: RangewayProcess, descriptorsBefore: number): Promise<void> {
  if (process.platform !== 'linux') return;
  const keptTooMuch = () => (openDescriptors(pid) > descriptorsBefore ? descriptorTargets(pid) : []);
  await expect.poll(keptTooMuch).toEqual([]);
  const isDeletedBody = (target: string) => /\.(?:body|sums) \(deleted\)$/.test(target);
  await expect.poll(() => descriptorTargets(pid).filter(isDeletedBody)).toEqual([]);
  expect(peakMemoryBytes(pid)).toBeLessThan(memoryBytes);
}

/** Waits until no body is open: what was read a moment ago stays open for readers to come. Where the system does not tell, not at all. */
export async function untilBodiesClosed({ pid }: RangewayProcess): Promise<void> {
  if (process.platform !== 'linux') return;
  const isBody = (target: string) => /\.(?:body|sums)$/.test(target);
  await expect.poll(() => descriptorTargets(pid).filter(isBody)).toEqual([]);
}

/** Ends a server that has nothing to do, and expects that it says goodbye soon. */
export async function expectPromptEnd(server: RangewayProcess): Promise<void> {
  const startedAt = performance.now();
  expect(await server.stop('SIGTERM'), server.output()).toBe(0);
  expect(performance.now() - startedAt).toBeLessThan(endsWithinMs);
}

/** What the descriptors of a process stand for. */
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
