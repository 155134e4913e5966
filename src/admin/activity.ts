/**
 * What a server does now (`Activity`): puts the readings of its processes together, and sends them to watchers as server-sent
 * events. Nothing is read without a watcher.
 */

import { problemResponse } from '../delivery/problem.ts';
import type { BodyStream, ProxyResponse } from '../http/message.ts';
import type {
  Activity,
  ActivityTotals,
  FillStatus,
  HotTarget,
  Readiness,
  StoreFigures,
  WorkerActivity,
} from './operations.ts';

/** Maximum number of fills that are listed; the longest-running come first. */
export const mostFills = 1000;

/** Maximum number of the URIs that are requested most, of one process and of all. */
export const mostHottestRead = 100;
const mostHottest = 20;

/** The parts of an activity. */
interface ActivityParts extends Pick<Activity, 'at' | 'startedAt'>, Pick<Readiness, 'isReady' | 'workers'> {
  readonly totals: ActivityTotals;
  /** The readings of the processes that serve and answered. */
  readonly readings: readonly WorkerActivity[];
}

/** Puts an activity together. */
export function composeActivity({ totals, readings, ...rest }: ActivityParts): Activity {
  const { at, startedAt, isReady, workers } = rest;
  return {
    at,
    startedAt,
    isReady,
    workers,
    ...totals,
    store: composeStore(readings.map(({ store }) => store)),
    origins: readings.flatMap(({ origins }) => origins).toSorted(byRoute),
    fills: readings
      .flatMap(({ fills }) => fills)
      .toSorted(byAge)
      .slice(0, mostFills),
    fillCount: readings.reduce((sum, { fillCount }) => sum + fillCount, 0),
    hottest: composeHottest(readings.flatMap(({ hottest }) => hottest)),
  };
}

/** All processes share the disk; each has its own memory. */
function composeStore(figures: readonly StoreFigures[]): StoreFigures {
  const sum = (of: (figure: StoreFigures) => number) => figures.reduce((total, each) => total + of(each), 0);
  const largest = (of: (figure: StoreFigures) => number | null) => {
    const known = figures.map(of).filter((value) => value !== null);
    return known.length === 0 ? null : Math.max(...known);
  };
  return {
    entries: largest(({ entries }) => entries) ?? 0,
    memoryBytes: sum(({ memoryBytes }) => memoryBytes),
    memoryLimitBytes: sum(({ memoryLimitBytes }) => memoryLimitBytes),
    diskBytes: largest(({ diskBytes }) => diskBytes),
    diskLimitBytes: largest(({ diskLimitBytes }) => diskLimitBytes),
    isShared: figures.some(({ isShared }) => isShared),
  };
}

function composeHottest(counts: readonly HotTarget[]): readonly HotTarget[] {
  const sums = new Map<string, HotTarget>();
  for (const { uri, hits, bytes } of counts) {
    const sum = sums.get(uri);
    sums.set(uri, { uri, hits: hits + (sum?.hits ?? 0), bytes: bytes + (sum?.bytes ?? 0) });
  }
  return [...sums.values()]
    .toSorted((one, other) => other.hits - one.hits || compare(one.uri, other.uri))
    .slice(0, mostHottest);
}

/** Orders fills by their age, the oldest first. */
export function byAge(one: FillStatus, other: FillStatus): number {
  return one.startedAt - other.startedAt || compare(one.id, other.id);
}

/** Orders origins by their route, URL and worker. */
export function byRoute(one: { route: string; url: string; worker: number }, other: typeof one): number {
  return compare(one.route, other.route) || compare(one.url, other.url) || one.worker - other.worker;
}

