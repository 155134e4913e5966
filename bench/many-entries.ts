/** Makes a store's directory one of very many entries: copies of the one that it holds, under other keys. */

import { IndexConnection } from '../src/store/disk/index/index-connection.ts';
import { type PutEntry, parseRow, putEntry } from '../src/store/disk/index/index-rows.ts';
import { BenchFault } from './fault.ts';

/** What the copies are made of. */
export interface ManyEntriesOptions {
  /** The directory, which no process has open. It holds one entry, which is whole and not longer than 32 KiB. */
  readonly dir: string;
  /** The size of its blocks: the store forgets what has blocks of another size. */
  readonly blockSizeBytes: number;
  /** How many entries there are to be in all. */
  readonly entries: number;
  /** The key of the copy with this number, from 1 on, made from that of the entry. */
  readonly keyOf: (key: string, number: number) => string;
}

/** So many copies are made in one transaction. */
const copiesAtOnce = 20_000;

/**
 * Makes the copies with the code by which the store itself puts entries into its index. Throws `BenchFault` where the
 * directory does not hold one such entry.
 */
export function makeManyEntries({ dir, blockSizeBytes, entries, keyOf }: ManyEntriesOptions): void {
  const emit = ({ kind }: { readonly kind: string }) => {
    throw new BenchFault(`the index of ${dir} is not sound: it tells of a ${kind} event`);
  };
  const connection = new IndexConnection({ dir, blockSizeBytes, emit });
  try {
    const sample = readOnlyEntry(connection);
    const context = { now: Date.now, isFit: () => false };
    for (let first = 1; first < entries; first += copiesAtOnce) {
      const end = Math.min(first + copiesAtOnce, entries);
      connection.change((statements) => {
        for (let number = first; number < end; number += 1) {
          const key = keyOf(sample.entry.key, number);
          // As names of generations are random, their places in the index are.
          const generation = scatter(number).toString(16).padStart(8, '0') + sample.entry.generation.slice(8);
          putEntry(statements, { ...sample, entry: { ...sample.entry, key, generation } }, context);
        }
      });
    }
  } finally {
    connection.close();
  }
}

function readOnlyEntry(connection: IndexConnection): PutEntry {
  const read = connection.ask(undefined, ({ afterHand, entryOfGeneration, bodyOfGeneration }) => {
    const generations = afterHand.all(0, 2).map((row) => String(row.generation));
    const [generation = ''] = generations;
    const row = entryOfGeneration.get(generation);
    const body = bodyOfGeneration.get(generation)?.bytes;
    const entry = row && parseRow(row, String(row.key));
    if (generations.length !== 1 || entry === undefined || !(body instanceof Uint8Array)) return undefined;
    return { entry, metadata: String(row?.metadata), allocatedBytes: Number(row?.allocated_bytes), body };
  });
  if (read === undefined) throw new BenchFault('the store does not hold one entry with its body in the index');
  return read;
}

/** Another number of 32 bits for each. */
function scatter(number: number): number {
  return Math.imul(number, 0x9e3779b1) >>> 0;
}
