/** How many files and connections this process may have open, and how many of them are for what. */

import { readFileSync } from 'node:fs';

/** Kept for files, origins and the admin listener, where there are so many. */
const mostKept = 1000;

let known: number | undefined;

/** The most descriptors that this process may have. No limit where the system does not tell it. */
export function descriptorLimit(): number {
  known ??= readLimit();
  return known;
}

/** Of so many descriptors, those that connections of clients may take: 1000 are kept for the rest, or half of a few. */
export function clientDescriptors(limit: number): number {
  return limit - Math.min(mostKept, Math.floor(limit / 2));
}

/** Of so many descriptors, those that connections to one origin may take. */
export function originDescriptors(limit: number): number {
  return Math.max(1, Math.floor(limit / 8));
}

function readLimit(): number {
  try {
    const limit = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1];
    return limit === undefined ? Number.POSITIVE_INFINITY : Number(limit);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
