/**
 * The operations that an operator can perform on a server, in one process or in several. All values are plain data that survives
 * structured cloning. Read this file first, then `endpoints.ts`, which offers the operations over HTTP.
 */

import type { Span } from '../bytes/span.ts';
import type { ExplainReply } from '../guard/explain.ts';
import type { EntryOrder } from '../store/store.ts';

/** A stored representation. */
export interface EntryStatus {
  readonly key: string;
  /** The two parts of the key: the URI that it is stored for, and the origin with everything else that distinguishes keys. */
  readonly uri: string;
  readonly scope: string;
  /** Distinguishes it from other variants of its key; empty where nothing does. */
  readonly variant: string;
  readonly generation: string;
  readonly status: number;
  readonly contentType: string | undefined;
  readonly sizeBytes: number;
  /** How many of its bytes are stored. */
  readonly presentBytes: number;
  readonly isComplete: boolean;
  /** Whether it must be validated before its next use, even while it is fresh. */
  readonly isInvalid: boolean;
  /** Until when a replaced generation is kept, in epoch milliseconds; undefined for the current one. */
  readonly pinnedUntil: number | undefined;
  /** When its head was received, in epoch milliseconds. */
  readonly responseAt: number;
  /** When it was last used, in epoch milliseconds; undefined where no use is known since the server was started. */
  readonly usedAt: number | undefined;
  readonly etag: string | undefined;
  readonly lastModified: string | undefined;
  readonly tags: readonly string[];
}

/** One entry, with all details. */
export interface EntryDetails extends EntryStatus {
  readonly fields: readonly (readonly [name: string, value: string])[];
  /** The request fields that select it, as Vary names them. */
  readonly nominated: readonly (readonly [name: string, value: string | null])[];
  /** The stored bytes, as half-open spans. */
  readonly present: readonly Span[];
  /** The stored bytes that memory holds, of any process. */
  readonly hot: readonly Span[];
  readonly arriving: readonly ArrivingSpan[];
}

/** The bytes of an entry that a running fill still has to bring. */
export interface ArrivingSpan extends Span {
  /** `id` of the fill. */
  readonly fillId: string;
}

/** What one process has of an entry besides its stored bytes. */
export interface EntryInProcess extends Pick<EntryDetails, 'hot' | 'arriving'> {}

/** Selects entries: all, those of a URL, of a prefix of URLs, of a host, or with a tag or a group. */
export type EntrySearch =
  | { readonly kind: 'all' }
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'prefix'; readonly url: string }
  | { readonly kind: 'host'; readonly host: string }
  | { readonly kind: 'tag'; readonly tag: string }
  /** A group of Cache-Groups (RFC 9875), which belongs to a URI origin such as `https://example.org`. */
  | { readonly kind: 'group'; readonly group: string; readonly origin: string };

/** A page of entries. */
export interface EntryList {
  readonly entries: readonly EntryStatus[];
  /** Where the next page begins; undefined after the last one. */
  readonly next: string | undefined;
}

/**
 * What to purge, and how: `hard` removes; `soft` ends the lifetime, so that an entry is validated before its next use, and may be
 * served stale if the origin fails.
 */
export interface PurgeOrder {
  readonly search: EntrySearch;
  readonly mode: 'hard' | 'soft';
}

/** The result of a purge. */
export interface PurgeReport {
  /** Entries that were removed or expired. For a hard purge by prefix, host, tag or group: URIs, each with all its variants. */
  readonly entries: number;
}

/** URLs to fetch into the store before a client asks for them. */
export interface WarmOrder {
  readonly urls: readonly string[];
  /** Fields of the requests, such as Accept-Encoding. They select the variant where the response varies. */
  readonly fields?: readonly (readonly [name: string, value: string])[] | undefined;
}

/** The outcome for one URL. */
export interface WarmReport {
  readonly url: string;
  readonly status: number;
  /** Cache-Status of the response: a hit, or why not. */
  readonly cacheStatus: string | undefined;
  readonly bytes: number;
  readonly error: string | undefined;
}

/** A request to explain. */
export interface ExplainOrder {
  /** Its URL as clients ask for it. A path alone is enough where there is one route. */
  readonly url: string;
  readonly method?: string | undefined;
  /** Its fields; a Host among them replaces the authority of the URL. */
  readonly fields?: readonly (readonly [name: string, value: string])[] | undefined;
  /** The address of the client; by default this machine. */
  readonly client?: string | undefined;
}

