/**
 * Counts events: the table of metrics (`metricKinds`), and the counters of each kind of event. Numbers are plain values under
 * labels, so that a hit costs a few additions.
 */

import type {
  AdminEvent,
  ConnectionEvent,
  Emit,
  ExchangeEvent,
  FillEvent,
  FleetEvent,
  LifeEvent,
  PrefetchEvent,
  ProgressEvent,
  RefusalEvent,
  RequestEvent,
  RevalidationEvent,
  ServerEvent,
  StartEvent,
  StoreEvent,
  TunnelEvent,
} from './events.ts';

/** The only process of a server, or one of a fleet. */
export type ProcessRole =
  | { readonly kind: 'alone' }
  | { readonly kind: 'supervisor' }
  | { readonly kind: 'worker'; readonly id: number };

/** Label values by label name. */
type Labels = Readonly<Record<string, string>>;

/** How the readings of several processes are combined. */
type Aggregation = 'sum' | 'max' | 'min' | 'first';

/** The definition of a metric. */
interface MetricKind {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  /** The names of its labels. */
  readonly labels: readonly string[];
  readonly aggregation: Aggregation;
}

/** One number of a metric. */
interface MetricValue {
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
  /** For a histogram: the series of the number, such as `…_bucket`. */
  readonly metricName?: string;
}

/** A metric with all its numbers, as `getMetricsAsJSON` of prom-client returns it. It survives structured cloning. */
export interface MetricReading {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly aggregator: string;
  readonly values: readonly MetricValue[];
}

/** A number. Counters keep a reference to it, to avoid a look-up for each event. */
interface Count {
  value: number;
}

/** A metric that can be read with its numbers. */
export interface MetricReader {
  read(): MetricReading;
}

/** The parts of a metric: one for each combination of label values seen so far. */
class Parts<Part> {
  readonly #names: readonly string[];
  readonly #create: () => Part;
  readonly #parts = new Map<string, { readonly labels: Labels; readonly part: Part }>();

  /** Without labels there is one part from the beginning. */
  constructor(names: readonly string[], create: () => Part) {
    this.#names = names;
    this.#create = create;
    if (names.length === 0) this.of([]);
  }

  of(values: readonly string[]): Part {
    const id = values.join('\0');
    const known = this.#parts.get(id);
    if (known !== undefined) return known.part;
    const part = this.#create();
    this.#parts.set(id, { labels: labelsOf(this.#names, values), part });
    return part;
  }

  read(
    { name, help, type, aggregation }: MetricKind,
    valuesOf: (part: Part, labels: Labels) => readonly MetricValue[],
  ) {
    const values = [...this.#parts.values()].flatMap(({ labels, part }) => valuesOf(part, labels));
    return { name, help, type, aggregator: aggregation, values };
  }
}

/** Counters, or gauges that go up and down. Without labels there is one number, which starts at 0. */
export class Counts implements MetricReader {
  readonly #kind: MetricKind;
  readonly #parts: Parts<Count>;

  constructor(kind: MetricKind) {
    this.#kind = kind;
    this.#parts = new Parts(kind.labels, () => ({ value: 0 }));
  }

  /** Returns the number for these label values, in the order of the labels; the same object each time. */
  of(...values: readonly string[]): Count {
    return this.#parts.of(values);
  }

  read(): MetricReading {
    return this.#parts.read(this.#kind, ({ value }, labels) => [{ labels, value }]);
  }
}

/** Histograms with the same bounds. */
export class Spreads implements MetricReader {
  readonly #kind: MetricKind;
  readonly #parts: Parts<Spread>;

  /** `bounds` are ascending; each is the inclusive upper bound of its bucket. */
  constructor(kind: MetricKind, bounds: readonly number[]) {
    this.#kind = kind;
    this.#parts = new Parts(kind.labels, () => new Spread(bounds));
  }

  /** Returns the histogram for these label values, in the order of the labels; the same object each time. */
  of(...values: readonly string[]): Spread {
    return this.#parts.of(values);
  }

