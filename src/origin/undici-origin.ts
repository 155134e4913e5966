/**
 * An HTTP/1.1 origin over undici, with one pool of connections. Messages pass unchanged. Bytes of connections without TLS are read
 * into one shared buffer, and copied from there into memory of their own size.
 */

/// <reference path="./undici-parts.d.ts" />

import dns from 'node:dns';
import { isIP, type LookupFunction, type OnReadOpts, type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { buildConnector as Connecting, Dispatcher } from 'undici';
// Not the main module of undici: on Node 24 it replaces the dispatcher that a program has set for its own `fetch`.
import buildConnector from 'undici/lib/core/connect.js';
import errors from 'undici/lib/core/errors.js';
import Client from 'undici/lib/dispatcher/client.js';
import Pool from 'undici/lib/dispatcher/pool.js';
import type { BoundClient } from '../http/client-connection.ts';
import { type Fields, wireFieldName } from '../http/fields.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { hasConnectionCredentials } from '../semantics/connection-auth.ts';
import { ConnectionQueue, type QueueRules } from './connection-queue.ts';
import { readBeforeWriteErrors } from './early-answer.ts';
import { OriginExchange } from './exchange.ts';
import type { HeadMender } from './head-mending.ts';
import { type ConnectedOrigin, hostOfOrigin, type OriginRequest, type OriginResponse, socketPathOf } from './origin.ts';
import { requireCloseNotify } from './tls-closure.ts';
import { mendHeads } from './undici-parser.ts';

/** The address of an origin, its timeouts and its limits. */
export interface UndiciOriginOptions {
  /** An `http:`, `https:` or `unix:` URL. Only its scheme and authority are used here; routing adds its path. */
  readonly url: string;
  /** The maximum time to connect, TLS handshake included. */
  readonly connectTimeoutMs: number;
  /** The maximum time from the request's last byte to the final head; each interim response restarts it. */
  readonly headersTimeoutMs: number;
  /** The maximum time between two pieces of a body, while the body is read. */
  readonly bodyTimeoutMs: number;
  /** The maximum number of connections. Further requests wait for one, until their signal is aborted. */
  readonly connections: number;
  /** The maximum number of connections of one client. Its further requests wait until one of these is free. */
  readonly connectionsPerClient: number;
  /** Whether a client may have more while a quarter of all connections is free. */
  readonly maySharesBeExceeded?: boolean;
  /** The maximum number of requests without the head of a response; absent, or 0, for no limit. */
  readonly unansweredRequests?: number;
  /** How long a request waits for a connection; absent for no limit. */
  readonly patience?: QueueRules['patience'];
  /** Called when a request has to wait for a connection. */
  readonly onWait?: QueueRules['onWait'];
  /** The maximum time that an idle connection is kept; a Keep-Alive hint of the origin may shorten it. */
  readonly keepAliveTimeoutMs: number;
  /** Whether TLS must end with close_notify where a body ends with its connection. */
  readonly requiresCloseNotify: boolean;
  readonly tls: OriginTls;
}

/** How an origin over TLS is verified, and the client certificate that it gets. */
export interface OriginTls {
  /** PEM certificates that are trusted instead of the system's. */
  readonly ca?: string | undefined;
  readonly rejectUnauthorized: boolean;
  /** The client certificate and its key, in PEM; both or none. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

/**
 * After this time a connection to a name takes no further request, so that an address that has changed is followed, in milliseconds.
 * Health checks, DNS and load balancers assume a minute or more.
 */
export const maxConnectionAgeMs = 60_000;

/** Whether a URL names an address, or this machine, and no name that may get another address. */
export function hasOwnAddress(url: URL): boolean {
  return (
    socketPathOf(url) !== undefined || isLocalhost(url.hostname) || isIP(url.hostname.replace(/^\[|\]$/g, '')) !== 0
  );
}

/** The largest head or trailer section that is read, in bytes; a larger one ends its connection. */
const maxHeadBytes = 64 * 1024;

/**
 * Fields that undici writes itself or refuses, because they are hop-by-hop. Expect is among them: undici holds back the head until
 * the first bytes of the body are there, so 100-continue cannot work, although RFC 9110 §10.1.1 would have it forwarded.
 */
const connectionFields: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
]);

