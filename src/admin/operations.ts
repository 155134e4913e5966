/**
 * What those who run a server can ask of it and have it do, whatever serves: one process, or a supervisor with its workers.
 * All of it is plain data that survives structured cloning.
 */

import type { ExplainReply } from '../guard/explain.ts';

/** A stored representation. */
export interface EntryStatus {
  readonly key: string;
  /** The URI that it is stored for, and the origin with what else tells keys apart: the two parts of the key. */
  readonly uri: string;
  readonly scope: string;
  /** Tells it apart from others of its key; empty where nothing does. */
  readonly variant: string;
  readonly generation: string;
  readonly status: number;
  readonly contentType: string | undefined;
  readonly sizeBytes: number;
  readonly isComplete: boolean;
  /** Whether it is validated before it is used, whatever its lifetime. */
  readonly isInvalid: boolean;
  /** Of a replaced generation, until when it is kept, in epoch milliseconds. */
  readonly pinnedUntil: number | undefined;
  /** When its head was received, in epoch milliseconds. */
  readonly responseAt: number;
  readonly etag: string | undefined;
  readonly lastModified: string | undefined;
  readonly tags: readonly string[];
}

/** One entry, whole. */
export interface EntryDetails extends EntryStatus {
  readonly fields: readonly (readonly [name: string, value: string])[];
  /** The request fields that select it, as Vary names them. */
  readonly nominated: readonly (readonly [name: string, value: string | null])[];
  /** The bytes that are there, as half-open spans. */
  readonly present: readonly { readonly start: number; readonly end: number }[];
  readonly presentBytes: number;
}

/** Which entries are meant: of a URL, of all URLs that begin like it, of a host, or with a tag. */
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
 * What to purge, and how: `hard` removes; `soft` ends the lifetime, so that it is validated before it is used again, and may
 * be served stale if the origin fails.
 */
export interface PurgeOrder {
  readonly search: EntrySearch;
  readonly mode: 'hard' | 'soft';
}

/** What a purge has come to. */
export interface PurgeReport {
  /** Entries that were removed or marked; of a hard purge by prefix, host, tag or group, URIs with all their variants. */
  readonly entries: number;
}

/** What to fetch into the store before somebody asks for it. */
export interface WarmOrder {
  readonly urls: readonly string[];
  /** Fields of the requests, such as Accept-Encoding, which select what is fetched where the response varies. */
  readonly fields?: readonly (readonly [name: string, value: string])[] | undefined;
}

/** What has become of one URL. */
export interface WarmReport {
  readonly url: string;
  readonly status: number;
  /** As Cache-Status tells it: hit, or why not. */
  readonly cacheStatus: string | undefined;
  readonly bytes: number;
  readonly error: string | undefined;
}

/** A request that is to be explained. */
export interface ExplainOrder {
  /** Its URL as clients ask for it; a path alone where there is one route. */
  readonly url: string;
  readonly method?: string | undefined;
  /** Its fields; a Host among them replaces the authority of the URL. */
  readonly fields?: readonly (readonly [name: string, value: string])[] | undefined;
  /** The address of the client that would ask; this machine without it. */
  readonly client?: string | undefined;
}

export type { ExplainReply };

/** A transfer from an origin that is running. */
export interface FillStatus {
  /** Names it among all fills of all processes. */
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

/** One origin of a route, and what is known of it. */
export interface OriginStatus {
  readonly route: string;
  readonly url: string;
  readonly worker: number;
  readonly health: 'well' | 'ill' | 'resting';
  /** Whether it gives ranges: not known before it was asked. */
  readonly ranges: 'unknown' | 'yes' | 'no';
}

/** The levels of the log. */
export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** Whether a server is fit to serve. */
export interface Readiness {
  readonly isReady: boolean;
  /** What is missing, for people. */
  readonly reason: string | undefined;
  readonly workers: readonly { readonly id: number; readonly pid: number; readonly state: string }[];
  /** The addresses that clients connect to. */
  readonly addresses: readonly string[];
}

/** Why something cannot be done: what was asked is wrong, or is not there. */
export class OperationFault extends Error {
  readonly reason: 'invalid' | 'not_found' | 'unavailable';

  constructor(reason: 'invalid' | 'not_found' | 'unavailable', message: string) {
    super(message);
    this.name = 'OperationFault';
    this.reason = reason;
  }
}

/** What concerns the store that all processes share: any one of them can do it. All reject with `OperationFault`. */
export interface StoreOperations {
  listEntries(search: EntrySearch, limit: number, after: string | undefined): Promise<EntryList>;
  inspectEntry(key: string, generation: string): Promise<EntryDetails>;
  /** Resolves when no process answers with what was purged. */
  purge(order: PurgeOrder): Promise<PurgeReport>;
  warm(order: WarmOrder): Promise<readonly WarmReport[]>;
  /** Says what would become of a request, as far as one process knows. The origin is asked nothing. */
  explain(order: ExplainOrder): Promise<ExplainReply>;
}

/** What concerns each process by itself: all are asked, and what they say is put together. */
export interface WorkerOperations {
  listFills(): Promise<readonly FillStatus[]>;
  /** Ends a fill; those who read it are cut off. Tells whether there was one. */
  cancelFill(id: string): Promise<boolean>;
  listOrigins(): Promise<readonly OriginStatus[]>;
  setLogLevel(level: LogLevel): Promise<void>;
  /** What is counted, as prom-client writes it to be put together (`getMetricsAsJSON`). */
  readMetrics(): Promise<readonly object[]>;
}

/** What a whole server offers. */
export interface Operations extends StoreOperations, Omit<WorkerOperations, 'readMetrics'> {
  readReadiness(): Promise<Readiness>;
  /** What runs, without secrets, as JSON. */
  readConfig(): Promise<unknown>;
  readLogLevel(): Promise<LogLevel>;
  /** Reads the configuration again and goes on with it. Rejects with `OperationFault` `invalid`: then nothing has changed. */
  reload(): Promise<void>;
  /** The metrics in the text format of Prometheus. */
  formatMetrics(): Promise<string>;
}