  read(): MetricReading {
    return this.#parts.read(this.#kind, (spread, labels) => spread.read(this.#kind.name, labels));
  }
}

/** One histogram. */
class Spread {
  readonly #bounds: readonly number[];
  /** How many values fell into each bucket, not cumulative; the last bucket has no bound. */
  readonly #counts: number[];
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = Array<number>(bounds.length + 1).fill(0);
  }

  /** Counts a value. One below 0 counts as 0: a clock was set back, and a sum must not go down. */
  observe(measured: number): void {
    const value = Math.max(0, measured);
    // A linear search, because most values are small.
    let at = 0;
    while (at < this.#bounds.length && value > (this.#bounds[at] as number)) at += 1;
    this.#counts[at] = (this.#counts[at] as number) + 1;
    this.#sum += value;
  }

  read(name: string, labels: Labels): readonly MetricValue[] {
    let count = 0;
    const buckets = this.#counts.map((own, at): MetricValue => {
      count += own;
      return { metricName: `${name}_bucket`, labels: { le: this.#bounds[at] ?? '+Inf', ...labels }, value: count };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: count },
    ];
  }
}

/** The numbers of a metric when it is read: the values of its labels, in their order, and the number. */
export type Asked = Iterable<readonly [values: readonly string[], value: number]>;

/** Creates a metric that asks for its numbers when it is read. */
export function createAsked({ name, help, type, labels, aggregation }: MetricKind, ask: () => Asked): MetricReader {
  return {
    read() {
      const values = Array.from(ask(), ([given, value]) => ({ labels: labelsOf(labels, given), value }));
      return { name, help, type, aggregator: aggregation, values };
    },
  };
}

function labelsOf(names: readonly string[], values: readonly string[]): Labels {
  return Object.fromEntries(names.map((name, at) => [name, values[at] ?? '']));
}

/** Bounds of histograms in seconds, from 1 ms to 10 minutes: a hit in memory, a seek, an origin, a whole film. */
export const secondsBounds: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600,
];

type Listed = Omit<MetricKind, 'name' | 'aggregation'> & { readonly aggregation?: Aggregation };

const routed = ['route'];

const table = {
  rangeway_requests_total: counter('Requests that have ended.', ['route', 'method', 'status', 'outcome']),
  rangeway_requests_in_flight: gauge('Requests that have not ended yet.'),
  rangeway_request_reasons_total: counter('Requests that were not plain hits, by reason.', [
    'route',
    'outcome',
    'reason',
  ]),
  rangeway_request_head_seconds: histogram('Seconds from the head of a request to the head of its response.', [
    'route',
    'outcome',
  ]),
  rangeway_request_duration_seconds: histogram('Seconds from the head of a request to the end of its response.', [
    'route',
    'outcome',
  ]),
  rangeway_request_errors_total: counter('Requests that failed, by error code.', ['route', 'error']),
  rangeway_range_requests_total: counter('GET requests with a Range field, by kind of response.', ['route', 'result']),
  rangeway_cut_responses_total: counter('Responses that ended before they were complete, by error code.', [
    'route',
    'error',
  ]),
  rangeway_collapsed_requests_total: counter(
    'Requests that waited for an exchange that another request had started, or shared the next validation.',
    routed,
  ),
  rangeway_sent_bytes_total: counter('Body bytes sent to clients.', routed),
  rangeway_refusals_total: counter(
    'Connections and requests that listeners refused or cut before routing, by error code.',
    ['error'],
  ),
  rangeway_connections_total: counter('Client connections that were accepted.', ['scheme']),
  rangeway_connections_open: gauge('Client connections that are open.', ['scheme']),
  rangeway_tunnels_total: counter('Tunnels (WebSocket) that have ended or were refused, by status.', ['status']),
  rangeway_tunnels_open: gauge('Tunnels that are open.'),
  rangeway_tunnel_bytes_total: counter('Bytes of tunnels that have ended, including their handshakes.', ['direction']),

  rangeway_origin_exchanges_total: counter('Requests that origins answered, by class of status.', ['route', 'status']),
  rangeway_origin_exchanges_in_flight: gauge('Requests to origins that have not ended yet.'),
  rangeway_origin_failures_total: counter('Requests to origins that failed, or whose response broke off.', [
    'route',
    'error',
  ]),
  rangeway_origin_retries_total: counter('Requests that were sent to an origin again.', routed),
  rangeway_origin_received_bytes_total: counter('Body bytes received from origins.', routed),
  rangeway_origin_head_seconds: histogram('Seconds from a request to an origin to the head of its response.', routed),
  rangeway_origin_healthy: gauge(
    'Whether an origin is healthy (1) or not (0). Always 1 for an origin without alternatives.',
    ['route', 'origin'],
    'min',
  ),
  rangeway_origin_gives_ranges: gauge(
    'Whether an origin supports ranges (1) or not (0). Absent while this is unknown.',
    ['route', 'origin'],
    'max',
  ),
  rangeway_origin_requests: gauge('Requests to an origin now, by `use`: `streams`, `fills`, `unanswered`, `waiting`.', [
    'route',
    'origin',
    'use',
  ]),
  rangeway_revalidations_total: counter('Validations of stored responses at origins, by result.', ['result']),

  rangeway_fills_running: gauge('Transfers from origins into the store (fills) that are running.'),
  rangeway_fills_total: counter('Fills that have ended, by result.', ['result']),
  rangeway_fill_resumptions_total: counter('Resumptions of fills that broke off.'),
  rangeway_fill_parts_total: counter('Fills that brought a part beside another fill (fill.parallel).'),
  rangeway_fill_received_bytes_total: counter('Body bytes received by fills that have ended.'),
  rangeway_fill_duration_seconds: histogram('Duration of fills in seconds.', []),

  rangeway_prefetches_total: counter(
    'Segments that were prefetched, could not be, or gave way to clients; and those of them that clients used, or did not.',
    ['route', 'result'],
  ),
  rangeway_prefetched_bytes_total: counter('Body bytes of segments that were prefetched, by what became of them.', [
    'route',
    'result',
  ]),

  rangeway_store_used_bytes: gauge('Bytes that stored entries take.', [], 'max'),
  rangeway_store_max_bytes: gauge('Maximum number of bytes that stored entries may take.', [], 'max'),
  rangeway_store_entries: gauge('Number of stored entries.', [], 'max'),
  rangeway_store_memory_bytes: gauge('Bytes that stored entries take in memory.'),
  rangeway_store_writable: gauge('Whether the store can be written (1), or the disk is full or fails (0).', [], 'min'),
  rangeway_store_evicted_entries_total: counter('Stored entries that were evicted to make room.'),
  rangeway_store_damaged_blocks_total: counter(
    'Stored blocks and records that were damaged, and what in an engine was not authentic. They are fetched again.',
  ),
  rangeway_store_local_bytes: gauge('Bytes on the local disk before an engine. Absent without one.', [], 'max'),
  rangeway_store_local_max_bytes: gauge('Maximum number of bytes on the local disk before an engine.', [], 'max'),
  rangeway_store_local_writable: gauge(
    'Whether the local disk before an engine can be written (1), or is full or fails (0).',
    [],
    'min',
  ),
  rangeway_store_local_hits_total: counter('Reads that the local disk has answered in place of the engine.'),
  rangeway_store_local_hit_bytes_total: counter('Bytes that the local disk has given in place of the engine.'),
  rangeway_store_local_misses_total: counter('Blocks that were read from the engine and not from the local disk.'),

  rangeway_admin_actions_total: counter('Actions that the admin API or a PURGE request asked for, by kind.', [
    'action',
  ]),
  rangeway_reloads_total: counter('Reloads of the configuration, by result.', ['result']),
  rangeway_config_loaded_timestamp_seconds: gauge('Unix time when the active configuration was loaded.', [], 'max'),
  rangeway_log_lines_dropped_total: counter(
    'Log lines that were dropped because their reader was too slow or the disk was full.',
  ),
  rangeway_workers: gauge('Processes that serve clients.'),
  rangeway_worker_restarts_total: counter('Workers that were started to replace dead workers.'),
  rangeway_event_loop_active_seconds_total: {
    ...counter('Seconds in which the event loop was active. A rate of 1 means no idle time.', ['worker']),
    aggregation: 'first',
  },
  rangeway_build_info: gauge(
    'Versions of Rangeway and Node.js. The value is always 1.',
    ['version', 'node_version'],
    'first',
  ),
} satisfies Record<string, Listed>;

/** The name of one of our metrics. */
type MetricName = keyof typeof table;

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

/** Known methods, by number. All others are counted as `other`, because clients can invent any number of them. */
const methods: ReadonlyMap<string, number> = new Map(
  ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PURGE'].map((method, at) => [method, at + 1]),
);
const maxMethods = 16;

/** Reasons come from a fixed set. Any beyond this number are counted as `other`. */
const maxReasons = 100;

/** The numbers of one route and outcome. */
interface OutcomeNumbers {
  readonly head: Spread;
  readonly duration: Spread;
  /** By method and status. */
  readonly requests: Map<number, Count>;
}

/** What a request with a Range field got. */
type RangeResult = 'part' | 'multipart' | 'whole' | 'unsatisfiable' | 'other';

/** The numbers of one route. */
interface RouteNumbers {
  readonly sentBytes: Count;
  readonly ranges: Map<RangeResult, Count>;
  readonly outcomes: Map<RequestEvent['outcome'], OutcomeNumbers>;
}

/** Counts requests. */
class RequestCounters {
  readonly #requests = new Counts(metricKinds.rangeway_requests_total);
  readonly #reasons = new Counts(metricKinds.rangeway_request_reasons_total);
  readonly #heads = new Spreads(metricKinds.rangeway_request_head_seconds, secondsBounds);
  readonly #durations = new Spreads(metricKinds.rangeway_request_duration_seconds, secondsBounds);
  readonly #errors = new Counts(metricKinds.rangeway_request_errors_total);
  readonly #ranges = new Counts(metricKinds.rangeway_range_requests_total);
  readonly #cut = new Counts(metricKinds.rangeway_cut_responses_total);
  readonly #collapsed = new Counts(metricKinds.rangeway_collapsed_requests_total);
  readonly #sent = new Counts(metricKinds.rangeway_sent_bytes_total);
  readonly #inFlightCounts = new Counts(metricKinds.rangeway_requests_in_flight);
  readonly #inFlight = this.#inFlightCounts.of();
  readonly #routes = new Map<string, RouteNumbers>();
  readonly #knownReasons = new Set<string>();

