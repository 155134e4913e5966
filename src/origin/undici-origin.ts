/**
 * An HTTP/1.1 origin over undici: one pool of connections. It changes nothing of what travels over them. Bytes are read from a
 * connection into one buffer, and copied from there into memory of their own size.
 */

import type { OnReadOpts, Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { buildConnector, type Dispatcher, errors, Pool } from 'undici';
import { type Fields, wireFieldName } from '../http/fields.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { isSafeMethod } from '../semantics/method.ts';
import { ConnectionQueue } from './connection-queue.ts';
import { OriginExchange } from './exchange.ts';
import { type ConnectedOrigin, hostOfOrigin, type OriginRequest, type OriginResponse, socketPathOf } from './origin.ts';
import { isBareStatusLine } from './origin-error.ts';
import { requireCloseNotify } from './tls-closure.ts';

/** Where an origin is, and how long it may take. */
export interface UndiciOriginOptions {
  /** An `http:`, `https:` or `unix:` URL. Only its scheme and authority are used here; routing joins its path. */
  readonly url: string;
  /** To connect, TLS handshake included. */
  readonly connectTimeoutMs: number;
  /** From the request's last byte to the final head; each interim response begins it anew. */
  readonly headersTimeoutMs: number;
  /** Silence between two pieces of a body that somebody wants to read. */
  readonly bodyTimeoutMs: number;
  /** How many connections there are at most; requests beyond wait for one, as long as their signal lets them. */
  readonly connections: number;
  /** How many of them one client has at most; its requests beyond wait until it gives one back. */
  readonly connectionsPerClient: number;
  /** How long an idle connection is kept at most; an origin's Keep-Alive hint may shorten it. */
  readonly keepAliveTimeoutMs: number;
  /** Whether TLS has to be closed by close_notify where the end of the connection is that of a body. */
  readonly requiresCloseNotify: boolean;
  readonly tls: OriginTls;
}

/** How an origin over TLS is verified, and what it is shown. */
export interface OriginTls {
  /** PEM certificates that are trusted instead of the system's. */
  readonly ca?: string | undefined;
  readonly rejectUnauthorized: boolean;
  /** The client certificate and its key, in PEM; both or none. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

/** The largest head or trailer section that is read; an origin that sends more is cut. */
const maxHeadBytes = 64 * 1024;

/**
 * Fields that undici writes itself or refuses, because they are the connection's. Expect is among them: undici holds back the
 * head until the body's first bytes are there, so a 100-continue cannot be asked for (RFC 9110 §10.1.1 would have it forwarded).
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
 * Opens connections when they are needed, keeps them while they are idle, and sends one request at a time over each
 * (no pipelining, RFC 9112 §9.3.2). No retry, no redirect, no decoding: the response is what the origin sent.
 *
 * `fetch` throws a `ProxyError`: see `originError` for the codes, and `client_gone` (or the signal's reason, where that
 * is a `ProxyError`) for a request that was aborted. `close` cuts what is running; who wants it finished waits before.
 *
 * A connection is kept after HEAD too, until the origin has once sent bytes that are no response, or that no request asked for:
 * it may answer HEAD with content. Then each HEAD gets a connection of its own.
 *
 * An origin whose status lines end with LF alone ends all lines of its heads so (RFC 9112 §2.2): from the first one on, that is
 * understood, and the request that found it out is sent again where it only reads. Other lines that end so are refused: they
 * may be what a client has slipped into a field. So are folded lines (obs-fold, §5.2), in place of which a 502 is right: the
 * parser's flag that takes them takes control characters in values and a space before the colon, too.
 *
 * Four limits. undici keeps a connection after HEAD only where the head has a length, a coding or `Connection: keep-alive`. It
 * cuts an origin that sends a 100 nobody asked for, though RFC 9110 §15.2 would have it read over. It does
 * not tell HTTP/1.0 from 1.1, so that chunks of the former are taken for a body as they are (RFC 9112 §6.1), and the connection
 * closed. It closes an idle connection that speaks, but what comes in the moment in which a request leaves can only be taken
 * for its response.
 */
export function createUndiciOrigin(options: UndiciOriginOptions, spare?: SpareConnection): ConnectedOrigin {
  const url = new URL(options.url);
  // The pool's own URL says only whether there is TLS; over a Unix socket there is none.
  const base = socketPathOf(url) === undefined ? url.origin : `http://${hostOfOrigin(url)}`;
  let isKeptAfterHead = true;
  let endsLinesWithLf = false;
  const createPool = () => {
    const pool = new Pool(base, {
      connect: createConnector(options, spare),
      connections: options.connections,
      pipelining: 1,
      allowH2: false,
      headersTimeout: options.headersTimeoutMs,
      bodyTimeout: options.bodyTimeoutMs,
      keepAliveTimeout: options.keepAliveTimeoutMs,
      keepAliveMaxTimeout: options.keepAliveTimeoutMs,
      maxHeaderSize: maxHeadBytes,
      maxResponseSize: -1,
      strictContentLength: true,
    });
    pool.on('connect', (_url, targets) => {
      if (endsLinesWithLf) takeBareLf(targets.at(-1));
    });
    pool.on('disconnect', (_url, _targets, error) => {
      if (isBareStatusLine(error)) endsLinesWithLf = true;
      else if (isForStrayBytes(error)) isKeptAfterHead = false;
    });
    return pool;
  };
  const pool = new PoolUntilRetired(createPool);
  const isTls = url.protocol === 'https:';
  const { connections, connectionsPerClient } = options;
  const queue = new ConnectionQueue({ connections, perClient: () => connectionsPerClient });

  const send = (request: OriginRequest): Promise<OriginResponse> => {
    const turn = queue.join(request.errand);
    const exchange = new OriginExchange(request, { isTls, version: '1.1' }, () => turn.leave());
    const dispatch = () => pool.dispatch(dispatchOptions(request, url.hostname, isKeptAfterHead), exchange);
    // undici sends no head before there is something of the body; by itself it would hold a connection until then.
    const begun = hasContent(request) ? request.body?.begun?.() : undefined;
    if (begun === undefined) turn.begin(dispatch);
    else begun.then(() => turn.begin(dispatch)).catch((thrown) => exchange.onResponseError(null, thrown));
    return exchange.response;
  };

  return {
    async fetch(request) {
      refuseUnsendable(request);
      return await send(request).catch((error: ProxyError) => {
        const mayRepeat = isSafeMethod(request.method) && request.body === undefined && !request.signal.aborted;
        if (mayRepeat && isBareStatusLine(error.cause)) return send(request);
        throw error;
      });
    },
    retire: () => pool.retire(),
    close: () => pool.destroy(),
  };
}

/** One pool of connections; after it was retired, one for each request. */
class PoolUntilRetired {
  readonly #create: () => Pool;
  readonly #pools: Set<Pool>;
  /** Undefined once it was retired. */
  #kept: Pool | undefined;

  constructor(create: () => Pool) {
    this.#create = create;
    this.#kept = create();
    this.#pools = new Set([this.#kept]);
  }

  dispatch(sent: Dispatcher.DispatchOptions, exchange: OriginExchange): void {
    if (this.#kept !== undefined) {
      this.#kept.dispatch(sent, exchange);
      return;
    }
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

/** undici sends no asterisk-form (RFC 9112 §3.2.4) and makes tunnels of CONNECT. */
export function refuseUnsendable({ method, target, body }: OriginRequest): void {
  if (target.startsWith('/') && method !== 'CONNECT') return;
  body?.close();
  throw new ProxyError('method_refused', { detail: `${method} ${target} cannot be sent to an origin` });
}

/** Whether a connection was ended because of bytes that are no response, or that nothing asked for. */
function isForStrayBytes(error: Error): boolean {
  return (
    error instanceof errors.HTTPParserError || (error instanceof errors.SocketError && error.message === 'bad response')
  );
}

/**
 * Lets the parser of a connection take LF alone for the end of a line in heads. undici's parser can do that, but undici has no
 * option for it; where another version of undici keeps its parser elsewhere, such responses get 502.
 */
function takeBareLf(client: unknown): void {
  const parser = hiddenMember(hiddenMember(client, 'socket'), 'parser') as LenientParser | undefined;
  parser?.llhttp?.llhttp_set_lenient_optional_cr_before_lf?.(parser.ptr, 1);
}

interface LenientParser {
  readonly ptr: number;
  readonly llhttp?: { llhttp_set_lenient_optional_cr_before_lf?(parser: number, isLenient: 0 | 1): void };
}

/** What an object has under a symbol that is not exported. */
function hiddenMember(owner: unknown, description: string): unknown {
  if (typeof owner !== 'object' || owner === null) return undefined;
  const symbol = Object.getOwnPropertySymbols(owner).find((each) => each.description === description);
  return symbol === undefined ? undefined : Reflect.get(owner, symbol);
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
    // By itself undici closes the connection after HEAD; after any request with content that it does not expect, it still does.
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

/** A connection that was made for something else, and is there for the first request that wants one. */
interface SpareConnection {
  take(): TLSSocket | undefined;
}

/** Connects by the URL alone: its host is what is resolved, asked for by SNI (never an IP address, RFC 6066 §3) and verified. */
function createConnector(options: UndiciOriginOptions, spare?: SpareConnection): buildConnector.connector {
  const isTls = new URL(options.url).protocol === 'https:';
  // It remembers TLS sessions: one for all connections.
  const connectTls = isTls ? buildConnector(connectorOptions(options, false)) : undefined;
  return ({ servername: _servername, ...target }, callback) => {
    const kept = spare?.take();
    if (kept !== undefined) {
      if (options.requiresCloseNotify) requireCloseNotify(kept);
      return queueMicrotask(() => callback(null, kept));
    }
    const reading = isTls ? undefined : createReading();
    const connect = connectTls ?? buildConnector({ ...connectorOptions(options, false), onread: reading?.onread });
    connect(target, (...[error, socket]) => {
      if (error !== null) return callback(error, null);
      reading?.attach(socket);
      socket.on('error', hideReset);
      if (isTls && options.requiresCloseNotify) requireCloseNotify(socket as TLSSocket);
      callback(null, socket);
    });
  };
}

/**
 * Makes connections that offer HTTP/2 before HTTP/1.1 (ALPN, RFC 7301); `alpnProtocol` of one says which was taken. The
 * promise is rejected as a connection of `createUndiciOrigin` fails.
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
  const options: buildConnector.BuildOptions & { readonly preferH2: boolean } = {
    timeout: connectTimeoutMs,
    allowH2,
    preferH2: allowH2,
    rejectUnauthorized,
    ...(socketPath === undefined ? {} : { socketPath }),
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined || key === undefined ? {} : { cert, key }),
  };
  return options;
}

/**
 * undici takes a reset connection for the end of a body that ends with its connection. Such a body may be cut anywhere,
 * so the code that undici looks for is changed before it looks: a reset is never an end.
 */
function hideReset(error: Error & { code?: string }): void {
  if (error.code === 'ECONNRESET') error.code = 'ECONNABORTED';
}

/**
 * As much as is read at once: a response of 64 KiB with its head comes in one piece, and large bodies in half as many as Node
 * reads by itself. More gains nothing that shows, and so much may wait unread in each connection.
 */
const readBytes = 128 * 1024;

/**
 * One buffer for all connections: Node reads into it when something is there, and what was read is copied out of it before the
 * next read begins, over whatever connection. Memory is only taken for bytes that have come, where Node's own way takes 64 KiB
 * for each read, however little it brings; and a small body lies by itself in its memory, with its head, so that it can be
 * kept as it is.
 */
let shared: Uint8Array | undefined;

/** A way to read for one connection. */
interface SocketReading {
  /** For the `onread` of its socket. */
  readonly onread: OnReadOpts;
  /** Is told the socket once it is connected, before anything can come: what comes is read from it as from any other stream. */
  attach(socket: Socket): void;
}

/** Creates one. */
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