/**
 * Creates an origin that opens connections when they are needed, keeps them while they are idle, and sends one request at a time
 * over each (no pipelining, RFC 9112 §9.3.2). No retry, no redirect, no decoding: the response is what the origin sent.
 *
 * `fetch` throws a `ProxyError`: see `originError` for the codes. An aborted request throws `client_gone`, or the signal's reason
 * where that is a `ProxyError`. `close` cuts the exchanges under way; a caller that wants them to finish waits before.
 *
 * A connection is kept after HEAD too, until the origin has once sent bytes that are no response, or that no request asked for:
 * such an origin may answer HEAD with content. From then on each HEAD gets a connection of its own.
 *
 * Heads that undici's parser refuses although they have one meaning are mended first: see `HeadMender`.
 *
 * A request with credentials that authenticate its connection (NTLM, Negotiate) is never sent over a connection that another client
 * uses: `OriginRequest.owner` has connections of its own, and without an owner the request gets one that closes after it. A shared
 * connection is closed after a response that shows such authentication.
 *
 * undici has three limits. It keeps a connection after HEAD only where the head has a length, a coding or `Connection: keep-alive`.
 * It does not tell HTTP/1.0 from 1.1, so it decodes the chunks of an HTTP/1.0 response, whose framing is faulty (RFC 9112 §6.1), before it
 * closes the connection. It closes an idle connection on which bytes arrive, but bytes that arrive in the moment in which a request
 * is sent can only be taken for its response.
 */
export function createUndiciOrigin(options: UndiciOriginOptions, spare?: SpareConnection): ConnectedOrigin {
  const url = new URL(options.url);
  // The pool's own URL says only whether there is TLS; over a Unix socket there is none.
  const base = socketPathOf(url) === undefined ? url.origin : `http://${hostOfOrigin(url)}`;
  let isKeptAfterHead = true;
  const settings = {
    pipelining: 1,
    allowH2: false,
    headersTimeout: options.headersTimeoutMs,
    bodyTimeout: options.bodyTimeoutMs,
    keepAliveTimeout: options.keepAliveTimeoutMs,
    keepAliveMaxTimeout: options.keepAliveTimeoutMs,
    maxHeaderSize: maxHeadBytes,
    maxResponseSize: -1,
    strictContentLength: true,
  };
  const connect = createConnector(options, spare);
  const createClient = (): Client => {
    const client = new CarryingClient(base, settings, connect);
    client.on('disconnect', (_url, _targets, error) => {
      if (isForStrayBytes(error)) isKeptAfterHead = false;
    });
    return client;
  };
  const createPool = () =>
    new Pool(base, {
      factory: createClient,
      connections: options.connections,
      ...(hasOwnAddress(url) ? {} : { clientTtl: maxConnectionAgeMs }),
    });
  const pool = new PoolUntilRetired(createPool);
  const owned = new OwnedClients(createClient);
  const isTls = url.protocol === 'https:';
  const { connections } = options;
  const queue = new ConnectionQueue({ ...queueRules(options, () => 1), connections });

  const send = (request: OriginRequest): Promise<OriginResponse> => {
    const turn = queue.join(request.charged);
    const exchange = new OriginExchange(request, { isTls, version: '1.1' }, () => turn.leave());
    const dispatch = (refusal?: ProxyError) => {
      if (refusal !== undefined) return exchange.onResponseError(null, refusal);
      const sent = dispatchOptions(request, url.hostname, isKeptAfterHead);
      if (request.owner !== undefined) owned.of(request.owner).dispatch(sent, exchange);
      else if (hasConnectionCredentials(request.fields)) pool.dispatchAlone(sent, exchange);
      else pool.dispatch(sent, exchange);
    };
    // undici sends no head before the first bytes of the body. Without this wait the request would hold a connection until then.
    const begun = hasContent(request) ? request.body?.begun?.() : undefined;
    if (begun === undefined) turn.begin(dispatch);
    else begun.then(() => turn.begin(dispatch)).catch((thrown) => exchange.onResponseError(null, thrown));
    exchange.response.then(
      () => turn.answered(),
      () => undefined,
    );
    return exchange.response;
  };

  return {
    async fetch(request) {
      refuseUnsendable(request);
      return await send(request);
    },
    retire: () => pool.retire(),
    async close() {
      await Promise.all([pool.destroy(), owned.destroy()]);
    },
    get use() {
      return queue.use;
    },
  };
}