  readonly tallies: readonly MetricReader[] = [
    this.#requests,
    this.#inFlightCounts,
    this.#reasons,
    this.#heads,
    this.#durations,
    this.#errors,
    this.#ranges,
    this.#cut,
    this.#collapsed,
    this.#sent,
  ];

  begin(): void {
    this.#inFlight.value += 1;
  }

  end(event: RequestEvent): void {
    if (event.isAtOnce !== true) this.#inFlight.value -= 1;
    const { route = '', outcome, method, status } = event;
    const ofRoute = this.#routes.get(route) ?? this.#addRoute(route);
    const numbers = ofRoute.outcomes.get(outcome) ?? this.#addOutcome(ofRoute, route, outcome);
    const id = status * maxMethods + (methods.get(method) ?? 0);
    const requests = numbers.requests.get(id) ?? this.#addRequests(numbers, id, event);
    requests.value += 1;
    ofRoute.sentBytes.value += event.bytesSent - (event.reportedBytes ?? 0);
    numbers.head.observe(event.headMs / 1000);
    numbers.duration.observe(event.durationMs / 1000);
    if (event.range !== undefined && method === 'GET') this.#noteRange(ofRoute, route, rangeResult(event));
    if (outcome !== 'hit' || event.error !== undefined || !event.complete) this.#noteTrouble(event, route);
  }

