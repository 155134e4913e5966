/**
 * Collects metrics and formats them for Prometheus, for one process or summed over a fleet. A total never goes down when a worker
 * dies.
 */

import type { PrometheusContentType, Registry } from 'prom-client';
import {
  type Asked,
  createAsked,
  createCounting,
  type MetricReader,
  type MetricReading,
  metricKinds,
  type ProcessRole,
} from './counters.ts';
import type { Emit } from './events.ts';
import { redact } from './redact.ts';

/** How full a store is; in bytes. */
interface StoreReading {
  readonly entryCount: number;
  readonly usedBytes: number;
  readonly maxSizeBytes: number;
  /** Undefined where the store does not report it. */
  readonly memoryBytes?: number | undefined;
  readonly isWritable?: boolean | undefined;
  /** The local disk before an engine; undefined where there is none. */
  readonly local?: LocalReading | undefined;
}

/** What a local disk before an engine has, and what it has saved. */
interface LocalReading {
  readonly usedBytes: number;
  readonly maxSizeBytes: number;
  readonly isWritable: boolean;
  readonly hits: number;
  readonly hitBytes: number;
  readonly misses: number;
}

/** The state of an origin. */
interface OriginReading {
  readonly route: string;
  readonly url: string;
  readonly health: 'well' | 'ill' | 'resting';
  readonly ranges: 'unknown' | 'yes' | 'no';
  /** Undefined where they are not counted. */
  readonly requests?: Readonly<Record<'streams' | 'fills' | 'unanswered' | 'waiting', number>> | undefined;
}

/** The sources of gauges that are read on demand. */
export interface MetricSources {
  readStore(): StoreReading;
  listOrigins(): Iterable<OriginReading>;
}

/** The options of metrics. */
interface MetricsOptions {
  readonly version: string;
  readonly role: ProcessRole;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** How many lines the log of this process has dropped. */
  readonly readDroppedLines?: (() => number) | undefined;
}

/** The metrics of one process. */
export interface Metrics {
  /** Counts an event. */
  readonly emit: Emit;
  /** Sets the sources of the gauges of the store and the origins. Those gauges have no values before. */
  attach(sources: MetricSources): void;
  /** Reads all metrics as plain data, which can be combined with that of other processes. */
  read(): Promise<readonly MetricReading[]>;
  /** Reads our own metrics only, without those about the process (memory, CPU, event loop), whose reading changes some of them. */
  readOwn(): readonly MetricReading[];
}

/** Creates the metrics of this process. */
export function createMetrics({ version, role, now, readDroppedLines = () => 0 }: MetricsOptions): Metrics {
  const counting = createCounting(role, now);
  let sources: MetricSources | undefined;
  const mark = createProcessMark(workerLabel(role), `${process.pid} ${performance.timeOrigin}`);
  const own: readonly MetricReader[] = [
    ...counting.tallies,
    ...attachedGauges(() => sources),
    createAsked(metricKinds.rangeway_log_lines_dropped_total, () => [[[], readDroppedLines()]]),
    createAsked(metricKinds.rangeway_workers, () => [[[], role.kind === 'supervisor' ? 0 : 1]]),
    createAsked(metricKinds.rangeway_build_info, () => [[[version, process.version], 1]]),
    createAsked(metricKinds.rangeway_event_loop_active_seconds_total, () => [[[workerLabel(role)], activeSeconds()]]),
  ];
  const readOwn = (): readonly MetricReading[] => [mark, ...own.map((tally) => tally.read())];
  return {
    emit: counting.emit,
    attach(given) {
      sources = given;
    },
    read: async () => [...readOwn(), ...(await readProcess(role))],
    readOwn,
  };
}

