/** Micro-benchmarks: what one call of a small function costs. */

import { readdirSync } from 'node:fs';
import { getHeapStatistics } from 'node:v8';
import { medianOf } from './median.ts';

/** A call to be measured. */
export interface MicroCase {
  /** What is called, and with what. */
  readonly name: string;
  /**
   * One call. It gives its result away, so that no compiler leaves it out: never undefined. `turn` counts the calls, to take
   * inputs in turns.
   */
  readonly call: (turn: number) => unknown;
}

/** What one call costs. */
export interface MicroFigures {
  /** Nanoseconds: the median of all batches, and those of the quarter that is fastest and of the one that is slowest. */
  readonly medianNs: number;
  readonly lowNs: number;
  readonly highNs: number;
  /** Bytes of memory that the engine allocates; undefined where it does not count them. */
  readonly allocatedBytes: number | undefined;
}

/** How long a case is measured. */
export interface MicroEffort {
  readonly warmUpMs: number;
  readonly batches: number;
  /** What a batch takes at least, so that the clock's own time does not count. */
  readonly batchMs: number;
}

/** Enough for a difference of a few per cent on a quiet machine. */
export const fullEffort: MicroEffort = { warmUpMs: 300, batches: 101, batchMs: 3 };

const casesFolder = new URL('micro/', import.meta.url);

/** The cases of all files in `micro/`, each of which exports its own as `cases`; by the names of the files. */
export async function findMicroCases(): Promise<ReadonlyMap<string, readonly MicroCase[]>> {
  const names = readdirSync(casesFolder).filter((name) => name.endsWith('.ts'));
  const found = new Map<string, readonly MicroCase[]>();
  for (const name of names.sort()) {
    const { cases } = (await import(new URL(name, casesFolder).href)) as { readonly cases: readonly MicroCase[] };
    found.set(name.slice(0, -'.ts'.length), cases);
  }
  return found;
}

/** Where the last result of each batch goes: what is kept was wanted. */
let kept: unknown;

/** Measures a case: first until it is compiled as well as it will be, then batch after batch. */
export function measureMicro({ call }: MicroCase, effort: MicroEffort = fullEffort): MicroFigures {
  const calls = callsPerBatch(call, effort);
  const allocatedBefore = allocatedInAll();
  const times: number[] = [];
  for (let batch = 0; batch < effort.batches; batch += 1) times.push((runBatch(call, calls) / calls) * 1e6);
  const allocated = difference(allocatedInAll(), allocatedBefore);
  times.sort((a, b) => a - b);
  const quarter = Math.floor(times.length / 4);
  return {
    medianNs: medianOf(times) ?? Number.NaN,
    lowNs: times[quarter] ?? Number.NaN,
    highNs: times[times.length - 1 - quarter] ?? Number.NaN,
    allocatedBytes: allocated === undefined ? undefined : allocated / (calls * effort.batches),
  };
}

/** What was kept last: read by nobody, but the engine cannot know. */
export function lastResult(): unknown {
  return kept;
}

/** Warms up, and counts how many calls fill a batch. */
function callsPerBatch(call: MicroCase['call'], { warmUpMs, batchMs }: MicroEffort): number {
  let calls = 1;
  for (let spentMs = 0; ; ) {
    const ms = runBatch(call, calls);
    spentMs += ms;
    if (ms < batchMs) calls *= 2;
    else if (spentMs >= warmUpMs) return calls;
  }
}

/** Makes so many calls; tells the milliseconds that they took. */
function runBatch(call: MicroCase['call'], calls: number): number {
  const startedAt = performance.now();
  for (let turn = 0; turn < calls; turn += 1) kept = call(turn);
  return performance.now() - startedAt;
}

/** Bytes that the engine has allocated since it started. Node counts them from version 26 on. */
function allocatedInAll(): number | undefined {
  const { total_allocated_bytes: bytes } = getHeapStatistics() as { readonly total_allocated_bytes?: number };
  return bytes;
}

function difference(after: number | undefined, before: number | undefined): number | undefined {
  return after === undefined || before === undefined ? undefined : after - before;
}
