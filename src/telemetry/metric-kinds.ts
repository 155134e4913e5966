/** The table of our metrics: what each is called, and what it says. */

import type { Aggregation, MetricKind } from './tally.ts';

/** From 1 ms to 10 minutes, in seconds: a hit in memory, a seek, an origin, a whole film. */
export const secondsBounds: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600,
];

type Listed = Omit<MetricKind, 'name' | 'aggregation'> & { readonly aggregation?: Aggregation };

const routed = ['route'];

const table = {
  rangeway_requests_total: counter('Requests that are over.', ['route', 'method', 'status', 'outcome']),
  rangeway_requests_in_flight: gauge('Requests that are not over yet.'),
  rangeway_request_reasons_total: counter('Requests that were no plain hits, by why.', ['route', 'outcome', 'reason']),
  rangeway_request_head_seconds: histogram('Time from the head of a request to the head of its response.', [
    'route',
    'outcome',
  ]),
  rangeway_request_duration_seconds: histogram('Time from the head of a request to the end of its response.', [
    'route',
    'outcome',
  ]),
  rangeway_request_errors_total: counter('Requests that failed, by the code of the error.', ['route', 'error']),
  rangeway_range_requests_total: counter('GET requests with a Range field, by what they got.', ['route', 'result']),
  rangeway_cut_responses_total: counter('Responses that ended before they were whole, by the code of the error.', [
    'route',
    'error',
  ]),
  rangeway_collapsed_requests_total: counter('Requests that waited for what another one had started.', routed),
  rangeway_sent_bytes_total: counter('Bytes of bodies that clients were sent.', routed),
  rangeway_refusals_total: counter('What listeners refused or cut before it had a route.', ['error']),
  rangeway_connections_total: counter('Connections of clients that were accepted.', ['scheme']),
  rangeway_connections_open: gauge('Connections of clients that are open.', ['scheme']),
  rangeway_tunnels_total: counter('Tunnels (WebSocket) that have ended or were refused.', ['status']),
  rangeway_tunnels_open: gauge('Tunnels that are open.'),
  rangeway_tunnel_bytes_total: counter('Bytes over the connections of tunnels that have ended.', ['direction']),

  rangeway_origin_exchanges_total: counter('Requests to origins that were answered, by class of status.', [
    'route',
    'status',
  ]),
  rangeway_origin_exchanges_in_flight: gauge('Requests to origins that are not over yet.'),
  rangeway_origin_failures_total: counter('Requests to origins that failed, or whose response broke off.', [
    'route',
    'error',
  ]),
  rangeway_origin_retries_total: counter('Requests that were sent to an origin again.', routed),
  rangeway_origin_received_bytes_total: counter('Bytes of bodies that origins have sent.', routed),
  rangeway_origin_head_seconds: histogram('Time from a request to an origin to the head of its response.', routed),
  rangeway_origin_healthy: gauge('Whether an origin may be asked.', ['route', 'origin'], 'min'),
  rangeway_origin_gives_ranges: gauge(
    'Whether an origin gives ranges, where that is known.',
    ['route', 'origin'],
    'max',
  ),
  rangeway_revalidations_total: counter('Questions to origins whether what is stored is current.', ['result']),

  rangeway_fills_running: gauge('Transfers from origins into the store that run.'),
  rangeway_fills_total: counter('Transfers from origins into the store that are over.', ['result']),
  rangeway_fill_resumptions_total: counter('Transfers that broke off and were taken up again.'),
  rangeway_fill_received_bytes_total: counter('Bytes of transfers that are over.'),
  rangeway_fill_duration_seconds: histogram('How long transfers took.', []),

  rangeway_store_used_bytes: gauge('What stored entries take.', [], 'max'),
  rangeway_store_max_bytes: gauge('What stored entries may take.', [], 'max'),
  rangeway_store_entries: gauge('Stored entries.', [], 'max'),
  rangeway_store_memory_bytes: gauge('What stored entries take in memory.'),
  rangeway_store_writable: gauge('Whether the store takes what comes: 0 while the disk is full or fails.', [], 'min'),
  rangeway_store_evicted_entries_total: counter('Stored entries that went to make room.'),
  rangeway_store_damaged_blocks_total: counter('Stored blocks whose checksum was wrong; they are fetched again.'),

  rangeway_admin_actions_total: counter('What those who run the server had it do.', ['action']),
  rangeway_reloads_total: counter('Times that the configuration was read again.', ['result']),
  rangeway_config_loaded_timestamp_seconds: gauge('When the configuration that runs was loaded.', [], 'max'),
  rangeway_log_lines_dropped_total: counter(
    'Lines of the log that were dropped: what reads it was too slow, or the disk full.',
  ),
  rangeway_workers: gauge('Processes that serve.'),
  rangeway_worker_restarts_total: counter('Workers that were started in the place of dead ones.'),
  rangeway_event_loop_active_seconds_total: {
    ...counter('Time in which the event loop had work: a second a second is full.', ['worker']),
    aggregation: 'first',
  },
  rangeway_build_info: gauge('What runs: always 1.', ['version', 'node_version'], 'first'),
} satisfies Record<string, Listed>;

/** The name of one of our metrics. */
export type MetricName = keyof typeof table;

/** The metrics by name. */
export const metricKinds = Object.fromEntries(
  Object.entries<Listed>(table).map(([name, listed]) => [name, { aggregation: 'sum', ...listed, name }]),
) as Readonly<Record<MetricName, MetricKind>>;

function counter(help: string, labels: readonly string[] = []): Listed {
  return { type: 'counter', help, labels };
}

function gauge(help: string, labels: readonly string[] = [], aggregation: Aggregation = 'sum'): Listed {
  return { type: 'gauge', help, labels, aggregation };
}

function histogram(help: string, labels: readonly string[]): Listed {
  return { type: 'histogram', help, labels };
}
