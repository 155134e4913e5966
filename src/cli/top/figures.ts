/** Rates, ratios and percentiles, from the difference between two readings of the server's totals. */

/** A running transfer from an origin. */
export interface TopFill {
  readonly id: string;
  readonly uri: string;
  readonly sizeBytes?: number | undefined;
  readonly receivedBytes: number;
  readonly readers: number;
  /** Epoch milliseconds. */
  readonly startedAt: number;
}

/** One reading: the answer of `GET /api/v1/activity`. Requests, bytes and latency are totals since the start. */
export interface TopReading {
  /** Epoch milliseconds. */
  readonly at: number;
  readonly startedAt: number;
  readonly isReady: boolean;
  readonly workers: readonly { readonly id: number; readonly pid: number; readonly state: string }[];
  readonly requests: {
    readonly hit: number;
    readonly stale: number;
    readonly revalidated: number;
    readonly miss: number;
    readonly uncacheable: number;
    /** Answered without the cache. */
    readonly none: number;
    /** With a status of 500 or more; no other member counts these. */
    readonly failed: number;
    readonly inFlight: number;
  };
  readonly bytes: { readonly sent: number; readonly fromOrigin: number };
  /** Time to the head of the response. `counts` has one more member than `boundsMs`, for what is slower. */
  readonly latency: { readonly boundsMs: readonly number[]; readonly counts: readonly number[] };
  readonly connectionsOpen: number;
  readonly store: {
    readonly entries: number;
    readonly memoryBytes?: number | null | undefined;
    readonly memoryLimitBytes?: number | null | undefined;
    readonly diskBytes?: number | null | undefined;
    readonly diskLimitBytes?: number | null | undefined;
    /** Whether other machines share it, in Redis or Valkey. Absent for older servers. */
    readonly isShared?: boolean | undefined;
  };
  readonly origins: readonly {
    readonly route: string;
    readonly url: string;
    readonly worker: number;
    readonly health: string;
    readonly ranges: string;
  }[];
  readonly fills: readonly TopFill[];
  readonly fillCount: number;
  readonly hottest: readonly { readonly uri: string; readonly hits: number; readonly bytes: number }[];
}

/** What happened between two readings. Ratios and percentiles are NaN where there was nothing to measure. */
export interface Figures {
  readonly requestsPerSecond: number;
  readonly failedPerSecond: number;
  readonly sentPerSecond: number;
  readonly fromOriginPerSecond: number;
  /** The share of requests through the cache that a stored response answered. */
  readonly hitRatio: number;
  /** The share of the sent bytes that the origin did not send in that time; at least 0. */
  readonly byteHitRatio: number;
  /** Bytes from the origin for each byte sent. */
  readonly amplification: number;
  /** Milliseconds; Infinity beyond the last bound of the histogram. */
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

/** Returns how many requests a reading has counted. */
export function requestsOf({ requests }: TopReading): number {
  const { hit, stale, revalidated, miss, uncacheable, none, failed } = requests;
  return hit + stale + revalidated + miss + uncacheable + none + failed;
}

/**
 * Returns the figures of the time from `before` to `after`; without `before`, those since the start of the server. Where the
 * server was restarted in between, totals begin anew, and so do the figures.
 */
export function figuresBetween(before: TopReading | undefined, after: TopReading): Figures {
  const base = before !== undefined && before.startedAt === after.startedAt ? before : undefined;
  const seconds = Math.max(0.001, (after.at - (base?.at ?? after.startedAt)) / 1000);
  const since = (read: (reading: TopReading) => number): number =>
    Math.max(0, read(after) - (base === undefined ? 0 : read(base)));
  const answered = since(({ requests: { hit, stale, revalidated } }) => hit + stale + revalidated);
  const cached = answered + since(({ requests: { miss, uncacheable } }) => miss + uncacheable);
  const sent = since(({ bytes }) => bytes.sent);
  const fromOrigin = since(({ bytes }) => bytes.fromOrigin);
  const { boundsMs } = after.latency;
  const counts = after.latency.counts.map((count, at) => Math.max(0, count - (base?.latency.counts[at] ?? 0)));
  return {
    requestsPerSecond: since(requestsOf) / seconds,
    failedPerSecond: since(({ requests }) => requests.failed) / seconds,
    sentPerSecond: sent / seconds,
    fromOriginPerSecond: fromOrigin / seconds,
    hitRatio: cached === 0 ? Number.NaN : answered / cached,
    byteHitRatio: sent === 0 ? Number.NaN : Math.max(0, 1 - fromOrigin / sent),
    amplification: sent === 0 ? Number.NaN : fromOrigin / sent,
    p50: percentileOf(boundsMs, counts, 0.5),
    p95: percentileOf(boundsMs, counts, 0.95),
    p99: percentileOf(boundsMs, counts, 0.99),
  };
}

/** Returns a percentile of a histogram, interpolated within its bucket; Infinity beyond the last bound, NaN for no values. */
export function percentileOf(bounds: readonly number[], counts: readonly number[], share: number): number {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return Number.NaN;
  const rank = share * total;
  let before = 0;
  for (const [at, count] of counts.entries()) {
    if (count > 0 && before + count >= rank) {
      const upper = bounds[at];
      if (upper === undefined) return Number.POSITIVE_INFINITY;
      const lower = at === 0 ? 0 : (bounds[at - 1] ?? 0);
      return lower + (upper - lower) * ((rank - before) / count);
    }
    before += count;
  }
  return Number.POSITIVE_INFINITY;
}

/** How far a fill was at a reading, and how fast, in bytes per second. */
interface FillPace {
  readonly at: number;
  readonly bytes: number;
  readonly speed: number;
}

/** Follows the speed of each fill from reading to reading. */
export class FillSpeeds {
  #known: ReadonlyMap<string, FillPace> = new Map();

  /** Takes the next reading. Fills that are over are forgotten. */
  update({ at, fills }: Pick<TopReading, 'at' | 'fills'>): void {
    const next = new Map<string, FillPace>();
    for (const { id, receivedBytes, startedAt } of fills) {
      const before = this.#known.get(id);
      const from = before ?? { at: Math.min(startedAt, at), bytes: 0, speed: Number.NaN };
      const seconds = (at - from.at) / 1000;
      const now = seconds > 0 ? Math.max(0, receivedBytes - from.bytes) / seconds : from.speed;
      // Smoothed: fills arrive in bursts.
      const speed = Number.isFinite(from.speed) ? 0.6 * from.speed + 0.4 * now : now;
      next.set(id, { at, bytes: receivedBytes, speed });
    }
    this.#known = next;
  }

  /** Bytes per second; 0 for an unknown fill. */
  speedOf(id: string): number {
    const speed = this.#known.get(id)?.speed ?? 0;
    return Number.isFinite(speed) ? speed : 0;
  }
}
