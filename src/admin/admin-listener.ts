/** The listener of those who run a server: one of its own, that stays reachable when those of clients are full. */

import { createConnectionLimits } from '../listener/connection-limits.ts';
import type { ListenSocket } from '../listener/listen-socket.ts';
import type { Listener, ListenerLimits } from '../listener/listener.ts';
import { openListener } from '../listener/open-listener.ts';
import { type AdminContext, createAdminHandler } from './admin-handler.ts';

/** What it is opened with. */
export interface AdminListenerOptions extends AdminContext {
  /** Where connections come from; closed with the listener. */
  readonly socket: ListenSocket;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/** Small, and not to be set: nobody who asks for so little needs more. A target may have a key in it, percent-encoded. */
const limits: ListenerLimits = {
  targetBytes: 262_144,
  fieldsBytes: 16_384,
  maxFieldCount: 100,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  keepAliveTimeoutMs: 10_000,
  idleTimeoutMs: 30_000,
  responseTimeoutMs: 0,
  minBytesPerSecond: 1024,
  minUploadBytesPerSecond: 1024,
  streamsPerConnection: 1,
};

/** Nobody by itself can take all of the places. */
const connections = { connections: 100, connectionsPerClient: 60 };

/** Opens it. */
export function openAdminListener({ socket, now, ...context }: AdminListenerOptions): Promise<Listener> {
  return openListener({
    socket,
    handler: createAdminHandler(context),
    // Who connects here is no client.
    emit: (event) => {
      if (event.kind !== 'connection') context.emit(event);
    },
    now,
    limits,
    connections: createConnectionLimits({ ...connections, isExempt: () => false }),
  });
}