  send({ route = '', bytes }: ProgressEvent): void {
    this.#sent.of(route).value += bytes;
  }

  #noteRange({ ranges }: RouteNumbers, route: string, result: RangeResult): void {
    const count = ranges.get(result) ?? this.#ranges.of(route, result);
    ranges.set(result, count);
    count.value += 1;
  }

  #noteTrouble({ outcome, reason, collapsed, error, complete }: RequestEvent, route: string): void {
    if (reason !== undefined) this.#reasons.of(route, outcome, this.#known(reason)).value += 1;
    if (collapsed) this.#collapsed.of(route).value += 1;
    if (error !== undefined) this.#errors.of(route, error).value += 1;
    if (!complete) this.#cut.of(route, error ?? 'internal').value += 1;
  }

  #known(reason: string): string {
    if (this.#knownReasons.size < maxReasons) this.#knownReasons.add(reason);
    return this.#knownReasons.has(reason) ? reason : 'other';
  }

  #addRoute(route: string): RouteNumbers {
    // A counter that starts at 0 shows its first increase.
    this.#collapsed.of(route);
    const added: RouteNumbers = { sentBytes: this.#sent.of(route), ranges: new Map(), outcomes: new Map() };
    this.#routes.set(route, added);
    return added;
  }

  #addOutcome({ outcomes }: RouteNumbers, route: string, outcome: RequestEvent['outcome']): OutcomeNumbers {
    const added: OutcomeNumbers = {
      head: this.#heads.of(route, outcome),
      duration: this.#durations.of(route, outcome),
      requests: new Map(),
    };
    outcomes.set(outcome, added);
    return added;
  }

  #addRequests(numbers: OutcomeNumbers, id: number, event: RequestEvent): Count {
    const { route = '', method, status, outcome } = event;
    const added = this.#requests.of(route, methods.has(method) ? method : 'other', String(status), outcome);
    numbers.requests.set(id, added);
    return added;
  }
}

