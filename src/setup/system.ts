/**
 * What the machine and the installation give to a process: clocks, timers, randomness, the limit of open files, memory that
 * goes back to the system, the version, the registered OpenTelemetry SDK.
 */

import { createHash, randomFillSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { hostname } from 'node:os';
import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import { formatListenPlace } from '../config/address.ts';
import type { Config } from '../config/schema.ts';
import type { Clock } from '../http/clock.ts';
import { openTracing, type Tracing } from '../telemetry/tracing.ts';

/** The clock of this machine. */
export const systemClock: Clock = {
  now: Date.now,
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};

/**
 * A clock for what goes on beside requests: waiting by it does not keep the process alive, and its milliseconds never go back,
 * whoever sets the time.
 */
export const backgroundClock: Clock = {
  now: () => performance.now(),
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs).unref();
    return () => clearTimeout(timer);
  },
};

/** The clock of this machine, with milliseconds that never go back either: for what is counted over a time. */
export const monotonicClock: Clock = { ...systemClock, now: () => performance.now() };

/** Random bytes are drawn this many at a time: drawing 16 costs as much as drawing these. */
const drawn = Buffer.allocUnsafeSlow(2048);
let usedBytes = drawn.length;

/** Random bytes that cannot be predicted. */
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

/** A number from 0 to 1, by chance. */
export function randomFraction(): number {
  return Math.random();
}

/** Seconds as milliseconds. */
export function seconds(count: number): number {
  return count * 1000;
}

/** This file is two folders below the package, as source and when built. */
const { version: own } = createRequire(import.meta.url)('../../package.json') as { readonly version: string };

/** As the package says. */
export const version = own;

/** Undefined where no SDK of OpenTelemetry is registered: it is loaded before the program, by `node --import`. */
export function openProcessTracing(): Tracing | undefined {
  return openTracing(version);
}

/**
 * What the configuration says; or a name that is the same for every start of one server, and another one for each server, so
 * that chained proxies are no loop. Servers whose port the system chooses are told apart by chance.
 */
export function choosePseudonym({ pseudonym, listen }: Pick<Config, 'pseudonym' | 'listen'>): string {
  if (pseudonym !== undefined) return pseudonym;
  const place = listen.map(({ address }) =>
    address.kind === 'tcp' && address.port === 0 ? randomId() : formatListenPlace(address),
  );
  const identity = `${hostname()} ${place.join(' ')}`;
  return `rangeway-${createHash('sha256').update(identity).digest('hex').slice(0, 8)}`;
}

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

/** How often it is looked at. */
const INTERVAL_MS = 30_000;
/** The event loop may have been active for this part of the interval. */
const MOST_ACTIVE = 0.1;
/** So much more than after the last time is worth a call. */
const WORTH_BYTES = 64 * 1024 * 1024;

/** What it works with. */
interface ReleaseParts {
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
