/** Percentiles of a histogram, as Prometheus' `histogram_quantile` estimates them. */

/** A percentile. `below`, `above`: only a bound is known, because it lies in the first or in the last bucket. */
export interface Percentile {
  readonly kind: 'within' | 'below' | 'above';
  readonly ms: number;
}

/**
 * Estimates the value that the share `share` of all values does not exceed, by linear interpolation within its bucket. `boundsMs`
 * are ascending; `counts` has one bucket more, without a bound, and is not cumulative. Undefined where nothing was counted.
 */
export function percentile(
  boundsMs: readonly number[],
  counts: readonly number[],
  share: number,
): Percentile | undefined {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total <= 0) return undefined;
  const rank = share * total;
  let before = 0;
  for (const [at, count] of counts.entries()) {
    if (count > 0 && before + count >= rank) return inBucket(boundsMs, at, (rank - before) / count);
    before += count;
  }
  return inBucket(boundsMs, counts.length - 1, 1);
}

function inBucket(boundsMs: readonly number[], at: number, share: number): Percentile {
  const upper = boundsMs[at];
  if (upper === undefined) return { kind: 'above', ms: boundsMs.at(-1) ?? 0 };
  const lower = boundsMs[at - 1];
  if (lower === undefined) return { kind: 'below', ms: upper };
  return { kind: 'within', ms: lower + (upper - lower) * Math.max(0, share) };
}
