/** The interface between accepting connections (`accept/`) and speaking a protocol on them (`http1/`, `http2/`). */

import type { Socket } from 'node:net';
import type { Handler, Peer } from '../http/message.ts';
import type { Emit } from '../telemetry/events.ts';
import type { ListenerLimits, Tunnel } from './listener.ts';
import type { UnreadContent } from './message-body.ts';
import type { After } from './timeouts.ts';

/** Options of a protocol server. */
export interface ProtocolOptions {
  /** The scheme of the connections. A target in absolute-form has to have this scheme. */
  readonly scheme: 'http' | 'https';
  readonly handler: Handler;
  readonly emit: Emit;
  /** Returns the time in epoch milliseconds. */
  readonly now: () => number;
  /** Timer function; `unreferencedTimers` when absent. */
  readonly after?: After | undefined;
  readonly limits: ListenerLimits;
  /** What HTTP/2 connections may keep of request content that is not read; when absent, that of the process. */
  readonly unread?: UnreadContent | undefined;
  /** Handles WebSocket upgrades. Without it they are answered like any other request. */
  readonly tunnel?: Tunnel | undefined;
}

/**
 * Speaks one protocol on accepted connections. A listener calls `retire` or `drain`, or `retire` and then `drain`; then perhaps
 * `cut`; and `close` at the end.
 */
export interface ConnectionServer {
  /**
   * Takes over a connection, which may be a `TLSSocket` after its handshake. A socket whose first bytes were inspected is
   * paused, and the bytes were put back (`unshift`). `peer` is the client: behind the PROXY protocol not the connected peer.
   * The socket already has an error listener, and its `resetAndDestroy` works for every kind of socket.
   */
  serve(socket: Socket, peer: Peer): void;
  /**
   * Ends connections after their running requests. HTTP/1 cannot tell a client that its request was not taken, so each HTTP/1
   * connection takes one further request. Connections that are served later are treated the same.
   */
  retire(): void;
  /**
   * Ends connections: idle ones at once, others after their running requests. Bytes that have arrived but were not read yet
   * count as a running request. Connections that are served later are treated the same.
   */
  drain(): void;
  /** Ends all remaining connections at once. Returns how many of them were busy. */
  cut(): number;
  /** Waits until no connection is left, then stops its timers. `serve` is not called afterwards. */
  close(): Promise<void>;
}
