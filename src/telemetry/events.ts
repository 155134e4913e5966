/** The typed events that the core emits; it knows no logger. Read `log.ts` and `counters.ts` next: they consume the events. */

/** A request is over. */
export interface RequestEvent {
  readonly kind: 'request';
  readonly method: string;
  readonly scheme: string;
  readonly authority: string;
  /** As received; a consumer that writes it redacts it. */
  readonly target: string;
  readonly version: string;
  /** The address at the other end of the connection. */
  readonly peer: string;
  /** The client's address, where a trusted proxy names one that is not the peer's. */
  readonly client: string | undefined;
  /** The name that the client's credentials belong to. */
  readonly user: string | undefined;
  readonly route: string | undefined;
  /** The key of its responses in the store; undefined where the cache was not asked. */
  readonly key?: string | undefined;
  readonly status: number;
  /** The Range field as received. */
  readonly range: string | undefined;
  /** Bytes of body handed to the client, and whether that was all. */
  readonly bytesSent: number;
  /** How many of them were in progress events before; none by default. */
  readonly reportedBytes?: number | undefined;
  readonly complete: boolean;
  /** Whether it was several parts of a representation (multipart/byteranges, RFC 9110 §14.6). */
  readonly isMultipart: boolean;
  /** hit, stale, revalidated, miss, uncacheable; `none` when the cache was not asked. */
  readonly outcome: 'hit' | 'stale' | 'revalidated' | 'miss' | 'uncacheable' | 'none';
  /** Why the outcome is not a hit, in the words of Cache-Status where it has one. */
  readonly reason: string | undefined;
  /** The fields and cookies in which the request differs from a stored response that is for equal requests only. */
  readonly apartBy?: readonly string[] | undefined;
  /** Whether the request waited for a flight that another request had started. */
  readonly collapsed: boolean;
  /** Bytes of body that the origin sent because of this request, until the request ended. */
  readonly originBytes: number;
  /** Milliseconds from the request's head to the response's head, and to its end. */
  readonly headMs: number;
  readonly durationMs: number;
  /** A code of the table in http/proxy-error. */
  readonly error: string | undefined;
  readonly errorDetail: string | undefined;
  /** Whether the request began and ended in one tick, so that no `begun` event was emitted. */
  readonly isAtOnce?: boolean | undefined;
  /** The trace that the request belongs to, where it is traced and recorded. */
  readonly traceId?: string | undefined;
}

/** A listener refused input before it became a request, or cut a connection. */
export interface RefusalEvent {
  readonly kind: 'refusal';
  readonly peer: string | undefined;
  readonly status: number;
  readonly error: string;
  readonly detail: string | undefined;
  /** How many refusals the event stands for; 1 by default. */
  readonly count?: number | undefined;
}

/** A tunnel (RFC 9110 §7.8) has ended or was refused. */
export interface TunnelEvent {
  readonly kind: 'tunnel';
  readonly authority: string;
  readonly target: string;
  readonly peer: string;
  readonly status: number;
  /** Bytes read from and written to the origin's connection, including the handshake. */
  readonly bytesFromOrigin: number;
  readonly bytesToOrigin: number;
  readonly durationMs: number;
  /** A code of the table in http/proxy-error. */
  readonly error: string | undefined;
  readonly errorDetail: string | undefined;
}

/** A transfer from the origin into a generation is over. */
export interface FillEvent {
  readonly kind: 'fill';
  readonly key: string;
  readonly generation: string | undefined;
  /** Bytes received from the origin. */
  readonly bytes: number;
  /** How often the transfer broke off and was resumed. */
  readonly resumptions: number;
  /** Whether it brought a part of what another fill would have brought (`fill.parallel`). */
  readonly isPart: boolean;
  /**
   * stored: committed; same: the stored bytes were confirmed; kept: stored, but the generation is not whole yet; relayed: whole,
   * but the store could not keep it; failed: it broke off; stopped: no client wanted it any more.
   */
  readonly result: 'stored' | 'same' | 'kept' | 'relayed' | 'failed' | 'stopped';
  readonly durationMs: number;
  /** A code of the table in http/proxy-error. */
  readonly error: string | undefined;
  readonly errorDetail: string | undefined;
}

/** A segment was prefetched or could not be; or it turned out whether a client wanted it. */
export interface PrefetchEvent {
  readonly kind: 'prefetch';
  readonly route: string;
  /** The key of the segment in the store. */
  readonly key: string;
  /**
   * fetched: it is stored; failed: the origin or a rule prevented it; skipped: it gave way to clients, or reached a limit. Later, of a
   * fetched one: used, a client has asked for it; unused, no client has for ten minutes, or it was forgotten before.
   */
  readonly result: 'fetched' | 'failed' | 'skipped' | 'used' | 'unused';
  /** Bytes of the segment that were fetched. */
  readonly bytes: number;
  /** Why it failed or was skipped. */
  readonly detail: string | undefined;
}

