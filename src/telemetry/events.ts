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
  /** hit, stale, revalidated, miss, uncacheable; `none` when the cache was not asked. */
  readonly outcome: 'hit' | 'stale' | 'revalidated' | 'miss' | 'uncacheable' | 'none';
  /** Why the outcome is not a hit, in the words of Cache-Status where it has one. */
  readonly reason: string | undefined;
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
}

/** A listener refused what came before it became a request, or cut a connection. */
export interface RefusalEvent {
  readonly kind: 'refusal';
  readonly peer: string | undefined;
  readonly status: number;
  readonly error: string;
  readonly detail: string | undefined;
}

/** A tunnel (RFC 9110 §7.8) has ended or was refused. */
export interface TunnelEvent {
  readonly kind: 'tunnel';
  readonly authority: string;
  readonly target: string;
  readonly peer: string;
  readonly status: number;
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
  /** stored: committed; same: the stored bytes were confirmed; kept: stored, and the generation is not whole yet; relayed: whole, but the store could not keep it; failed: it broke off; stopped: nobody wanted it any more. */
  readonly result: 'stored' | 'same' | 'kept' | 'relayed' | 'failed' | 'stopped';
  readonly durationMs: number;
  /** A code of the table in http/proxy-error. */
  readonly error: string | undefined;
  readonly errorDetail: string | undefined;
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
  /** What was asked for: purge, warm, cancel, level, reload; `refused` where it was somebody who may not. */
  readonly action: 'purge' | 'warm' | 'cancel' | 'level' | 'reload' | 'refused';
  readonly peer: string | undefined;
  readonly message: string;
}

/** The server's own life. */
export interface LifeEvent {
  readonly kind: 'life';
  readonly stage: 'ready' | 'reloaded' | 'reload_failed' | 'stopping' | 'stopped' | 'cut';
  /** Addresses served, such as `http://127.0.0.1:8080`. */
  readonly addresses: readonly string[];
  readonly message: string;
}

/** Anything the core tells. */
export type ServerEvent =
  | RequestEvent
  | RefusalEvent
  | TunnelEvent
  | FillEvent
  | StoreEvent
  | OriginEvent
  | ListenerEvent
  | FleetEvent
  | AdminEvent
  | LifeEvent;

/** Takes an event; never throws. */
export type Emit = (event: ServerEvent) => void;
