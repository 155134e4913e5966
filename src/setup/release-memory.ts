/**
 * Gives memory that was freed back to the system. glibc keeps what a burst has freed for later (its arenas are full of holes), so
 * the resident set stays as large as it was at the peak: after 6000 clients that leave in the middle, 322 MB where 180 MB are in
 * use. malloc_trim(3) gives the pages back; it takes 10 to 70 ms, so it is called when the process has little to do.
 */

import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import type { Clock } from '../http/clock.ts';
import { backgroundClock } from './system.ts';

/** How often it is looked at. */
const INTERVAL_MS = 30_000;
/** The event loop may have been active for this part of the interval. */
const MOST_ACTIVE = 0.1;
/** So much more than after the last time is worth a call. */
const WORTH_BYTES = 64 * 1024 * 1024;

/** What it works with. */
export interface ReleaseParts {
  readonly clock: Pick<Clock, 'after'>;
  /** Memory of the process that is neither V8's heap nor a buffer that is in use, in bytes. */
  readonly otherBytes: () => number;
  /** How active the event loop has been since the last call: 0 to 1. */
  readonly active: () => number;
  /** Gives the call, or undefined where the system has none. */
  readonly load: () => (() => void) | undefined;
}

/** Begins to look at it from time to time, for as long as the process lives; this does not keep the process alive. */
export function releaseMemoryWhenIdle(parts: ReleaseParts = systemParts()): void {
  const { clock, otherBytes, active, load } = parts;
  let least = otherBytes();
  let release: (() => void) | undefined;
  const look = () => {
    const isIdle = active() <= MOST_ACTIVE;
    const other = otherBytes();
    least = Math.min(least, other);
    if (isIdle && other - least >= WORTH_BYTES) {
      release ??= load();
      // Nothing is looked at again where there is no such call.
      if (release === undefined) return;
      release();
      least = otherBytes();
    }
    clock.after(INTERVAL_MS, look);
  };
  clock.after(INTERVAL_MS, look);
}

function systemParts(): ReleaseParts {
  let last: EventLoopUtilization = performance.eventLoopUtilization();
  return {
    clock: backgroundClock,
    otherBytes: () => {
      const { rss, heapTotal, external } = process.memoryUsage();
      return rss - heapTotal - external;
    },
    active: () => {
      const now = performance.eventLoopUtilization();
      const { utilization } = performance.eventLoopUtilization(now, last);
      last = now;
      return utilization;
    },
    load: loadMallocTrim,
  };
}

/** glibc's call, as Node's experimental `node:ffi` reaches it; undefined where there is none: with an older Node, or musl. */
export function loadMallocTrim(): (() => void) | undefined {
  if (process.platform !== 'linux') return undefined;
  try {
    const { functions } = process.getBuiltinModule('node:ffi').dlopen(null, {
      malloc_trim: { arguments: ['u64'], return: 'i32' },
    });
    const { malloc_trim } = functions;
    return () => void malloc_trim(0n);
  } catch {
    return undefined;
  }
}
