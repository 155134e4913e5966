/**
 * A raw TCP (or TLS) origin that plays a script: the test writes every byte of its responses, so that it can lie, stall and die.
 *
 *     await using origin = await openScriptedOrigin(
 *       'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',       // the first request gets these bytes
 *       async ({ send, cut }) => {                              // the second is answered step by step
 *         await send('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf');
 *         await barrier.promise;                                // Promise.withResolvers() of the test: no sleeps
 *         cut();
 *       },
 *     );
 *
 * The nth request, on any connection, gets the nth play; the last play answers all later requests. A connection stays open after
 * its play unless the play ends it. `origin.requests` has the request heads, `origin.openConnections` the number of open
 * connections, and `await origin.allClosed()` waits until it is 0. `close` throws an error of a play, such as a failed `expect`.
 */

import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';
import type { Fields } from '../../../src/http/fields.ts';
import { ByteReader } from '../clients/byte-reader.ts';

/** The head of a request as received. */
export interface ScriptedRequest {
  readonly method: string;
  readonly target: string;
  /** Lower-case names, in order. */
  readonly fields: Fields;
  /** The request line and the field lines, byte for byte (latin1), without the final empty line. */
  readonly head: string;
  /** Number of the connection, from 1. */
  readonly connection: number;
}

/** One request to be answered. The members may be taken apart. */
export interface Exchange {
  readonly request: ScriptedRequest;
  /** Writes bytes (a string is latin1). Resolves with true when the kernel has them, with false when the connection is closed. */
  readonly send: (bytes: string | Uint8Array) => Promise<boolean>;
  /** Reads the request's body without its framing. */
  readonly body: () => Promise<Buffer>;
  /** Closes the connection in order (FIN). */
  readonly end: () => void;
  /** Ends the connection (FIN), over TLS without close_notify. */
  readonly endBare: () => void;
  /** Resets the connection (RST). */
  readonly cut: () => void;
  /** Resolves when the connection is closed, by either side. */
  readonly closed: Promise<void>;
}

/** The response to a request: bytes, or a function with steps. */
export type Play = string | Uint8Array | ((exchange: Exchange) => unknown);

/** Options of the listening socket. */
export interface ScriptedOriginOptions {
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Speaks TLS with this PEM key and certificate. */
  readonly tls?: TlsOptions;
}

/** A running origin. */
export interface ScriptedOrigin extends AsyncDisposable {
  readonly port: number;
  /** Such as `http://127.0.0.1:40123`; IPv6 addresses are in brackets. */
  readonly url: string;
  /** The heads that have arrived, in order. */
  readonly requests: readonly ScriptedRequest[];
  /** Number of accepted connections so far. */
  readonly connections: number;
  readonly openConnections: number;
  /** Resolves when no connection is open. */
  allClosed(): Promise<void>;
  /** Closes all connections, stops listening, and throws the first error of a play. */
  close(): Promise<void>;
}

/** Starts an origin on a free port. */
export async function openScriptedOrigin(...script: (Play | ScriptedOriginOptions)[]): Promise<ScriptedOrigin> {
  const options = script.filter((item): item is ScriptedOriginOptions => !isPlay(item))[0] ?? {};
  const origin = new TcpOrigin(script.filter(isPlay), options);
  await origin.listen();
  return origin;
}

function isPlay(item: Play | ScriptedOriginOptions): item is Play {
  return typeof item === 'string' || typeof item === 'function' || item instanceof Uint8Array;
}

class TcpOrigin implements ScriptedOrigin {
  readonly requests: ScriptedRequest[] = [];
  connections = 0;
  readonly #script: readonly Play[];
  readonly #host: string;
  readonly #scheme: string;
  readonly #server: Server;
  /** The open connections, each with a promise of its end. */
  readonly #sockets = new Map<Socket, Promise<void>>();
  readonly #faults: unknown[] = [];
  /** The TCP connections below TLS, by the port of their peer. */
  readonly #bare = new Map<number | undefined, Socket>();

