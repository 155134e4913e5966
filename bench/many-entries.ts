/** Fills the directory of a disk store with many entries: copies of its one entry under other keys. */

import { IndexConnection } from '../src/store/disk/index/index-connection.ts';
import { type PutEntry, parseRow, putEntry } from '../src/store/disk/index/index-rows.ts';
import { BenchFault } from './fault.ts';

/** Where and how to make the copies. */
export interface ManyEntriesOptions {
  /** The store directory. No process has it open. It holds one entry: complete, and at most 32 KiB long. */
  readonly dir: string;
  /** The store's block size: the store drops entries with another block size. */
  readonly blockSizeBytes: number;
  /** Number of entries after the copying, the original included. */
  readonly entries: number;
  /** Returns the key of a copy, from the key of the original and the number of the copy (from 1 on). */
  readonly keyOf: (key: string, number: number) => string;
}

/** Number of copies in one transaction. */
const copiesAtOnce = 20_000;

/**
 * Makes the copies with the store's own code for index entries. Throws `BenchFault` where the directory does not hold
 * exactly one entry with its body in the index.
 */
export function makeManyEntries({ dir, blockSizeBytes, entries, keyOf }: ManyEntriesOptions): void {
  const emit = ({ kind }: { readonly kind: string }) => {
    throw new BenchFault(`opening the index of ${dir} emitted the event ${kind}`);
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
          // Names of real generations are random, so that their positions in the index are scattered too.
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

/** Maps each 32-bit number to a different one, scattered over the range. */
function scatter(number: number): number {
  return Math.imul(number, 0x9e3779b1) >>> 0;
}
