/** What the last readings of the server's counters say: rates, ratios and percentiles, from the differences of totals. */

import type { Activity, OutcomeName } from '../api-types.ts';
import { type Percentile, percentile } from './latency.ts';

/** The part of a reading that the history keeps. */
export type Reading = Pick<Activity, 'at' | 'startedAt' | 'requests' | 'bytes' | 'latency'>;

/** What happened between two readings. */
export interface Interval {
  readonly seconds: number;
  readonly requests: Readonly<Record<OutcomeName, number>>;
  readonly sentBytes: number;
  readonly originBytes: number;
  readonly boundsMs: readonly number[];
  /** How many responses fell into each bucket of the latency; not cumulative. */
  readonly counts: readonly number[];
}

/** All outcomes, in the order in which they are shown. */
export const outcomeNames = [
  'hit',
  'stale',
  'revalidated',
  'miss',
  'uncacheable',
  'failed',
  'none',
] as const satisfies readonly OutcomeName[];

/**
 * Returns what happened between two readings. Undefined where their totals cannot be compared: the server was started again, a
 * total went down because a worker died, or no time passed.
 */
export function intervalBetween(before: Reading, after: Reading): Interval | undefined {
  if (before.startedAt !== after.startedAt || after.at <= before.at) return undefined;
  const { boundsMs } = after.latency;
  if (before.latency.counts.length !== after.latency.counts.length) return undefined;
  const counts = after.latency.counts.map((count, at) => count - (before.latency.counts[at] ?? 0));
  const requests = Object.fromEntries(
    outcomeNames.map((name) => [name, after.requests[name] - before.requests[name]]),
  ) as Record<OutcomeName, number>;
  const sentBytes = after.bytes.sent - before.bytes.sent;
  const originBytes = after.bytes.fromOrigin - before.bytes.fromOrigin;
  const isBack = [...counts, ...Object.values(requests), sentBytes, originBytes].some((difference) => difference < 0);
  if (isBack) return undefined;
  return { seconds: (after.at - before.at) / 1000, requests, sentBytes, originBytes, boundsMs, counts };
}

/** Returns the number of requests of an interval. */
export function requestCount({ requests }: Interval): number {
  return outcomeNames.reduce((sum, name) => sum + requests[name], 0);
}

/**
 * Returns the share of requests that the store answered: hits, stale and revalidated responses, of all that the cache was asked
 * for. Requests that Rangeway answered without the cache (`none`) do not count. Undefined where there were none.
 */
export function hitRatioByRequests({ requests }: Interval): number | undefined {
  const stored = requests.hit + requests.stale + requests.revalidated;
  const all = stored + requests.miss + requests.uncacheable + requests.failed;
  return all === 0 ? undefined : stored / all;
}

/** Returns the share of the sent bytes that did not come from origins, at least 0. Undefined where nothing was sent. */
export function hitRatioByBytes({ sentBytes, originBytes }: Interval): number | undefined {
  return sentBytes === 0 ? undefined : Math.max(0, 1 - originBytes / sentBytes);
}

/** Returns the bytes from origins for each byte sent to clients. Undefined where nothing was sent. */
export function amplification({ sentBytes, originBytes }: Interval): number | undefined {
  return sentBytes === 0 ? undefined : originBytes / sentBytes;
}

/** Returns the percentile of the time to the head of a response. Undefined where there was no response. */
export function latencyAt({ boundsMs, counts }: Interval, share: number): Percentile | undefined {
  return percentile(boundsMs, counts, share);
}

/** How far back the history goes, in milliseconds. */
export const keptMs = 15 * 60_000;

/** A pause between two readings that is longer than this, in milliseconds, is a gap: the page was hidden, or the server away. */
const gapMs = 5000;

/** Readings that percentiles and ratios of a chart are computed over, in milliseconds. One second alone has too few requests. */
const smoothMs = 10_000;

