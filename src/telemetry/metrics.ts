/**
 * Metrics in the form of Prometheus, of one process or summed over all processes of a server. A total never goes down when a
 * worker dies.
 */

import { AggregatorRegistry, collectDefaultMetrics, type PrometheusContentType, Registry } from 'prom-client';
import {
  type Asked,
  createAsked,
  createCounting,
  type MetricReading,
  metricKinds,
  type ProcessRole,
  type Tally,
} from './counters.ts';
import type { Emit } from './events.ts';
import { redact } from './redact.ts';

/** How full a store is; in bytes. */
interface StoreReading {
  readonly entryCount: number;
  readonly usedBytes: number;
  readonly maxSizeBytes: number;
  /** Undefined where the store does not tell. */
  readonly memoryBytes?: number | undefined;
  readonly isWritable?: boolean | undefined;
}

/** What is known of an origin. */
interface OriginReading {
  readonly route: string;
  readonly url: string;
  readonly health: 'well' | 'ill' | 'resting';
  readonly ranges: 'unknown' | 'yes' | 'no';
}

/** What is asked when metrics are read. */
export interface MetricSources {
  readStore(): StoreReading;
  listOrigins(): Iterable<OriginReading>;
}

/** What metrics are made with. */
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
  /** Says who tells what is not counted; nobody does at first. */
  attach(sources: MetricSources): void;
  /** All metrics, as plain data to be put together with that of other processes. */
  read(): Promise<readonly MetricReading[]>;
}

/** Creates the metrics of this process. */
export function createMetrics({ version, role, now, readDroppedLines = () => 0 }: MetricsOptions): Metrics {
  const counting = createCounting(role, now);
  let sources: MetricSources | undefined;
  const mark = createProcessMark(workerLabel(role), `${process.pid} ${performance.timeOrigin}`);
  const own: readonly Tally[] = [
    ...counting.tallies,
    ...attachedGauges(() => sources),
    createAsked(metricKinds.rangeway_log_lines_dropped_total, () => [[[], readDroppedLines()]]),
    createAsked(metricKinds.rangeway_workers, () => [[[], role.kind === 'supervisor' ? 0 : 1]]),
    createAsked(metricKinds.rangeway_build_info, () => [[[version, process.version], 1]]),
    createAsked(metricKinds.rangeway_event_loop_active_seconds_total, () => [[[workerLabel(role)], activeSeconds()]]),
  ];
  return {
    emit: counting.emit,
    attach(given) {
      sources = given;
    },
    read: async () => [mark, ...own.map((tally) => tally.read()), ...(await readProcess(role))],
  };
}

function attachedGauges(sources: () => MetricSources | undefined): readonly Tally[] {
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
      metricKinds.rangeway_origin_healthy,
      ofOrigins(({ health }) => Number(health === 'well')),
    ),
    createAsked(
      metricKinds.rangeway_origin_gives_ranges,
      ofOrigins(({ ranges }) => knownRanges[ranges]),
    ),
  ];
}

/**
 * A reading in the text format of Prometheus. What a process is like (memory, CPU, event loop) has the label `worker` where there
 * are several.
 */
export function formatMetrics(reading: readonly MetricReading[]): Promise<string> {
  return aggregate([reading]).metrics();
}

/** Puts together what the processes of a fleet have counted, over the lives of its workers; each call has new readings. */
export function createFleetFormat(): (readings: Iterable<readonly object[]>) => Promise<string> {
  const ledger = new MetricsLedger((readings) => readRegistry(aggregate(readings)));
  return async (readings) => {
    const entered = await ledger.enter([...readings] as (readonly MetricReading[])[]);
    return await aggregate(entered).metrics();
  };
}

function aggregate(readings: readonly (readonly object[])[]): Registry<PrometheusContentType> {
  return AggregatorRegistry.aggregate<PrometheusContentType>([...readings]);
}

/** The package gives the names of types, whatever it says that it gives. */
async function readRegistry(registry: Registry<PrometheusContentType>): Promise<readonly MetricReading[]> {
  return (await registry.getMetricsAsJSON()) as unknown as readonly MetricReading[];
}

/** There is one for each process, because what it counts (pauses of the garbage collector) belongs to the process. */
let processRegistry: Registry | undefined;

/** Metrics that repeat others, that Node does not document, or that are no numbers where nothing was measured since they were read. */
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
    // With the label no two processes have the same number.
    aggregator: 'first',
    values: values
      .filter(({ value }) => !Number.isNaN(value))
      .map((value) => (worker === '' ? value : { ...value, labels: { worker, ...value.labels } })),
  }));
}

function workerLabel(role: ProcessRole): string {
  return role.kind === 'worker' ? String(role.id) : role.kind === 'supervisor' ? 'supervisor' : '';
}

/** Since the process began. */
function activeSeconds(): number {
  return performance.eventLoopUtilization().active / 1000;
}

/** What one process has counted. */
type Reading = readonly MetricReading[];

/** Puts readings together: each metric as it says itself. */
type Combine = (readings: readonly Reading[]) => Promise<Reading>;

/** A metric that names the process of a reading; it is not shown. */
const processMark = 'rangeway_process';

/** The metric by which the readings of a process are known: `place` is its number, `name` its own among all that had it. */
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
 * Keeps the last reading of each process. Who cannot be read counts with what it had counted when it was; when another process
 * has its place, that becomes part of a remainder. What a process has counted after its last reading is gone with it.
 */
class MetricsLedger {
  readonly #combine: Combine;
  readonly #accounts = new Map<string, Account>();
  #remainder: Reading = [];
  #last: Promise<unknown> = Promise.resolve();

  constructor(combine: Combine) {
    this.#combine = combine;
  }

  /** All that is to be put together, with these new readings. One entry after the other: no total is half told. */
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

/** What has happened is true for ever; how things are is not, nor is what is told of a process by itself. */
function lasting(reading: Reading): Reading {
  return reading.filter(({ type, aggregator }) => aggregator === 'sum' && type !== 'gauge');
}
