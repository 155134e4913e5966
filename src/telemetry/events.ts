/** What the core tells about itself: typed events. The core emits them and knows no logger. */

/** A request is over. */
export interface RequestEvent {
  readonly kind: 'request';
  readonly method: string;
  readonly scheme: string;
  readonly authority: string;
  /** As received; whoever writes it down redacts it. */
  readonly target: string;
  readonly version: string;
  /** The address at the other end of the connection. */
  readonly peer: string;
  /** The client's address, where a trusted proxy has told another one. */
  readonly client: string | undefined;
  /** The name that the client's credentials belong to. */
  readonly user: string | undefined;
  readonly route: string | undefined;
  readonly status: number;
  /** The Range field as received. */
  readonly range: string | undefined;
  /** Bytes of body handed to the client, and whether that was all. */
  readonly bytesSent: number;
  readonly complete: boolean;
  /** Whether it was several parts of a representation (multipart/byteranges, RFC 9110 §14.6). */
  readonly isMultipart: boolean;
  /** hit, stale, revalidated, miss, uncacheable; `none` when the cache was not asked. */
  readonly outcome: 'hit' | 'stale' | 'revalidated' | 'miss' | 'uncacheable' | 'none';
  /** Why the outcome is not a hit, in the words of Cache-Status where it has one. */
  readonly reason: string | undefined;
  /** The fields and cookies that kept a stored response from the request, which was for equal requests only, if one was. */
  readonly apartBy?: readonly string[] | undefined;
  /** Whether the request waited for a flight that another one had started. */
  readonly collapsed: boolean;
  /** Bytes of body that the origin sent because of this request, as far as they came before it ended. */
  readonly originBytes: number;
  /** From the request's head to the response's head, and to its end. */
  readonly headMs: number;
  readonly durationMs: number;
  /** A code of the table in http/proxy-error. */
  readonly error: string | undefined;
  readonly errorDetail: string | undefined;
  /** Whether it began and ended in one tick, so that no `begun` was told before. */
  readonly isAtOnce?: boolean | undefined;
  /** The trace that the request belongs to, where it is traced and recorded. */
  readonly traceId?: string | undefined;
}

/** A listener refused what came before it became a request, or cut a connection. */
export interface RefusalEvent {
  readonly kind: 'refusal';
  readonly peer: string | undefined;
  readonly status: number;
  readonly error: string;
  readonly detail: string | undefined;
  /** How many refusals it stands for; one without it. */
  readonly count?: number | undefined;
}

/** A tunnel (RFC 9110 §7.8) has ended or was refused. */
export interface TunnelEvent {
  readonly kind: 'tunnel';
  readonly authority: string;
  readonly target: string;
  readonly peer: string;
  readonly status: number;
  /** Bytes that were read from and written to the origin's connection, those of the handshake included. */
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
  /** How often it broke off and was taken up again. */
  readonly resumptions: number;
  /** stored: committed; same: the stored bytes were confirmed; kept: stored, and the generation is not whole yet; relayed: whole, but the store could not keep it; failed: it broke off; stopped: nobody wanted it any more. */
  readonly result: 'stored' | 'same' | 'kept' | 'relayed' | 'failed' | 'stopped';
  readonly durationMs: number;
  /** A code of the table in http/proxy-error. */
  readonly error: string | undefined;
  readonly errorDetail: string | undefined;
}

/** An exchange with an origin is over: one request that was sent to it, and what came of it. */
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
  /** Bytes of body that came. */
  readonly receivedBytes: number;
  /** From the request to the response's head, where one came, and to the end of its body. */
  readonly headMs: number | undefined;
  readonly durationMs: number;
  /** Whether it is the origin that failed; not where it was given up on our side. */
  readonly isFailed: boolean;
  /** A code of the table in http/proxy-error. */
  readonly error: string | undefined;
  readonly errorDetail: string | undefined;
}

/** An origin was asked whether what is stored is current: it is, something else came in its place, or nothing of use. */
export interface RevalidationEvent {
  readonly kind: 'revalidation';
  readonly result: 'confirmed' | 'replaced' | 'failed';
}

/** Something has begun whose end is told by an event of its own, or has been called off before it did anything. */
export interface BegunEvent {
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
  /** What there is to count, where it is that. */
  readonly count?: { readonly evictedEntries?: number; readonly damagedBlocks?: number } | undefined;
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
  /** The number of the worker that it is about; undefined for all of them. */
  readonly worker: number | undefined;
  readonly stage: 'started' | 'ended' | 'replaced' | 'stuck' | 'told';
  readonly message: string;
  readonly detail: string | undefined;
}

/** Somebody who runs the server has had it do something. */
export interface AdminEvent {
  readonly kind: 'admin';
  readonly level: 'info' | 'warn';
  /**
   * What was asked for: purge, warm, explain, cancel, level, reload; `refused` where it was somebody who may not, `failed` where it
   * could not be answered.
   */
  readonly action: 'purge' | 'warm' | 'explain' | 'cancel' | 'level' | 'reload' | 'refused' | 'failed';
  /** `begun`: it has begun, and its end is told too; `part`: a part of it has failed. Neither counts as an action. */
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
  /** The address of the admin listener, where there is one and it is told that the server is ready. */
  readonly admin?: string | undefined;
  readonly message: string;
}

/** Lines of the log were dropped, and lines are written again. */
export interface LogEvent {
  readonly kind: 'log';
  readonly droppedLines: number;
  readonly message: string;
}

/** What is counted, and not worth a line of a log. */
export type CountedEvent = RevalidationEvent | BegunEvent | ConnectionEvent;

/** Anything the core tells. */
export type ServerEvent =
  | CountedEvent
  | RequestEvent
  | RefusalEvent
  | TunnelEvent
  | FillEvent
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
