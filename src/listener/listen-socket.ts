/**
 * A socket that is listened on, apart from who serves its connections: it outlives the listeners that take turns on it, and
 * may be shared with other processes.
 */

import type { Socket } from 'node:net';
import type { BindPlace, SocketAddress } from './bind.ts';

/**
 * A bound socket. Connections that come while nobody takes them wait. They may be half open (`allowHalfOpen`): who speaks a
 * protocol that has no use for that says so on each.
 */
export interface ListenSocket {
  readonly address: SocketAddress;
  /**
   * Gives all connections from now on to `accept`, in place of whoever had them before. `onError` is told of those that could
   * not be accepted. Resolves when they come.
   */
  take(accept: (socket: Socket) => void, onError: (error: Error) => void): Promise<void>;
  /**
   * Takes no more connections; those that were taken are not touched. Resolves when the socket is given back. A second call
   * waits for the first.
   */
  close(): Promise<void>;
}

/**
 * Binds a place. Rejects with Node's error, its `code` such as EADDRINUSE included, or with `ListenFault`. The name is the
 * place's among all of a configuration (`listenPlaces`).
 */
export type OpenSocket = (place: BindPlace, name: string) => Promise<ListenSocket>;