function rangeResult({ status, isMultipart }: RequestEvent): RangeResult {
  switch (status) {
    case 200:
      return 'whole';
    case 206:
      return isMultipart ? 'multipart' : 'part';
    case 416:
      return 'unsatisfiable';
    default:
      return 'other';
  }
}

const fillResults: readonly FillEvent['result'][] = ['stored', 'same', 'kept', 'relayed', 'failed', 'stopped'];
const revalidationResults: readonly RevalidationEvent['result'][] = ['confirmed', 'replaced', 'failed'];

/** Counts exchanges with origins, revalidations and fills. */
class OriginCounters {
  readonly #exchanges = new Counts(metricKinds.rangeway_origin_exchanges_total);
  readonly #inFlight = new Counts(metricKinds.rangeway_origin_exchanges_in_flight);
  readonly #failures = new Counts(metricKinds.rangeway_origin_failures_total);
  readonly #retries = new Counts(metricKinds.rangeway_origin_retries_total);
  readonly #received = new Counts(metricKinds.rangeway_origin_received_bytes_total);
  readonly #heads = new Spreads(metricKinds.rangeway_origin_head_seconds, secondsBounds);
  readonly #revalidations = new Counts(metricKinds.rangeway_revalidations_total);
  readonly #fillsRunning = new Counts(metricKinds.rangeway_fills_running);
  readonly #fills = new Counts(metricKinds.rangeway_fills_total);
  readonly #resumptions = new Counts(metricKinds.rangeway_fill_resumptions_total);
  readonly #parts = new Counts(metricKinds.rangeway_fill_parts_total);
  readonly #fillBytes = new Counts(metricKinds.rangeway_fill_received_bytes_total);
  readonly #fillDurations = new Spreads(metricKinds.rangeway_fill_duration_seconds, secondsBounds);
  readonly #prefetches = new Counts(metricKinds.rangeway_prefetches_total);
  readonly #prefetchedBytes = new Counts(metricKinds.rangeway_prefetched_bytes_total);

