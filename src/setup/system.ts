/**
 * What the machine and the installation give to a process: clocks, timers, randomness, the limit of open files, the release of
 * memory to the system.
 */

import { createHash, randomFillSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import { formatListenPlace } from '../config/address.ts';
import type { Config } from '../config/schema.ts';
import type { Clock } from '../http/clock.ts';

/** The clock of this machine. */
export const systemClock: Clock = {
  now: Date.now,
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};

/**
 * A clock for background work. Its timers do not keep the process alive, and its milliseconds never go back, even when the time of
 * the machine is set.
 */
export const backgroundClock: Clock = {
  now: () => performance.now(),
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs).unref();
    return () => clearTimeout(timer);
  },
};

/** As `systemClock`, but its milliseconds never go back: for what is counted over a time. */
export const monotonicClock: Clock = { ...systemClock, now: () => performance.now() };

/** A jump of the time of the machine that counts as a suspension, in milliseconds. Corrections of its clock are smaller. */
const SUSPENSION_MS = 1000;

/**
 * Returns milliseconds that never go back, and that go on while the whole machine is suspended: `elapsed` stands still then, and `time`,
 * the time of the machine, is set when it wakes up. The time being set forward by hand counts as a suspension, too.
 */
export function createUnsuspendedNow(elapsed: () => number, time: () => number): () => number {
  let difference = time() - elapsed();
  let suspendedMs = 0;
  return () => {
    const now = elapsed();
    const jumpMs = time() - now - difference;
    difference += jumpMs;
    if (jumpMs > SUSPENSION_MS) suspendedMs += jumpMs;
    return now + suspendedMs;
  };
}

/** As `backgroundClock`, but its milliseconds go on while the machine is suspended. */
export const unsuspendedClock: Clock = {
  ...backgroundClock,
  now: createUnsuspendedNow(backgroundClock.now, systemClock.now),
};

/** Random bytes are drawn this many at a time: drawing 16 costs as much as drawing all of them. */
const drawn = Buffer.allocUnsafeSlow(2048);
let usedBytes = drawn.length;

/** Returns unpredictable random bytes. */
export function systemRandom(size: number): Buffer {
  const bytes = Buffer.allocUnsafe(size);
  if (size > drawn.length) return randomFillSync(bytes);
  if (usedBytes + size > drawn.length) {
    randomFillSync(drawn);
    usedBytes = 0;
  }
  drawn.copy(bytes, 0, usedBytes, usedBytes + size);
  usedBytes += size;
  return bytes;
}

/** 128 random bits, in hexadecimal. */
export function randomId(): string {
  return systemRandom(16).toString('hex');
}

/** Returns a random number from 0 to 1. */
export function randomFraction(): number {
  return Math.random();
}

/** Converts seconds to milliseconds. */
export function secondsToMs(count: number): number {
  return count * 1000;
}

/**
 * Returns the configured pseudonym. By default it depends on the host name and the listeners: it is the same at each start of a
 * server, and differs between servers, so that chained proxies are no loop. Where the system chooses the port, it is random.
 */
export function choosePseudonym({ pseudonym, listen }: Pick<Config, 'pseudonym' | 'listen'>): string {
  if (pseudonym !== undefined) return pseudonym;
  const place = listen.map(({ address }) =>
    address.kind === 'tcp' && address.port === 0 ? randomId() : formatListenPlace(address),
  );
  const identity = `${hostname()} ${place.join(' ')}`;
  return `rangeway-${createHash('sha256').update(identity).digest('hex').slice(0, 8)}`;
}

/** Descriptors that are kept for files, origins and the admin listener, where there are enough. */
const mostKept = 1000;

let known: number | undefined;

/** Returns the maximum number of descriptors of this process; Infinity where the system does not state it. */
export function descriptorLimit(): number {
  known ??= readLimit();
  return known;
}

/** Returns how many descriptors the connections of clients may take. 1000 are kept for the rest, or half where there are few. */
export function clientDescriptors(limit: number): number {
  return limit - Math.min(mostKept, Math.floor(limit / 2));
}

/** The ports of one address limit the connections between two addresses. */
const mostToOrigin = 65_535;

/** Returns how many descriptors the connections to one origin may take: an eighth. */
export function originDescriptors(limit: number): number {
  return Math.min(mostToOrigin, Math.max(1, Math.floor(limit / 8)));
}

/** Returns how many of the connections to an origin are the share of one client: a quarter. */
export function clientShare(connections: number): number {
  return Math.ceil(connections / 4);
}

function readLimit(): number {
  try {
    const limit = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1];
    return limit === undefined ? Number.POSITIVE_INFINITY : Number(limit);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** Interval of the checks, in milliseconds. */
const INTERVAL_MS = 30_000;
/** Maximum part of the interval in which the event loop was active. */
const MOST_ACTIVE = 0.1;
/** Minimum growth that is worth a call. */
const WORTH_BYTES = 64 * 1024 * 1024;

/** The parts that the release of memory uses. */
interface ReleaseParts {
  readonly clock: Pick<Clock, 'after'>;
  /** Returns the memory of the process that is neither V8's heap nor a buffer in use, in bytes. */
  readonly otherBytes: () => number;
  /** Returns how active the event loop has been since the last call: 0 to 1. */
  readonly active: () => number;
  /** Returns the function that releases memory; undefined where the system has none. */
  readonly load: () => (() => void) | undefined;
}

/** Releases free memory to the system from time to time, as long as the process lives. Its timers do not keep the process alive. */
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
      // Without such a function no further check is made.
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

/** Returns glibc's malloc_trim, by Node's experimental `node:ffi`; undefined where it is missing: with an older Node, or musl. */
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
