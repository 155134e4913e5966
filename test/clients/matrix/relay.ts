/** A relay of TCP connections that logs requests and counts the bytes of their responses, as they are on the wire. */

import { once } from 'node:events';
import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net';
import { pipeline } from 'node:stream';

/** A request that went through the relay. The numbers grow while its response arrives. */
export interface LoggedRequest {
  readonly method: string;
  readonly target: string;
  /** The value of Range, if the request has one. */
  readonly range: string | undefined;
  /** Bytes of the response, with its head and its framing. */
  bytes: number;
  /** Milliseconds from the request to the first byte of its response; undefined without a response. */
  firstByteMs: number | undefined;
}

/** A running relay. */
export interface Relay extends AsyncDisposable {
  readonly port: number;
  /** All requests in order. A connection that does not speak HTTP/1 counts as one request with an empty method. */
  readonly log: readonly LoggedRequest[];
}

/** Where connections go: a port of this machine, or a Unix socket. */
export type RelayTarget = { readonly host: string; readonly port: number } | { readonly path: string };

/** Returns the bytes of all responses. */
export function bytesOf(requests: readonly LoggedRequest[]): number {
  return requests.reduce((total, { bytes }) => total + bytes, 0);
}

const requestHead = /(?:^|\r\n)([A-Z]+) (\S+) HTTP\/1\.[01]\r\n((?:[^\r\n]+\r\n)*)\r\n/g;
/** The longest head that may arrive in several pieces. */
const longestHeadBytes = 16_384;

/** Opens a relay on a free port, and on a Unix socket if there is a path. Both directions flow at the pace of the reader. */
export async function openRelay(target: RelayTarget, path?: string): Promise<Relay> {
  const log: LoggedRequest[] = [];
  const sockets = new Set<Socket>();
  const accept = (client: Socket): void => {
    const onward = createConnection({ ...target, allowHalfOpen: true, noDelay: true });
    for (const socket of [client, onward]) {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
    }
    watch(client, onward, log);
    // Ends of either side, and resets, go to the other side.
    pipeline(client, onward, (error) => error && client.destroy());
    pipeline(onward, client, (error) => error && onward.destroy());
  };
  const options = { allowHalfOpen: true, noDelay: true };
  const server = createServer(options, accept).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const local = path === undefined ? undefined : createServer(options, accept).listen(path);
  if (local !== undefined) await once(local, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    log,
    async [Symbol.asyncDispose]() {
      const closed = [server, ...(local === undefined ? [] : [local])].map((each) => once(each.close(), 'close'));
      for (const socket of sockets) socket.destroy();
      await Promise.all(closed);
    },
  };
}

/** Notes the requests and responses of a connection. No client of the tests pipelines its requests. */
function watch(client: Socket, onward: Socket, log: LoggedRequest[]): void {
  let current: LoggedRequest | undefined;
  let askedAt = 0;
  let unread = '';
  const note = (method: string, target: string, fields: string): void => {
    const range = /^range: *([^\r\n]*)/im.exec(fields)?.[1];
    current = { method, target, range, bytes: 0, firstByteMs: undefined };
    askedAt = performance.now();
    log.push(current);
  };
  client.on('data', (piece: Buffer) => {
    unread += piece.toString('latin1');
    let read = 0;
    for (const match of unread.matchAll(requestHead)) {
      const [head, method = '', requested = '', fields = ''] = match;
      note(method, requested, fields);
      read = match.index + head.length;
    }
    unread = unread.slice(Math.max(read, unread.length - longestHeadBytes));
    if (current === undefined && unread.startsWith('PRI * HTTP/2')) note('', '', '');
  });
  onward.on('data', (piece: Buffer) => {
    if (current === undefined) return;
    current.bytes += piece.length;
    current.firstByteMs ??= performance.now() - askedAt;
  });
}
