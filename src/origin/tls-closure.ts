/** Checks that an origin closed TLS in order (RFC 9112 §9.8): only then is a body complete that ends with its connection. */

import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { getSystemErrorName } from 'node:util';

/** Node's handles below a TLS socket. They are undocumented, so each may be absent. */
interface Handles {
  readonly _handle?: {
    readonly reading?: boolean;
    readonly _parent?: { readStart?(): unknown; readStop?(): unknown };
  } | null;
}

/** TLS ended with its connection, without close_notify. Anyone on the network path can cause this. */
export class TlsTruncation extends Error {
  /** undici's code for a connection that the other side has closed: waiting requests are then sent over another one. */
  readonly code = 'UND_ERR_SOCKET';

  constructor() {
    super('TLS was closed without close_notify');
  }
}

/**
 * Makes a connection fail with `TlsTruncation`, where it would otherwise end, unless the origin has sent close_notify. Bytes received
 * before are read first.
 *
 * Node reports both ends alike. They differ in their source: close_notify is data that was read from the connection, and reading
 * goes on after it; the end of the connection itself stops reading. Where Node does not reveal this, TLS counts as closed without
 * close_notify.
 */
export function requireCloseNotify(socket: TLSSocket): void {
  const push = socket.push.bind(socket);
  socket.push = (chunk, encoding) => {
    if (chunk === null && !isClosedInOrder(socket as unknown as Handles)) failAtEnd(socket, new TlsTruncation());
    return push(chunk, encoding);
  };
}

function isClosedInOrder(socket: Handles): boolean {
  const handle = socket._handle;
  const connection = handle?._parent;
  if (typeof connection?.readStart !== 'function' || typeof connection.readStop !== 'function') return false;
  // The reader has stopped, and nothing was read from the connection since, so its end was not read either.
  if (handle?.reading === false) return true;
  const status = connection.readStart();
  if (typeof status === 'number' && status < 0) return getSystemErrorName(status) === 'EALREADY';
  connection.readStop();
  return false;
}

/** Turns the `end` event, which follows the bytes that are still unread, into an error. */
export function failAtEnd(socket: Socket, error: Error): void {
  const emit = socket.emit.bind(socket) as (name: string | symbol, ...args: unknown[]) => boolean;
  socket.emit = (name: string | symbol, ...args: unknown[]): boolean => {
    if (name !== 'end') return emit(name, ...args);
    socket.destroy(error);
    return true;
  };
}