  constructor(script: readonly Play[], options: ScriptedOriginOptions) {
    this.#script = script;
    this.#host = options.host ?? '127.0.0.1';
    this.#scheme = options.tls === undefined ? 'http' : 'https';
    const accept = (socket: Socket) => this.#accept(socket);
    this.#server = options.tls === undefined ? createServer(accept) : createTlsServer({ ...options.tls }, accept);
    if (options.tls !== undefined) this.#server.on('connection', (bare) => void this.#bare.set(bare.remotePort, bare));
  }

  async listen(): Promise<void> {
    this.#server.listen(0, this.#host);
    await once(this.#server, 'listening');
  }

  get port(): number {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('The origin does not listen.');
    return address.port;
  }

  get url(): string {
    return `${this.#scheme}://${this.#host.includes(':') ? `[${this.#host}]` : this.#host}:${this.port}`;
  }

  get openConnections(): number {
    return this.#sockets.size;
  }

  async allClosed(): Promise<void> {
    while (this.#sockets.size > 0) await Promise.all(this.#sockets.values());
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets.keys()) socket.destroy();
    if (this.#server.listening) {
      this.#server.close();
      await once(this.#server, 'close');
    }
    if (this.#faults.length > 0) throw this.#faults[0];
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #accept(socket: Socket): void {
    this.connections++;
    const connection = this.connections;
    const closed = new Promise<void>((resolve) => {
      socket.once('close', () => {
        this.#sockets.delete(socket);
        resolve();
      });
    });
    this.#sockets.set(socket, closed);
    // Tests expect resets by the peer; they show in `closed`.
    socket.on('error', () => undefined);
    this.#serve(socket, connection, closed).catch((fault: unknown) => {
      this.#faults.push(fault);
      socket.destroy();
    });
  }

  async #serve(socket: Socket, connection: number, closed: Promise<void>): Promise<void> {
    const reader = new ByteReader(socket);
    for (;;) {
      const head = await reader.until('\r\n\r\n');
      if (head === undefined) return;
      const request = parseHead(head.toString('latin1'), connection);
      const play = this.#script[Math.min(this.requests.length, this.#script.length - 1)];
      this.requests.push(request);
      if (play === undefined) throw new Error('The script of this origin is empty.');
      let body: Promise<Buffer> | undefined;
      const exchange: Exchange = {
        request,
        send: (bytes) => send(socket, bytes),
        body: () => {
          body ??= readBody(reader, request);
          return body;
        },
        end: () => void socket.end(),
        endBare: () => void (this.#bare.get(socket.remotePort) ?? socket).end(),
        cut: () => void (this.#bare.get(socket.remotePort) ?? socket).resetAndDestroy(),
        closed,
      };
      await (typeof play === 'function' ? play(exchange) : exchange.send(play));
      if (socket.destroyed) return;
      await exchange.body();
    }
  }
}

function send(socket: Socket, bytes: string | Uint8Array): Promise<boolean> {
  return new Promise((resolve) => {
    const written = typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes;
    socket.write(written, (error) => resolve(error === undefined || error === null));
  });
}

function parseHead(head: string, connection: number): ScriptedRequest {
  const [requestLine = '', ...lines] = head.split('\r\n');
  const [method = '', target = ''] = requestLine.split(' ');
  const fields: Fields = lines.map((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  });
  return { method, target, fields, head, connection };
}

async function readBody(reader: ByteReader, request: ScriptedRequest): Promise<Buffer> {
  const value = (name: string) => request.fields.find(([fieldName]) => fieldName === name)?.[1];
  if (value('transfer-encoding')?.toLowerCase() !== 'chunked') {
    return reader.take(Number(value('content-length') ?? 0));
  }
  const chunks: Buffer[] = [];
  for (;;) {
    const sizeLine = await reader.until('\r\n');
    const size = Number.parseInt(sizeLine?.toString('latin1') ?? '0', 16);
    chunks.push(await reader.take(size));
    await reader.take(2);
    if (size === 0) return Buffer.concat(chunks);
  }
}
