/** The seam between accepting connections and speaking a protocol on them. */

import type { Socket } from 'node:net';
import type { Handler, Peer } from '../http/message.ts';
import type { Emit } from '../telemetry/events.ts';
import type { ListenerLimits, Tunnel } from './listener.ts';
import type { After } from './timeouts.ts';

/** What a protocol is spoken with. */
export interface ProtocolOptions {
  /** What clients speak; of the target URIs that they send in whole, only those of this scheme are served. */
  readonly scheme: 'http' | 'https';
  readonly handler: Handler;
  readonly emit: Emit;
  /** Tells the time in epoch milliseconds. */
  readonly now: () => number;
  /** Calls back later; the machine's timers when absent. */
  readonly after?: After | undefined;
  readonly limits: ListenerLimits;
  /** Takes WebSocket upgrades. Without it they are answered like any request. */
  readonly tunnel?: Tunnel | undefined;
}

/**
 * Speaks one protocol on the connections that it is given. A listener calls `retire` or `drain`, or one after the other, then
 * perhaps `cut`, and `close` at the end.
 */
export interface ConnectionServer {
  /**
   * Takes a connection over. It may be a `TLSSocket` whose handshake is over. Where its first bytes were looked at, they
   * were put back (`unshift`) and it is paused. `peer` is the client, which is not always the one who has connected. The
   * socket has a listener for errors already, and its `resetAndDestroy` works whatever kind of socket it is.
   */
  serve(socket: Socket, peer: Peer): void;
  /**
   * From now on connections end after what runs on them, or after one further request where HTTP does not tell a client that
   * its request was not taken. The same holds for connections that are given later.
   */
  retire(): void;
  /**
   * From now on connections end: at once where they have nothing to do, after what runs on them otherwise. What has arrived
   * but was not read yet counts as running. The same holds for connections that are given later.
   */
  drain(): void;
  /** Ends at once all that is left. Returns how many connections had something to do. */
  cut(): number;
  /** Resolves when no connection is left, and gives back timers. Nothing is given to it after. */
  close(): Promise<void>;
}