export type { ExplainReply };

/** A running fill. */
export interface FillStatus {
  /** Identifies it among all fills of all processes. */
  readonly id: string;
  readonly key: string;
  readonly uri: string;
  readonly generation: string;
  /** The worker that it runs in. */
  readonly worker: number;
  readonly sizeBytes: number | undefined;
  readonly receivedBytes: number;
  readonly readers: number;
  /** When it began, in epoch milliseconds. */
  readonly startedAt: number;
}

/** One origin of a route, and what a worker knows of it. */
export interface OriginStatus {
  readonly route: string;
  readonly url: string;
  readonly worker: number;
  readonly health: 'well' | 'ill' | 'resting';
  /** Whether it sends parts, as far as the worker knows; `no` also while none are requested. */
  readonly ranges: 'unknown' | 'yes' | 'no';
  /** The requests that have a place at it, by what holds it, and those that wait for one. */
  readonly requests: {
    readonly streams: number;
    readonly fills: number;
    readonly unanswered: number;
    readonly waiting: number;
  };
}

/** Selects decisions: those of a key, of a URI, or of all requests. */
export interface DecisionSearch {
  readonly key?: string | undefined;
  readonly uri?: string | undefined;
}

/** What happened to one request. Secrets in its texts are redacted. */
export interface RequestDecision {
  /** When it ended, in epoch milliseconds. */
  readonly at: number;
  readonly worker: number;
  readonly method: string;
  readonly uri: string;
  readonly range: string | undefined;
  readonly status: number;
  /** As in the log: hit, stale, revalidated, miss, uncacheable, or none where the cache was not asked. */
  readonly outcome: string;
  readonly reason: string | undefined;
  /** Whether it waited for a transfer that another request had started. */
  readonly collapsed: boolean;
  readonly originBytes: number;
  readonly sentBytes: number;
  readonly headMs: number;
  readonly durationMs: number;
  /** The fields and cookies in which it differs from a stored response that is for equal requests only. */
  readonly apartBy: readonly string[] | undefined;
  readonly error: string | undefined;
  readonly traceId: string | undefined;
}

/** What happened to the entries of a key besides requests. */
export interface KeyEvent {
  readonly at: number;
  readonly worker: number;
  readonly event: 'filled' | 'purged' | 'expired' | 'evicted';
  /** A sentence for people. */
  readonly detail: string;
}

/** What happened to one request, or to the entries of a key. */
export type RecordedDecision = RequestDecision | KeyEvent;

/** How full the store is. */
export interface StoreFigures {
  readonly entries: number;
  readonly memoryBytes: number;
  readonly memoryLimitBytes: number;
  /** Null for a store in memory. Of Redis or Valkey where the store is there; its limit is 0 where it has none. */
  readonly diskBytes: number | null;
  readonly diskLimitBytes: number | null;
  /** Whether other machines share it, in Redis or Valkey. Entries and the figures of the disk are those of all machines then. */
  readonly isShared: boolean;
}

/** A URI that was requested often within about the last minute. Secrets in it are redacted. */
export interface HotTarget {
  readonly uri: string;
  readonly hits: number;
  /** Bytes of body that were sent. */
  readonly bytes: number;
}

/** Totals since the start of the server. */
export interface ActivityTotals {
  /** By outcome; `failed` are those with a status of 500 or more, which no other member counts. `inFlight` have not ended. */
  readonly requests: Readonly<
    Record<'hit' | 'stale' | 'revalidated' | 'miss' | 'uncacheable' | 'none' | 'failed' | 'inFlight', number>
  >;
  readonly bytes: { readonly sent: number; readonly fromOrigin: number };
  /** The time to the head of a response. `counts` are not cumulative, and one more than the bounds: the last has no bound. */
  readonly latency: { readonly boundsMs: readonly number[]; readonly counts: readonly number[] };
  readonly connectionsOpen: number;
}

