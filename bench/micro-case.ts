/** Micro-benchmarks: measures the time and the allocated bytes of one call of a small function. */

import { readdirSync } from 'node:fs';
import { getHeapStatistics } from 'node:v8';
import { medianOf } from './median.ts';

/** A call to be measured. */
export interface MicroCase {
  /** The function and its input. */
  readonly name: string;
  /**
   * Makes one call. It returns the result, never undefined, so that the compiler cannot drop the call. `turn` counts the
   * calls, so that a case can cycle through its inputs.
   */
  readonly call: (turn: number) => unknown;
}

/** The cost of one call. */
export interface MicroFigures {
  /** Nanoseconds: the median of all batches, and the bounds of the middle half (first and third quartile). */
  readonly medianNs: number;
  readonly lowNs: number;
  readonly highNs: number;
  /** Bytes that the engine allocates; undefined where Node does not count them. */
  readonly allocatedBytes: number | undefined;
}

/** How long a case is measured. */
export interface MicroEffort {
  readonly warmUpMs: number;
  readonly batches: number;
  /** Minimum duration of a batch; the cost of reading the clock is negligible against it. */
  readonly batchMs: number;
}

/** Enough for a difference of a few per cent on a quiet machine. */
export const fullEffort: MicroEffort = { warmUpMs: 300, batches: 101, batchMs: 3 };

const casesFolder = new URL('micro/', import.meta.url);

/** Loads the cases of all files in `micro/`, by file name without `.ts`. Each file exports its cases as `cases`. */
export async function findMicroCases(): Promise<ReadonlyMap<string, readonly MicroCase[]>> {
  const names = readdirSync(casesFolder).filter((name) => name.endsWith('.ts'));
  const found = new Map<string, readonly MicroCase[]>();
  for (const name of names.sort()) {
    const { cases } = (await import(new URL(name, casesFolder).href)) as { readonly cases: readonly MicroCase[] };
    found.set(name.slice(0, -'.ts'.length), cases);
  }
  return found;
}

/** The result of the latest call. Storing it keeps the compiler from dropping the call. */
let latest: unknown;

/** Measures a case: warms it up until it is optimised, then runs batch after batch. */
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

/** Returns the result of the latest call. Nothing needs to call it: the export makes the compiler treat results as used. */
export function lastResult(): unknown {
  return latest;
}

/** Warms up. Returns the number of calls that fill a batch. */
function callsPerBatch(call: MicroCase['call'], { warmUpMs, batchMs }: MicroEffort): number {
  let calls = 1;
  for (let spentMs = 0; ; ) {
    const ms = runBatch(call, calls);
    spentMs += ms;
    if (ms < batchMs) calls *= 2;
    else if (spentMs >= warmUpMs) return calls;
  }
}

/** Makes these calls. Returns their duration in milliseconds. */
function runBatch(call: MicroCase['call'], calls: number): number {
  const startedAt = performance.now();
  for (let turn = 0; turn < calls; turn += 1) latest = call(turn);
  return performance.now() - startedAt;
}

/** Returns the bytes that the engine has allocated since its start. Node counts them from version 26 on. */
function allocatedInAll(): number | undefined {
  const { total_allocated_bytes: bytes } = getHeapStatistics() as { readonly total_allocated_bytes?: number };
  return bytes;
}

function difference(after: number | undefined, before: number | undefined): number | undefined {
  return after === undefined || before === undefined ? undefined : after - before;
}