function attachedGauges(sources: () => MetricSources | undefined): readonly MetricReader[] {
  const ofStore = (read: (store: StoreReading) => number | undefined) => (): Asked => {
    const value = sources()?.readStore();
    const number = value === undefined ? undefined : read(value);
    return number === undefined ? [] : [[[], number]];
  };
  const ofOrigins = (read: (origin: OriginReading) => number | undefined) => (): Asked =>
    Array.from(sources()?.listOrigins() ?? []).flatMap((origin) => {
      const value = read(origin);
      return value === undefined ? [] : [[[origin.route, redact(origin.url)], value] as const];
    });
  const knownRanges = { unknown: undefined, yes: 1, no: 0 };
  return [
    createAsked(
      metricKinds.rangeway_store_used_bytes,
      ofStore(({ usedBytes }) => usedBytes),
    ),
    createAsked(
      metricKinds.rangeway_store_max_bytes,
      ofStore(({ maxSizeBytes }) => maxSizeBytes),
    ),
    createAsked(
      metricKinds.rangeway_store_entries,
      ofStore(({ entryCount }) => entryCount),
    ),
    createAsked(
      metricKinds.rangeway_store_memory_bytes,
      ofStore(({ memoryBytes }) => memoryBytes),
    ),
    createAsked(
      metricKinds.rangeway_store_writable,
      ofStore(({ isWritable }) => (isWritable === undefined ? undefined : Number(isWritable))),
    ),
    createAsked(
      metricKinds.rangeway_store_local_bytes,
      ofStore(({ local }) => local?.usedBytes),
    ),
    createAsked(
      metricKinds.rangeway_store_local_max_bytes,
      ofStore(({ local }) => local?.maxSizeBytes),
    ),
    createAsked(
      metricKinds.rangeway_store_local_writable,
      ofStore(({ local }) => local && Number(local.isWritable)),
    ),
    createAsked(
      metricKinds.rangeway_store_local_hits_total,
      ofStore(({ local }) => local?.hits),
    ),
    createAsked(
      metricKinds.rangeway_store_local_hit_bytes_total,
      ofStore(({ local }) => local?.hitBytes),
    ),
    createAsked(
      metricKinds.rangeway_store_local_misses_total,
      ofStore(({ local }) => local?.misses),
    ),
    createAsked(
      metricKinds.rangeway_origin_healthy,
      ofOrigins(({ health }) => Number(health === 'well')),
    ),
    createAsked(
      metricKinds.rangeway_origin_gives_ranges,
      ofOrigins(({ ranges }) => knownRanges[ranges]),
    ),
    createAsked(metricKinds.rangeway_origin_requests, () =>
      Array.from(sources()?.listOrigins() ?? []).flatMap(({ route, url, requests }) =>
        Object.entries(requests ?? {}).map(([use, count]) => [[route, redact(url), use], count] as const),
      ),
    ),
  ];
}

/**
 * Formats a reading in the text format of Prometheus. In a fleet, metrics about a process (memory, CPU, event loop) have the
 * label `worker`.
 */
export async function formatMetrics(reading: readonly MetricReading[]): Promise<string> {
  return await (await aggregate([reading])).metrics();
}

/** Combines readings of a fleet's processes. It keeps the counts of dead workers. */
export interface FleetMetrics {
  /** Combines new readings, in the text format of Prometheus. */
  format(readings: Iterable<readonly object[]>): Promise<string>;
  /** Combines new readings. */
  combine(readings: Iterable<readonly object[]>): Promise<readonly MetricReading[]>;
}

/** Creates the metrics of a fleet. */
export function createFleetMetrics(): FleetMetrics {
  const ledger = new MetricsLedger(async (readings) => await readRegistry(await aggregate(readings)));
  const enter = async (readings: Iterable<readonly object[]>) =>
    await aggregate(await ledger.enter([...readings] as (readonly MetricReading[])[]));
  return {
    format: async (readings) => await (await enter(readings)).metrics(),
    combine: async (readings) => await readRegistry(await enter(readings)),
  };
}

/** The package is loaded when metrics are read: a start does not need it, and many servers are never asked for metrics. */
async function aggregate(readings: readonly (readonly object[])[]): Promise<Registry<PrometheusContentType>> {
  const { AggregatorRegistry } = await import('prom-client');
  return AggregatorRegistry.aggregate<PrometheusContentType>([...readings]);
}

/** At run time `type` is a name, contrary to the types of the package. */
async function readRegistry(registry: Registry<PrometheusContentType>): Promise<readonly MetricReading[]> {
  return (await registry.getMetricsAsJSON()) as unknown as readonly MetricReading[];
}

/** One for each process, because its metrics (such as pauses of the garbage collector) belong to the process. */
let processRegistry: Registry | undefined;

