/** How often keys were asked for lately, so that what is wanted only once need not be stored. */

import { crc32 } from 'node:zlib';

/** What the memory of uses is made with. */
export interface UseCountsOptions {
  /** The most keys that are remembered; half as many different keys later, at the earliest, a key is forgotten. */
  readonly maxKeys: number;
}

/** A bounded memory of uses. */
export interface UseCounts {
  /** Notes a use of a key, and tells how many there were lately, this one included. */
  note(key: string): number;
  /** How many uses of a key there were lately. */
  count(key: string): number;
}

/**
 * Creates an empty memory. It keeps two generations of counts: when the younger one is full it becomes the older one,
 * which is forgotten. A key is known by its CRC-32, so that long keys take no more room than short ones; two keys that
 * share one are counted together, which at worst stores one of them early.
 */
export function createUseCounts({ maxKeys }: UseCountsOptions): UseCounts {
  const maxInGeneration = Math.max(1, Math.floor(maxKeys / 2));
  let younger = new Map<number, number>();
  let older = younger;
  const countOf = (sum: number) => younger.get(sum) ?? older.get(sum) ?? 0;
  return {
    note: (key) => {
      const sum = crc32(key);
      const count = countOf(sum) + 1;
      if (younger.size >= maxInGeneration && !younger.has(sum)) {
        older = younger;
        younger = new Map();
      }
      younger.set(sum, count);
      return count;
    },
    count: (key) => countOf(crc32(key)),
  };
}
