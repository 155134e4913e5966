/**
 * A socket that is listened on, apart from who serves its connections: it outlives the listeners that take turns on it, and
 * may be shared with other processes.
 */

import type { Socket } from 'node:net';
import type { BindPlace } from './bind.ts';

/** Where a socket is bound. */
export interface SocketAddress {
  /** The address; empty for a Unix socket. */
  readonly host: string;
  /** The port; 0 for a Unix socket. */
  readonly port: number;
  /** The path of a Unix socket, if it has one. */
  readonly path: string | undefined;
}

/** A bound socket. Connections that come while nobody takes them wait. */
export interface ListenSocket {
  readonly address: SocketAddress;
  /**
   * Gives all connections from now on to `accept`, in place of whoever had them before. `onError` is told of those that could
   * not be accepted. Resolves when they come.
   */
  take(accept: (socket: Socket) => void, onError: (error: Error) => void): Promise<void>;
  /** Takes no more connections; those that were taken are not touched. Resolves when the socket is given back. */
  close(): Promise<void>;
}

/** Binds a place. Rejects with Node's error, its `code` such as EADDRINUSE included, or with `ListenFault`. */
export type OpenSocket = (place: BindPlace) => Promise<ListenSocket>;
