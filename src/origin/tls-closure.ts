/** Whether TLS with an origin was closed in order (RFC 9112 §9.8): only then is a body whole that ends with its connection. */

import type { TLSSocket } from 'node:tls';
import { getSystemErrorName } from 'node:util';

/** What Node has below a TLS socket: undocumented, so each part may be absent. */
interface Handles {
  readonly _handle?: {
    readonly reading?: boolean;
    readonly _parent?: { readStart?(): unknown; readStop?(): unknown };
  } | null;
}

/** TLS was closed by the end of its connection, which anybody on the way can bring about. */
export class TlsTruncation extends Error {
  /** undici's code for a connection that the other side has closed: what waits is then sent over another one. */
  readonly code = 'UND_ERR_SOCKET';

  constructor() {
    super('TLS was closed without close_notify');
  }
}

/**
 * Makes a connection fail with `TlsTruncation`, where it would otherwise end, unless the origin has sent close_notify. What came
 * before is read first.
 *
 * Node tells both ends alike. They differ in where they come from: close_notify is data that was read from the connection, on
 * which reading goes on, while the end of the connection itself has ended reading. Where Node does not let that be seen, TLS
 * counts as closed without close_notify.
 */
export function requireCloseNotify(socket: TLSSocket): void {
  const push = socket.push.bind(socket);
  socket.push = (chunk, encoding) => {
    if (chunk === null && !isClosedInOrder(socket as unknown as Handles)) failAtEnd(socket);
    return push(chunk, encoding);
  };
}

function isClosedInOrder(socket: Handles): boolean {
  const handle = socket._handle;
  const connection = handle?._parent;
  if (typeof connection?.readStart !== 'function' || typeof connection.readStop !== 'function') return false;
  // Nothing has been read from the connection since its reader stopped, so no end of it either.
  if (handle?.reading === false) return true;
  const status = connection.readStart();
  if (typeof status === 'number' && status < 0) return getSystemErrorName(status) === 'EALREADY';
  connection.readStop();
  return false;
}

/** The end of what is still to be read is an error then. */
function failAtEnd(socket: TLSSocket): void {
  const emit = socket.emit.bind(socket) as (name: string | symbol, ...given: unknown[]) => boolean;
  socket.emit = (name: string | symbol, ...given: unknown[]): boolean => {
    if (name !== 'end') return emit(name, ...given);
    socket.destroy(new TlsTruncation());
    return true;
  };
}