function compare(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

/** Maximum number of watchers at a time. */
export const mostWatchers = 20;

/** The time between two readings, in milliseconds. */
const periodMs = 1000;

/** The parts of a feed. */
interface FeedOptions {
  readonly read: () => Promise<Activity>;
  /** Calls back once after some milliseconds, unless the returned function is called before. */
  readonly after: (delayMs: number, callback: () => void) => () => void;
}

/** The fields of an event stream. A proxy in between must not hold the events back (`X-Accel-Buffering` is nginx's). */
const streamFields = [
  ['content-type', 'text/event-stream; charset=utf-8'],
  ['cache-control', 'no-store'],
  ['x-content-type-options', 'nosniff'],
  ['x-accel-buffering', 'no'],
] as const;

/**
 * Reads the activity once a second while there are watchers, and sends each reading to all watchers. A watcher that does not take
 * the events in time skips some: none is queued.
 */
export class ActivityFeed {
  readonly #options: FeedOptions;
  readonly #watchers = new Set<Watcher>();
  #reading: Promise<Activity> | undefined;
  /** The event that was sent last; undefined before the first, and without a watcher. */
  #latest: Uint8Array | undefined;
  #isSending = false;
  #cancel: (() => void) | undefined;
  #isClosed = false;

  constructor(options: FeedOptions) {
    this.#options = options;
  }

  /** Number of watchers at present. */
  get watchers(): number {
    return this.#watchers.size;
  }

  /** Resolves with a reading. Calls at the same time share one. */
  read(): Promise<Activity> {
    this.#reading ??= this.#options.read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /**
   * Returns the response with the events, or why there is none. For HEAD nothing is watched. The stream ends before the next event
   * once `isAdmitted` is false.
   */
  open(method: string, isAdmitted: () => boolean): ProxyResponse {
    if (this.#isClosed) return problemResponse(503, 'The server is stopping.');
    if (method === 'HEAD') return { status: 200, fields: streamFields, body: { kind: 'none' } };
    if (this.#watchers.size >= mostWatchers) {
      return problemResponse(503, `${mostWatchers} clients watch already.`, [['retry-after', '5']]);
    }
    const watcher = new Watcher(isAdmitted, (ended) => this.#remove(ended));
    this.#watchers.add(watcher);
    // The first event of a further watcher is the last one of the others.
    if (this.#latest === undefined) void this.#send();
    else watcher.offer(this.#latest);
    return { status: 200, fields: streamFields, body: { kind: 'stream', sizeBytes: undefined, stream: watcher } };
  }

  /** Ends all streams, and opens no more. */
  close(): void {
    this.#isClosed = true;
    this.disconnect();
  }

  /** Ends all streams. Clients connect again, and their access is checked again. */
  disconnect(): void {
    for (const watcher of this.#watchers) watcher.close();
  }

  /** Ends the streams of those that are no longer admitted. */
  dismiss(): void {
    for (const watcher of this.#watchers) if (!watcher.isAdmitted()) watcher.close();
  }

  async #send(): Promise<void> {
    if (this.#isSending) return;
    this.#isSending = true;
    const event = await this.read().then(formatEvent, () => undefined);
    this.#isSending = false;
    this.dismiss();
    if (this.#watchers.size === 0) return;
    if (event !== undefined) for (const watcher of this.#watchers) watcher.offer(event);
    this.#latest = event;
    this.#cancel?.();
    this.#cancel = this.#options.after(periodMs, () => void this.#send());
  }

  #remove(watcher: Watcher): void {
    this.#watchers.delete(watcher);
    if (this.#watchers.size > 0) return;
    this.#latest = undefined;
    this.#cancel?.();
    this.#cancel = undefined;
  }
}

/** One event (HTML standard §9.2.6). JSON has no line breaks. */
function formatEvent(activity: Activity): Uint8Array {
  return Buffer.from(`retry: 1000\nevent: activity\ndata: ${JSON.stringify(activity)}\n\n`);
}

/** The body of one event stream. It keeps at most one event, the newest. */
class Watcher implements BodyStream {
  readonly isAdmitted: () => boolean;
  readonly #onEnd: (watcher: Watcher) => void;
  #newest: Uint8Array | undefined;
  #wake: (() => void) | undefined;
  #isEnded = false;

  constructor(isAdmitted: () => boolean, onEnd: (watcher: Watcher) => void) {
    this.isAdmitted = isAdmitted;
    this.#onEnd = onEnd;
  }

  offer(event: Uint8Array): void {
    this.#newest = event;
    this.#wake?.();
  }

  close(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#onEnd(this);
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    while (!this.#isEnded) {
      const event = this.#newest;
      this.#newest = undefined;
      if (event === undefined) await this.#offered();
      else yield event;
    }
  }

  async #offered(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    await promise;
    this.#wake = undefined;
  }
}
