/** Adds up the metrics of a server to the totals that a live view shows. */

import { type MetricReading, metricKinds, secondsBounds } from './counters.ts';

/** The outcomes that requests are counted by. A request that was answered with a status of 500 or more is `failed`. */
type CountedOutcome = 'hit' | 'stale' | 'revalidated' | 'miss' | 'uncacheable' | 'none' | 'failed';

/** Totals since the start of a server. */
export interface CounterTotals {
  /** Each request is in one member only; `inFlight` are those that have not ended. */
  readonly requests: Readonly<Record<CountedOutcome | 'inFlight', number>>;
  readonly bytes: { readonly sent: number; readonly fromOrigin: number };
  /** The time to the head of a response: how many were within each bound, and not within the bound before. The last has none. */
  readonly latency: { readonly boundsMs: readonly number[]; readonly counts: readonly number[] };
  readonly connectionsOpen: number;
}

/** Adds up the metrics of one process, or those that were merged from several. */
export function sumTotals(metrics: readonly MetricReading[]): CounterTotals {
  const byName = new Map(metrics.map((metric) => [metric.name, metric]));
  const valuesOf = ({ name }: { readonly name: string }) => byName.get(name)?.values ?? [];
  const sumOf = (kind: { readonly name: string }) => valuesOf(kind).reduce((sum, { value }) => sum + value, 0);
  const requests = { hit: 0, stale: 0, revalidated: 0, miss: 0, uncacheable: 0, none: 0, failed: 0 };
  for (const { labels, value } of valuesOf(metricKinds.rangeway_requests_total)) {
    const outcome = Number(labels['status']) >= 500 ? 'failed' : String(labels['outcome']);
    if (outcome in requests) requests[outcome as CountedOutcome] += value;
  }
  return {
    requests: { ...requests, inFlight: Math.max(0, sumOf(metricKinds.rangeway_requests_in_flight)) },
    bytes: {
      sent: sumOf(metricKinds.rangeway_sent_bytes_total),
      fromOrigin: sumOf(metricKinds.rangeway_origin_received_bytes_total),
    },
    latency: readLatency(valuesOf(metricKinds.rangeway_request_head_seconds)),
    connectionsOpen: Math.max(0, sumOf(metricKinds.rangeway_connections_open)),
  };
}

/** Adds up histograms, and makes their cumulative buckets plain ones. */
function readLatency(values: MetricReading['values']): CounterTotals['latency'] {
  const cumulative = new Map([...secondsBounds, Number.POSITIVE_INFINITY].map((bound) => [bound, 0]));
  for (const { metricName = '', labels, value } of values) {
    if (!metricName.endsWith('_bucket')) continue;
    const bound = labels['le'] === '+Inf' ? Number.POSITIVE_INFINITY : Number(labels['le']);
    cumulative.set(bound, (cumulative.get(bound) ?? 0) + value);
  }
  const buckets = [...cumulative].sort(([one], [other]) => one - other);
  return {
    boundsMs: secondsBounds.map((bound) => bound * 1000),
    counts: buckets.map(([, count], at) => count - (buckets[at - 1]?.[1] ?? 0)),
  };
}
