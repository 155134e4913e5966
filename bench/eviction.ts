/** Hit ratios of SIEVE, the eviction order of the disk store, and of LRU, on traces that are the same in every run. */

import { LruModel, type NameCache, SieveModel } from '../test/support/stores/eviction-models.ts';
import { type TraceOptions, trace } from '../test/support/stores/traces.ts';
import { formatTable } from './table.ts';

/** The name of this comparison for `--only`. */
export const evictionName = 'eviction';

/** The hit ratios of one trace with one store size. */
export interface EvictionResult {
  readonly trace: string;
  /** Share of all recurring names that fit in the store at once. */
  readonly room: number;
  readonly sieve: number;
  readonly lru: number;
}

const rooms = [0.01, 0.1] as const;
const seed = 20_240_416;
const skew = 0.9;

/** Computes the hit ratios of all traces and store sizes. */
export function compareEvictions({ isShort }: { readonly isShort: boolean }): readonly EvictionResult[] {
  const [names, requests] = isShort ? [1000, 20_000] : [5000, 100_000];
  return rooms.flatMap((room) => {
    const capacity = names * room;
    return Object.entries(tracesFor(capacity)).map(([name, scans]) => {
      const options = { seed, requests, names, skew, ...scans };
      const sieve = hitRatio(new SieveModel(capacity), options);
      return { trace: name, room, sieve, lru: hitRatio(new LruModel(capacity), options) };
    });
  });
}

/** Formats the results as a table with a row for each trace. */
export function formatEvictions(results: readonly EvictionResult[]): string {
  const labels = rooms.flatMap((room) => [`SIEVE, ${room * 100} % fit`, 'LRU']);
  const rows = [...new Set(results.map((result) => result.trace))].map((name) => {
    const ofTrace = results.filter((result) => result.trace === name);
    return [name, ...ofTrace.flatMap(({ sieve, lru }) => [sieve, lru].map((ratio) => `${(ratio * 100).toFixed(1)} %`))];
  });
  const title = `${evictionName}: hits, of the requests for what is wanted again and again (Zipf, skew ${skew})`;
  return `${title}\n${formatTable([['', ...labels], ...rows])}`;
}

/** Returns the scans of each trace, by the trace's name. The names of a scan occur once; `capacity` is the store size in names. */
function tracesFor(capacity: number): Readonly<Record<string, Pick<TraceOptions, 'scanEvery' | 'scanLength'>>> {
  return {
    'no scans': {},
    'scans of half the store': { scanEvery: 2 * capacity, scanLength: capacity / 2 },
    'scans of five stores': { scanEvery: 10 * capacity, scanLength: 5 * capacity },
    'scans without end': { scanEvery: 10, scanLength: 30 },
  };
}

/** Returns the hits divided by the requests for recurring names. Names of a scan occur once and are never hits. */
function hitRatio(cache: NameCache, options: TraceOptions): number {
  let hits = 0;
  for (const name of trace(options)) hits += Number(cache.use(name).isHit);
  return hits / options.requests;
}