/** Returns the rules of a queue for a pool whose connections carry so many requests each. */
export function queueRules(options: UndiciOriginOptions, perConnection: () => number): QueueRules {
  const {
    connections,
    connectionsPerClient,
    maySharesBeExceeded = false,
    unansweredRequests,
    patience,
    onWait,
  } = options;
  return {
    connections: Number.POSITIVE_INFINITY,
    perClient: () => connectionsPerClient * perConnection(),
    beyondShares: () => (maySharesBeExceeded ? Math.floor((connections * perConnection() * 3) / 4) : 0),
    unanswered: unansweredRequests ?? 0,
    patience,
    onWait,
  };
}

/** One connection at a time. */
class CarryingClient extends Client {
  readonly #open: { socket: Socket | undefined };
  #mender: HeadMender | undefined;

  constructor(base: string, settings: Client.Options, connect: Connecting.connector) {
    const open: { socket: Socket | undefined } = { socket: undefined };
    super(base, {
      ...settings,
      connect: (target, callback) =>
        connect(target, (...[error, socket]) => {
          if (error !== null) return callback(error, null);
          open.socket = socket;
          callback(null, socket);
        }),
    });
    this.#open = open;
    this.on('connect', () => {
      this.#mender = mendHeads(this, maxHeadBytes);
    });
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    if (handler instanceof OriginExchange) handler.connection = this;
    return super.dispatch(options, handler);
  }

  /** As `OriginResponse.mended`, of the last head. */
  get mended(): readonly string[] | undefined {
    return this.#mender?.mended;
  }

  /** Closes the connection, whose response has ended. */
  retire(): void {
    this.#open.socket?.destroy();
  }
}

/** Connections that belong to one client's connection each, and end with it. */
class OwnedClients {
  readonly #create: () => Client;
  readonly #clients = new Map<BoundClient, Client>();

  constructor(create: () => Client) {
    this.#create = create;
  }

  of(owner: BoundClient): Client {
    const known = this.#clients.get(owner);
    if (known !== undefined) return known;
    const client = this.#create();
    this.#clients.set(owner, client);
    owner.whenEnded(() => {
      this.#clients.delete(owner);
      void client.destroy();
    });
    return client;
  }