/** What one process does now. */
export interface WorkerActivity {
  /** Its metrics, for merging, as those of `readMetrics`, but without those about the process. */
  readonly metrics: readonly object[];
  readonly store: StoreFigures;
  readonly origins: readonly OriginStatus[];
  /** The longest-running first; not all of them where there are very many. */
  readonly fills: readonly FillStatus[];
  readonly fillCount: number;
  readonly hottest: readonly HotTarget[];
}

/** What a server does now. Rates and ratios over a time follow from the difference of two readings. */
export interface Activity extends ActivityTotals, Omit<WorkerActivity, 'metrics'> {
  /** When this was read, and when the server started, in epoch milliseconds. */
  readonly at: number;
  readonly startedAt: number;
  readonly isReady: boolean;
  readonly workers: Readiness['workers'];
}

/** The levels of the log. */
export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** Whether a server is ready to serve. */
export interface Readiness {
  readonly isReady: boolean;
  /** Why it is not ready, for people. */
  readonly reason: string | undefined;
  readonly workers: readonly { readonly id: number; readonly pid: number; readonly state: string }[];
  /** The addresses that clients connect to. */
  readonly addresses: readonly string[];
}

/** Why an operation cannot be performed: its order is invalid, its object is not there, or the server is not able to do it now. */
export class OperationFault extends Error {
  readonly reason: 'invalid' | 'not_found' | 'unavailable';

  constructor(reason: 'invalid' | 'not_found' | 'unavailable', message: string) {
    super(message);
    this.name = 'OperationFault';
    this.reason = reason;
  }
}

/** Operations on the store that all processes share: any one process can perform them. All reject with `OperationFault`. */
export interface StoreOperations {
  /** Lists entries in the order of their keys, or as `order` says. A page may be short although there is a next one. */
  listEntries(
    search: EntrySearch,
    limit: number,
    after: string | undefined,
    order?: EntryOrder | undefined,
  ): Promise<EntryList>;
  inspectEntry(key: string, generation: string): Promise<EntryDetails>;
  /** Resolves when no process answers with what was purged. */
  purge(order: PurgeOrder): Promise<PurgeReport>;
  warm(order: WarmOrder): Promise<readonly WarmReport[]>;
  /** Explains how a request would be answered, as far as one process knows. Sends nothing to the origin. */
  explain(order: ExplainOrder): Promise<ExplainReply>;
}

/** Operations on each process: all processes are asked, and their answers are merged. */
export interface WorkerOperations {
  listFills(): Promise<readonly FillStatus[]>;
  /** Stops a fill. Clients that read it are disconnected. Resolves with whether it was running here. */
  cancelFill(id: string): Promise<boolean>;
  listOrigins(): Promise<readonly OriginStatus[]>;
  setLogLevel(level: LogLevel): Promise<void>;
  /** Resolves with the last decisions of a search, the newest first. From now on hits are remembered, too, for some seconds. */
  readDecisions(search: DecisionSearch, limit: number): Promise<readonly RecordedDecision[]>;
  /** Resolves with the last use of each entry that this process knows of: see `EntryStatus.usedAt`. */
  readUses(generations: readonly string[]): Promise<readonly (number | undefined)[]>;
  /** Resolves with what this process has of an entry of this length in bytes. */
  inspectHere(generation: string, sizeBytes: number): Promise<EntryInProcess>;
  /** Resolves with the metrics, as prom-client returns them for merging (`getMetricsAsJSON`). */
  readMetrics(): Promise<readonly object[]>;
  /** Resolves with what the process does now. From now on it counts for some seconds which URIs are requested most. */
  readActivity(): Promise<WorkerActivity>;
}

/** The operations of a whole server. */
export interface Operations
  extends StoreOperations,
    Omit<WorkerOperations, 'readMetrics' | 'readActivity' | 'readUses' | 'inspectHere'> {
  readReadiness(): Promise<Readiness>;
  /** Resolves with the active configuration as JSON, without secrets. */
  readConfig(): Promise<unknown>;
  readLogLevel(): Promise<LogLevel>;
  /** Reads the configuration again and activates it. Rejects with `OperationFault` `invalid`, and changes nothing, where it is unusable. */
  reload(): Promise<void>;
  /** Resolves with the metrics in the text format of Prometheus. */
  formatMetrics(): Promise<string>;
  /** Resolves with what the server does now. */
  readActivity(): Promise<Activity>;
}