/** The columns of the charts: epoch seconds, and a number or null (no value) for each of them. */
export interface Columns {
  readonly seconds: number[];
  readonly sent: (number | null)[];
  readonly fromOrigin: (number | null)[];
  readonly hits: (number | null)[];
  readonly misses: (number | null)[];
  readonly others: (number | null)[];
  readonly byRequests: (number | null)[];
  readonly byBytes: (number | null)[];
  readonly p50: (number | null)[];
  readonly p95: (number | null)[];
  readonly p99: (number | null)[];
}

const columnNames = [
  'sent',
  'fromOrigin',
  'hits',
  'misses',
  'others',
  'byRequests',
  'byBytes',
  'p50',
  'p95',
  'p99',
] as const satisfies readonly (keyof Columns)[];

type Row = Readonly<Record<(typeof columnNames)[number], number | null>>;

/** The readings of the last quarter of an hour, and the columns of the charts, which grow by one row for each reading. */
export class History {
  readonly columns: Columns = {
    seconds: [],
    ...(Object.fromEntries(columnNames.map((name) => [name, []])) as unknown as Omit<Columns, 'seconds'>),
  };
  readonly #readings: Reading[] = [];

  /** Adds a reading. One that is not newer than the last is left out. Of a whole activity, with its fills, only the totals are kept. */
  add({ at, startedAt, requests, bytes, latency }: Reading): void {
    const reading: Reading = { at, startedAt, requests, bytes, latency };
    const last = this.#readings.at(-1);
    if (last !== undefined && reading.at <= last.at) return;
    const isGap = last !== undefined && reading.at - last.at > gapMs;
    // A row of nulls in the gap breaks the lines of the charts there.
    if (isGap) this.#append((last.at + reading.at) / 2, emptyRow);
    this.#readings.push(reading);
    this.#append(reading.at, last === undefined || isGap ? emptyRow : this.#rowOf(last, reading));
    this.#forget(reading.at - keptMs);
  }

  /**
   * Returns what happened in about the last `ms` milliseconds: since the oldest reading of that time that the newest can be compared
   * with. Undefined where there is none.
   */
  since(ms: number): Interval | undefined {
    const newest = this.#readings.at(-1);
    if (newest === undefined) return undefined;
    const first = this.#firstAt(newest.at - ms);
    for (let at = first; at < this.#readings.length - 1; at += 1) {
      const interval = intervalBetween(this.#readings[at] as Reading, newest);
      if (interval !== undefined) return interval;
    }
    return undefined;
  }

  #rowOf(last: Reading, reading: Reading): Row {
    const now = intervalBetween(last, reading);
    const smooth = this.since(smoothMs);
    if (now === undefined || smooth === undefined) return emptyRow;
    const { requests, seconds } = now;
    const at = (share: number) => latencyAt(smooth, share)?.ms ?? null;
    return {
      sent: now.sentBytes / seconds,
      fromOrigin: now.originBytes / seconds,
      hits: (requests.hit + requests.stale + requests.revalidated) / seconds,
      misses: requests.miss / seconds,
      others: (requests.uncacheable + requests.none + requests.failed) / seconds,
      byRequests: hitRatioByRequests(smooth) ?? null,
      byBytes: hitRatioByBytes(smooth) ?? null,
      p50: at(0.5),
      p95: at(0.95),
      p99: at(0.99),
    };
  }

  #append(at: number, row: Row): void {
    this.columns.seconds.push(at / 1000);
    for (const name of columnNames) this.columns[name].push(row[name]);
  }

  #forget(before: number): void {
    while ((this.#readings[0]?.at ?? before) < before) this.#readings.shift();
    while ((this.columns.seconds[0] ?? before) < before / 1000) {
      this.columns.seconds.shift();
      for (const name of columnNames) this.columns[name].shift();
    }
  }

  #firstAt(since: number): number {
    const at = this.#readings.findIndex((reading) => reading.at >= since);
    return at === -1 ? this.#readings.length : at;
  }
}

const emptyRow = Object.fromEntries(columnNames.map((name) => [name, null])) as Row;