/** An exchange with an origin is over: one request to it, and the outcome. */
export interface ExchangeEvent {
  readonly kind: 'exchange';
  readonly route: string;
  /** The origin's URL, without credentials. */
  readonly origin: string;
  readonly method: string;
  /** Undefined where no response came. */
  readonly status: number | undefined;
  /** Whether the request had been sent before, to this origin or to another one of its route. */
  readonly isResent: boolean;
  /** Bytes of body received. */
  readonly receivedBytes: number;
  /** How many of them were in progress events before; none by default. */
  readonly reportedBytes?: number | undefined;
  /** Milliseconds from the request to the response's head, where one came, and to the end of its body. */
  readonly headMs: number | undefined;
  readonly durationMs: number;
  /** Whether the origin failed; false where the exchange was given up on our side. */
  readonly isFailed: boolean;
  /** A code of the table in http/proxy-error. */
  readonly error: string | undefined;
  readonly errorDetail: string | undefined;
}

/** A stored response was validated: the origin confirmed it, sent another response in its place, or failed. */
export interface RevalidationEvent {
  readonly kind: 'revalidation';
  readonly result: 'confirmed' | 'replaced' | 'failed';
}

/** Something has begun, and its end will be an event of its own; or it was called off before it did anything. */
export interface StartEvent {
  readonly kind: 'begun' | 'called_off';
  readonly what: 'request' | 'tunnel' | 'fill' | 'exchange';
}

/** A client has connected, or its connection is closed. */
export interface ConnectionEvent {
  readonly kind: 'connection';
  readonly stage: 'opened' | 'closed';
  readonly scheme: 'http' | 'https';
}

/** Something about a store that an operator should know. */
export interface StoreEvent {
  readonly kind: 'store';
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  readonly detail: string | undefined;
  /** Numbers for the metrics; undefined where there are none. */
  readonly count?: { readonly evictedEntries?: number; readonly damagedBlocks?: number } | undefined;
}

/** Stored entries were removed or expired. */
export interface RemovalEvent {
  readonly kind: 'removal';
  /** `purged`, `expired`: by an operator; `evicted`: to make room. */
  readonly cause: 'purged' | 'expired' | 'evicted';
  /** The keys of the entries; not all of them where there are very many. */
  readonly keys: readonly string[];
}

/** Something about an origin that an operator should know. */
export interface OriginEvent {
  readonly kind: 'origin';
  readonly route: string;
  readonly message: string;
  readonly detail: string | undefined;
}

/** Something about a listener that an operator should know. */
export interface ListenerEvent {
  readonly kind: 'listener';
  readonly level: 'info' | 'warn' | 'error';
  readonly message: string;
}

/** Something about the processes of a server that an operator should know. */
export interface FleetEvent {
  readonly kind: 'fleet';
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  /** The number of the worker that the event is about; undefined for all workers. */
  readonly worker: number | undefined;
  /** `away`, `back`: the engine that the fleet shares its store in. */
  readonly stage: 'started' | 'ended' | 'replaced' | 'stuck' | 'away' | 'back';
  readonly message: string;
  readonly detail: string | undefined;
}

/** An operator had the server do something. */
export interface AdminEvent {
  readonly kind: 'admin';
  readonly level: 'info' | 'warn';
  /**
   * The action that was asked for: purge, warm, explain, cancel, level, reload, login (of a browser); `refused` where the client may not ask, `failed`
   * where the request could not be answered.
   */
  readonly action: 'purge' | 'warm' | 'explain' | 'cancel' | 'level' | 'reload' | 'login' | 'refused' | 'failed';
  /** `begun`: the action has begun, and its end is another event; `part`: a part of it has failed. Neither counts as an action. */
  readonly stage?: 'begun' | 'part' | undefined;
  readonly peer: string | undefined;
  readonly message: string;
}

/** The server's own life. */
export interface LifeEvent {
  readonly kind: 'life';
  readonly stage: 'ready' | 'reloading' | 'reloaded' | 'reload_failed' | 'stopping' | 'stopped' | 'cut';
  /** Addresses served, such as `http://127.0.0.1:8080`. */
  readonly addresses: readonly string[];
  /** The address of the admin listener, where there is one; set only when the server is ready. */
  readonly admin?: string | undefined;
  readonly message: string;
}

/** Lines of the log were dropped, and lines are written again. */
export interface LogEvent {
  readonly kind: 'log';
  readonly droppedLines: number;
  readonly message: string;
}

/** Part of a long body was transferred. The event at its end does not count these bytes again. */
export interface ProgressEvent {
  readonly kind: 'progress';
  readonly what: 'sent' | 'received';
  readonly route: string | undefined;
  /** Bytes of body since the last such event of this transfer. */
  readonly bytes: number;
}

/** A progress event is for more bytes than these. Small, so that a slow transfer is seen to move; shorter ones have no such event. */
export const progressStepBytes = 64 * 1024;

/** Events that are counted or remembered, but not logged. */
export type UnloggedEvent = ProgressEvent | RevalidationEvent | StartEvent | ConnectionEvent | RemovalEvent;

/** Any event of the core. */
export type ServerEvent =
  | UnloggedEvent
  | RequestEvent
  | RefusalEvent
  | TunnelEvent
  | FillEvent
  | PrefetchEvent
  | ExchangeEvent
  | StoreEvent
  | OriginEvent
  | ListenerEvent
  | FleetEvent
  | AdminEvent
  | LifeEvent
  | LogEvent;

/** Takes an event; never throws. */
export type Emit = (event: ServerEvent) => void;