/** Metrics that repeat others, that Node does not document, or that are NaN where nothing was measured since the last reading. */
const leftOut = [
  'nodejs_eventloop_lag_min_seconds',
  'nodejs_eventloop_lag_stddev_seconds',
  'nodejs_active_handles',
  'nodejs_active_handles_total',
  'nodejs_active_requests',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
];

async function readProcess(role: ProcessRole): Promise<readonly MetricReading[]> {
  const { collectDefaultMetrics, Registry } = await import('prom-client');
  if (processRegistry === undefined) {
    processRegistry = new Registry();
    collectDefaultMetrics({ register: processRegistry });
    for (const name of leftOut) processRegistry.removeSingleMetric(name);
  }
  const worker = workerLabel(role);
  const metrics = await readRegistry(processRegistry);
  return metrics.map(({ name, help, type, values }) => ({
    name,
    help,
    type,
    // The label `worker` keeps the numbers of processes apart.
    aggregator: 'first',
    values: values
      .filter(({ value }) => !Number.isNaN(value))
      .map((value) => (worker === '' ? value : { ...value, labels: { worker, ...value.labels } })),
  }));
}

function workerLabel(role: ProcessRole): string {
  return role.kind === 'worker' ? String(role.id) : role.kind === 'supervisor' ? 'supervisor' : '';
}

/** Returns for how many seconds the event loop was active since the process began. */
function activeSeconds(): number {
  return performance.eventLoopUtilization().active / 1000;
}

/** The metrics of one process at one time. */
type Reading = readonly MetricReading[];

/** Combines readings, each metric by its own aggregation. */
type Combine = (readings: readonly Reading[]) => Promise<Reading>;

/** A metric that names the process of a reading; it is not shown. */
const processMark = 'rangeway_process';

/** Creates the metric that identifies the process of a reading: `place` is its number, `name` is unique among all that had it. */
export function createProcessMark(place: string, name: string): MetricReading {
  const help = 'Names the process of a reading.';
  return {
    name: processMark,
    help,
    type: 'gauge',
    aggregator: 'omit',
    values: [{ labels: { place, name }, value: 1 }],
  };
}

interface Account {
  readonly name: string;
  readonly reading: Reading;
}

/**
 * Keeps the last reading of each process. A process that cannot be read counts with its last reading. When another process takes
 * its place, that reading is added to a remainder. Whatever a process counts after its last reading is lost with it.
 */
class MetricsLedger {
  readonly #combine: Combine;
  readonly #accounts = new Map<string, Account>();
  #remainder: Reading = [];
  #last: Promise<unknown> = Promise.resolve();

  constructor(combine: Combine) {
    this.#combine = combine;
  }

  /** Enters new readings; resolves with all readings to combine. Calls run one after the other, so that no total is incomplete. */
  enter(readings: readonly Reading[]): Promise<readonly Reading[]> {
    const entered = this.#last.then(() => this.#enter(readings));
    this.#last = entered.catch(() => undefined);
    return entered;
  }

  async #enter(readings: readonly Reading[]): Promise<readonly Reading[]> {
    const present = new Set<string>();
    for (const reading of readings) {
      const { place, name } = markOf(reading);
      const before = this.#accounts.get(place);
      this.#accounts.set(place, { name, reading });
      present.add(place);
      if (before !== undefined && before.name !== name) await this.#close(before);
    }
    const absent = [...this.#accounts].filter(([place]) => !present.has(place));
    return [...readings, ...absent.map(([, { reading }]) => lasting(reading)), this.#remainder];
  }

  async #close({ reading }: Account): Promise<void> {
    this.#remainder = await this.#combine([this.#remainder, lasting(reading)]);
  }
}

function markOf(reading: Reading): { readonly place: string; readonly name: string } {
  const { place = '', name = '' } = reading.find((metric) => metric.name === processMark)?.values[0]?.labels ?? {};
  return { place: String(place), name: String(name) };
}

/** Returns the metrics that outlive a process: sums of counters and histograms, but no gauges and no metrics about one process. */
function lasting(reading: Reading): Reading {
  return reading.filter(({ type, aggregator }) => aggregator === 'sum' && type !== 'gauge');
}