  readonly tallies: readonly MetricReader[] = [
    this.#exchanges,
    this.#inFlight,
    this.#failures,
    this.#retries,
    this.#received,
    this.#heads,
    this.#revalidations,
    this.#fillsRunning,
    this.#fills,
    this.#resumptions,
    this.#parts,
    this.#fillBytes,
    this.#fillDurations,
    this.#prefetches,
    this.#prefetchedBytes,
  ];

  constructor() {
    // A counter that starts at 0 shows its first increase.
    for (const result of fillResults) this.#fills.of(result);
    for (const result of revalidationResults) this.#revalidations.of(result);
  }

  begin(what: 'fill' | 'exchange', kind: StartEvent['kind']): void {
    const running = what === 'fill' ? this.#fillsRunning : this.#inFlight;
    running.of().value += kind === 'begun' ? 1 : -1;
  }

  endExchange({
    route,
    status,
    error,
    isFailed,
    isResent,
    receivedBytes,
    reportedBytes = 0,
    headMs,
  }: ExchangeEvent): void {
    this.#inFlight.of().value -= 1;
    this.#received.of(route).value += receivedBytes - reportedBytes;
    this.#retries.of(route).value += isResent ? 1 : 0;
    if (status !== undefined) this.#exchanges.of(route, `${Math.floor(status / 100)}xx`).value += 1;
    if (isFailed) this.#failures.of(route, error ?? '').value += 1;
    if (headMs !== undefined) this.#heads.of(route).observe(headMs / 1000);
  }

  receive({ route = '', bytes }: ProgressEvent): void {
    this.#received.of(route).value += bytes;
  }

  revalidate({ result }: RevalidationEvent): void {
    this.#revalidations.of(result).value += 1;
  }

  endFill({ result, bytes, resumptions, isPart, durationMs }: FillEvent): void {
    this.#fillsRunning.of().value -= 1;
    this.#fills.of(result).value += 1;
    this.#resumptions.of().value += resumptions;
    if (isPart) this.#parts.of().value += 1;
    this.#fillBytes.of().value += bytes;
    this.#fillDurations.of().observe(durationMs / 1000);
  }

  prefetch({ route, result, bytes }: PrefetchEvent): void {
    this.#prefetches.of(route, result).value += 1;
    this.#prefetchedBytes.of(route, result).value += bytes;
  }
}

/** Counts refusals, connections of clients, and tunnels. */
class TrafficCounters {
  readonly #refusals = new Counts(metricKinds.rangeway_refusals_total);
  readonly #accepted = new Counts(metricKinds.rangeway_connections_total);
  readonly #open = new Counts(metricKinds.rangeway_connections_open);
  readonly #tunnels = new Counts(metricKinds.rangeway_tunnels_total);
  readonly #openTunnels = new Counts(metricKinds.rangeway_tunnels_open);
  readonly #tunnelBytes = new Counts(metricKinds.rangeway_tunnel_bytes_total);

  readonly tallies: readonly MetricReader[] = [
    this.#refusals,
    this.#accepted,
    this.#open,
    this.#tunnels,
    this.#openTunnels,
    this.#tunnelBytes,
  ];

  refuse({ error, count = 1 }: RefusalEvent): void {
    this.#refusals.of(error).value += count;
  }

  connect({ stage, scheme }: ConnectionEvent): void {
    if (stage === 'opened') this.#accepted.of(scheme).value += 1;
    this.#open.of(scheme).value += stage === 'opened' ? 1 : -1;
  }

  beginTunnel(): void {
    this.#openTunnels.of().value += 1;
  }

  endTunnel({ status, bytesFromOrigin, bytesToOrigin }: TunnelEvent): void {
    this.#tunnels.of(String(status)).value += 1;
    // With any other status the tunnel was never open.
    if (status === 101) this.#openTunnels.of().value -= 1;
    this.#tunnelBytes.of('from_origin').value += bytesFromOrigin;
    this.#tunnelBytes.of('to_origin').value += bytesToOrigin;
  }
}

