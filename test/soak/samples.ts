/** Samples of the server's processes and metrics while the load runs. */

import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { processTree } from '../../bench/cpu-time.ts';
import type { Load, LoadCounts } from './load.ts';
import type { SoakServer } from './server.ts';

/** One sample. Counts are those of the whole server, with its supervisor. */
export interface Sample {
  /** Milliseconds after the start of the load. */
  readonly atMs: number;
  readonly residentBytes: number;
  readonly descriptors: number;
  readonly storeBytes: number;
  readonly memoryTierBytes: number;
  readonly entries: number;
  readonly connections: number;
  readonly fills: number;
  /** The longest delay of an event loop since the last sample, in milliseconds. */
  readonly loopLagMs: number;
  /** Rates since the last sample. */
  readonly perSecond: Readonly<Record<'hit' | 'miss' | 'error' | 'refused', number>>;
  readonly bytesPerSecond: number;
  /** Share of hits among the answers since the last sample. */
  readonly hitShare: number;
  /** Times to the heads of responses, in milliseconds. */
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** The values of metrics: each by its name with its labels, and by its name alone the sum over all labels. */
export function sumMetrics(text: string): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const line of text.split('\n')) {
    const [, name, labels, value] = /^(\w+)(\{.*\})? (\S+)$/.exec(line) ?? [];
    if (name === undefined) continue;
    sums.set(name, (sums.get(name) ?? 0) + Number(value));
    if (labels !== undefined) sums.set(name + labels, Number(value));
  }
  return sums;
}

/** Returns the value at a share of sorted values; 0 where there is none. */
export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

/** Takes samples of a server. */
export class Sampler {
  readonly #server: SoakServer;
  readonly #load: Load;
  readonly #startedAt = performance.now();
  readonly samples: Sample[] = [];
  #last: { readonly atMs: number; readonly counts: LoadCounts };
  #isOver = false;

  constructor(server: SoakServer, load: Load) {
    this.#server = server;
    this.#load = load;
    this.#last = { atMs: 0, counts: load.counts };
  }

  /** Takes a sample at this interval until `stop` is called. */
  async run(everyMs: number): Promise<void> {
    while (!this.#isOver) {
      await delay(everyMs);
      const sample = await this.#take();
      if (sample !== undefined && !this.#isOver) this.samples.push(sample);
    }
  }

  /** Takes no further samples. */
  stop(): void {
    this.#isOver = true;
  }

  async #take(): Promise<Sample | undefined> {
    const metrics = await readMetrics(this.#server);
    const processes = residentOf(this.#server.pid);
    // A worker that ends while it is looked at makes no sample.
    if (metrics === undefined || processes === undefined) return undefined;
    const of = (name: string): number => metrics.get(name) ?? 0;
    const atMs = performance.now() - this.#startedAt;
    const { counts } = this.#load;
    const seconds = (atMs - this.#last.atMs) / 1000;
    const rate = (name: keyof LoadCounts['outcomes']): number =>
      (counts.outcomes[name] - this.#last.counts.outcomes[name]) / seconds;
    const perSecond = { hit: rate('hit'), miss: rate('miss'), error: rate('error'), refused: rate('refused') };
    const answered = perSecond.hit + perSecond.miss;
    const headTimes = [...this.#load.takeHeadTimes()].sort((a, b) => a - b);
    const bytesPerSecond = (counts.bytes - this.#last.counts.bytes) / seconds;
    this.#last = { atMs, counts };
    return {
      atMs,
      ...processes,
      storeBytes: of('rangeway_store_used_bytes'),
      memoryTierBytes: of('rangeway_store_memory_bytes'),
      entries: of('rangeway_store_entries'),
      connections: of('rangeway_connections_open'),
      fills: of('rangeway_fills_running'),
      loopLagMs: (metrics.get('longest lag') ?? 0) * 1000,
      perSecond,
      bytesPerSecond,
      hitShare: answered === 0 ? 0 : perSecond.hit / answered,
      p50Ms: percentile(headTimes, 0.5),
      p99Ms: percentile(headTimes, 0.99),
    };
  }
}

/** Reads the metrics; undefined where the server gives none now. `longest lag` is the largest of all processes, in seconds. */
export async function readMetrics({
  admin,
}: Pick<SoakServer, 'admin'>): Promise<ReadonlyMap<string, number> | undefined> {
  const { status, text } = await admin('GET', '/metrics');
  if (status !== 200) return undefined;
  const lags = [...text.matchAll(/^nodejs_eventloop_lag_max_seconds(?:\{.*\})? (\S+)$/gm)].map(([, lag]) =>
    Number(lag),
  );
  return new Map([...sumMetrics(text), ['longest lag', Math.max(0, ...lags)]]);
}

/** Resident memory and descriptors of a process and its descendants, from /proc; undefined where one of them has just ended. */
function residentOf(pid: number): { readonly residentBytes: number; readonly descriptors: number } | undefined {
  try {
    const all = processTree(pid);
    const pages = all.map((each) => Number(readFileSync(`/proc/${each}/statm`, 'latin1').split(' ')[1]));
    const descriptors = all.map((each) => readdirSync(`/proc/${each}/fd`).length);
    const sum = (values: readonly number[]) => values.reduce((one, other) => one + other, 0);
    return { residentBytes: sum(pages) * 4096, descriptors: sum(descriptors) };
  } catch {
    return undefined;
  }
}