  async destroy(): Promise<void> {
    await Promise.all([...this.#clients.values()].map((client) => client.destroy()));
  }
}

/** One pool of connections; after `retire`, one pool for each request. */
class PoolUntilRetired {
  readonly #create: () => Pool;
  readonly #pools: Set<Pool>;
  /** Undefined after `retire`. */
  #kept: Pool | undefined;

  constructor(create: () => Pool) {
    this.#create = create;
    this.#kept = create();
    this.#pools = new Set([this.#kept]);
  }

  dispatch(sent: Dispatcher.DispatchOptions, exchange: OriginExchange): void {
    if (this.#kept === undefined) this.dispatchAlone(sent, exchange);
    else this.#kept.dispatch(sent, exchange);
  }

  /** Sends a request over a connection that is closed after it. */
  dispatchAlone(sent: Dispatcher.DispatchOptions, exchange: OriginExchange): void {
    const pool = this.#create();
    this.#pools.add(pool);
    pool.dispatch(sent, exchange);
    this.#closeWhenIdle(pool);
  }

  retire(): void {
    if (this.#kept !== undefined) this.#closeWhenIdle(this.#kept);
    this.#kept = undefined;
  }

  async destroy(): Promise<void> {
    await Promise.all([...this.#pools].map((pool) => pool.destroy()));
  }

  #closeWhenIdle(pool: Pool): void {
    const forget = () => this.#pools.delete(pool);
    pool.close().then(forget, forget);
  }
}

/** Throws `method_refused` for asterisk-form (RFC 9112 §3.2.4), which undici cannot send, and CONNECT, which it takes for a tunnel. */
export function refuseUnsendable({ method, target, body }: OriginRequest): void {
  if (target.startsWith('/') && method !== 'CONNECT') return;
  body?.close();
  throw new ProxyError('method_refused', { detail: `${method} ${target} cannot be sent to an origin` });
}

/** Whether a connection was closed because of bytes that are no response, or that no request asked for. */
function isForStrayBytes(error: Error): boolean {
  return (
    error instanceof errors.HTTPParserError || (error instanceof errors.SocketError && error.message === 'bad response')
  );
}

function hasContent({ body, bodySizeBytes }: OriginRequest): boolean {
  return body !== undefined && bodySizeBytes !== 0;
}

function dispatchOptions(
  request: OriginRequest,
  hostname: string,
  isKeptAfterHead: boolean,
): Dispatcher.DispatchOptions & { servername: string } {
  const body = hasContent(request) ? request.body : undefined;
  return {
    method: request.method,
    path: request.target,
    // By default undici closes the connection after HEAD. After a request with content that undici does not expect, it still does.
    ...(request.method === 'HEAD' && body === undefined && isKeptAfterHead ? { reset: false } : {}),
    headers: wireFields(request.fields, request.bodySizeBytes),
    // Any async iterable will do; undici's declaration does not say so.
    body: (body ?? null) as AsyncIterable<Uint8Array> as Dispatcher.DispatchOptions['body'] & object,
    // Without it undici would take the name of the Host field, reconnect whenever that changes, and verify the wrong name.
    servername: hostname,
  };
}

function wireFields(fields: Fields, bodySizeBytes: number | undefined): string[] {
  const wire: string[] = [];
  for (const [name, value] of fields) {
    if (!connectionFields.has(name)) wire.push(wireFieldName(name), value);
  }
  if (bodySizeBytes !== undefined) wire.push('content-length', String(bodySizeBytes));
  return wire;
}

/** Connections that were opened for another purpose, and are used before new ones are opened. */
interface SpareConnection {
  take(): TLSSocket | undefined;
}

/** Connects by the URL alone: its host is resolved, sent as SNI (never an IP address, RFC 6066 §3) and verified. */
function createConnector(options: UndiciOriginOptions, spare?: SpareConnection): Connecting.connector {
  const isTls = new URL(options.url).protocol === 'https:';
  // One for all connections, because it remembers TLS sessions.
  const connectTls = isTls ? buildConnector(connectorOptions(options, false)) : undefined;
  return ({ servername: _servername, ...target }, callback) => {
    const spareSocket = spare?.take();
    if (spareSocket !== undefined) {
      readBeforeWriteErrors(spareSocket);
      if (options.requiresCloseNotify) requireCloseNotify(spareSocket);
      return queueMicrotask(() => callback(null, spareSocket));
    }
    const reading = isTls ? undefined : createReading();
    const connect = connectTls ?? buildConnector({ ...connectorOptions(options, false), onread: reading?.onread });
    connect(target, (...[error, socket]) => {
      if (error !== null) return callback(error, null);
      reading?.attach(socket);
      socket.on('error', hideReset);
      readBeforeWriteErrors(socket);
      if (isTls && options.requiresCloseNotify) requireCloseNotify(socket as TLSSocket);
      callback(null, socket);
    });
  };
}

/**
 * Creates a function that opens a connection which offers HTTP/2 before HTTP/1.1 (ALPN, RFC 7301); `alpnProtocol` of the connection
 * says which was selected. The promise rejects with the errors of a connection of `createUndiciOrigin`.
 */
export function createAlpnDialer(options: UndiciOriginOptions): () => Promise<TLSSocket> {
  const { protocol, host, hostname, port } = new URL(options.url);
  const connect = buildConnector(connectorOptions(options, true));
  const address = { protocol, host, hostname: hostname.replace(/^\[|\]$/g, ''), port };
  return () =>
    new Promise((resolve, reject) => {
      connect(address, (...[error, socket]) => {
        if (error !== null) return reject(error);
        socket.on('error', hideReset);
        resolve(socket as TLSSocket);
      });
    });
}

function connectorOptions({ url, connectTimeoutMs, tls }: UndiciOriginOptions, allowH2: boolean) {
  const { ca, cert, key, rejectUnauthorized } = tls;
  const socketPath = socketPathOf(new URL(url));
  const options: Connecting.BuildOptions & { readonly preferH2: boolean; readonly lookup?: LookupFunction } = {
    timeout: connectTimeoutMs,
    allowH2,
    preferH2: allowH2,
    rejectUnauthorized,
    ...(socketPath === undefined ? {} : { socketPath }),
    ...(isLocalhost(new URL(url).hostname) ? { lookup: lookUpLoopback } : {}),
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined || key === undefined ? {} : { cert, key }),
  };
  return options;
}

/** Checks whether a name is for this machine (RFC 6761 §6.3). */
export function isLocalhost(hostname: string): boolean {
  return /^(?:.+\.)?localhost\.?$/i.test(hostname);
}

const loopback = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
] as const;

/**
 * Looks up a name for this machine: it has both loopback addresses (RFC 6761 §6.3), also where the hosts file has one of them, or
 * none. Those of the hosts file come first.
 */
export const lookUpLoopback: LookupFunction = (hostname, options, callback) => {
  dns.lookup(hostname, { ...options, all: true }, (_error, found) => {
    const known = found?.filter(({ address }) => loopback.some((each) => each.address === address)) ?? [];
    const others = loopback.filter(({ address }) => !known.some((each) => each.address === address));
    const addresses = [...known, ...others].filter(({ family }) => !options.family || family === options.family);
    const [first = loopback[0]] = addresses;
    if (options.all === true) callback(null, addresses);
    else callback(null, first.address, first.family);
  });
};

/**
 * undici takes a reset connection for the end of a body that ends with its connection. Such a body may be cut anywhere, so the
 * error code that undici checks is changed first: a reset is never an end.
 */
function hideReset(error: Error & { code?: string }): void {
  if (error.code === 'ECONNRESET') error.code = 'ECONNABORTED';
}

/**
 * The maximum number of bytes of one read: a response of 64 KiB arrives in one piece with its head, and large bodies in half as many
 * pieces as with Node's default. A larger buffer gains nothing measurable, and so much may wait unread in each connection.
 */
const readBytes = 128 * 1024;

/**
 * One buffer for all connections: Node reads into it when bytes have arrived, and they are copied out before the next read of any
 * connection begins. So memory is taken only for bytes that have arrived; Node's default takes 64 KiB for each read, however small.
 * A small body is alone in its memory, with its head, so that it can be kept as it is.
 */
let shared: Uint8Array | undefined;

/** Reads one connection into the shared buffer. */
interface SocketReading {
  /** The `onread` option of its socket. */
  readonly onread: OnReadOpts;
  /** Called with the connected socket, before bytes can arrive. They are pushed into it, and read from it as from any stream. */
  attach(socket: Socket): void;
}

function createReading(): SocketReading {
  let socket: Socket | undefined;
  shared ??= Buffer.allocUnsafeSlow(readBytes);
  return {
    onread: {
      buffer: shared,
      callback(count, buffer) {
        const bytes = Buffer.allocUnsafeSlow(count);
        bytes.set(buffer.subarray(0, count));
        return socket?.push(bytes) ?? false;
      },
    },
    attach(opened) {
      socket = opened;
    },
  };
}