const actions: readonly AdminEvent['action'][] = [
  'purge',
  'warm',
  'cancel',
  'level',
  'reload',
  'explain',
  'login',
  'refused',
  'failed',
];

/** Counts events of the store, the admin API, the server's life and its workers. */
class ServerCounters {
  readonly #evictions = new Counts(metricKinds.rangeway_store_evicted_entries_total);
  readonly #damages = new Counts(metricKinds.rangeway_store_damaged_blocks_total);
  readonly #actions = new Counts(metricKinds.rangeway_admin_actions_total);
  readonly #reloads = new Counts(metricKinds.rangeway_reloads_total);
  readonly #loadedAt = new Counts(metricKinds.rangeway_config_loaded_timestamp_seconds);
  readonly #restarts = new Counts(metricKinds.rangeway_worker_restarts_total);
  readonly #now: () => number;

  readonly tallies: readonly MetricReader[] = [
    this.#evictions,
    this.#damages,
    this.#actions,
    this.#reloads,
    this.#loadedAt,
    this.#restarts,
  ];

  /** `now` returns epoch milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
    // A counter that starts at 0 shows its first increase.
    for (const action of actions) this.#actions.of(action);
    for (const result of ['done', 'failed']) this.#reloads.of(result);
  }

  store({ count }: StoreEvent): void {
    this.#evictions.of().value += count?.evictedEntries ?? 0;
    this.#damages.of().value += count?.damagedBlocks ?? 0;
  }

  act({ action, stage }: AdminEvent): void {
    if (stage === undefined) this.#actions.of(action).value += 1;
  }

  live({ stage }: LifeEvent): void {
    if (stage === 'ready' || stage === 'reloaded') this.#loadedAt.of().value = this.#now() / 1000;
    if (stage === 'reloaded') this.#reloads.of('done').value += 1;
    if (stage === 'reload_failed') this.#reloads.of('failed').value += 1;
  }

  fleet({ stage }: FleetEvent): void {
    if (stage === 'replaced') this.#restarts.of().value += 1;
  }
}

/** The function for each kind of event. */
type Takers = { readonly [K in ServerEvent['kind']]: (event: Extract<ServerEvent, { kind: K }>) => void };

/** The counters of a process. */
interface Counting {
  readonly emit: Emit;
  readonly tallies: readonly MetricReader[];
}

/** Creates the counters of a process. `now` returns epoch milliseconds. */
export function createCounting(role: ProcessRole, now: () => number): Counting {
  const requests = new RequestCounters();
  const traffic = new TrafficCounters();
  const origins = new OriginCounters();
  const server = new ServerCounters(now);
  const begin = ({ what, kind }: StartEvent): void => {
    if (what === 'request') requests.begin();
    else if (what === 'tunnel') traffic.beginTunnel();
    else origins.begin(what, kind);
  };
  const takers: Takers = {
    request: (event) => requests.end(event),
    begun: begin,
    called_off: begin,
    progress: (event) => (event.what === 'sent' ? requests.send(event) : origins.receive(event)),
    exchange: (event) => origins.endExchange(event),
    revalidation: (event) => origins.revalidate(event),
    fill: (event) => origins.endFill(event),
    prefetch: (event) => origins.prefetch(event),
    connection: (event) => traffic.connect(event),
    refusal: (event) => traffic.refuse(event),
    tunnel: (event) => traffic.endTunnel(event),
    store: (event) => server.store(event),
    admin: (event) => server.act(event),
    fleet: (event) => server.fleet(event),
    // In a fleet the supervisor counts these events, once for all workers.
    life: (event) => (role.kind === 'worker' ? undefined : server.live(event)),
    // Evictions are counted by the events of the store.
    removal: () => undefined,
    origin: () => undefined,
    listener: () => undefined,
    // The log keeps this number itself.
    log: () => undefined,
  };
  return {
    emit: (event) => (takers[event.kind] as (event: ServerEvent) => void)(event),
    tallies: [requests, traffic, origins, server].flatMap(({ tallies }) => tallies),
  };
}
