/** Opens tunnels to origins (RFC 9110 §7.8), for WebSocket (RFC 6455) and other protocols, with http-proxy-3. */

import { type ClientRequest, Agent as HttpAgent, IncomingMessage } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { isIP, type Socket } from 'node:net';
import { createProxyServer, type ProxyServer, type ServerOptions } from 'http-proxy-3';
import { errorResponse } from '../delivery/problem.ts';
import { type BoundClient, bindConnection, type ClientConnection } from '../http/client-connection.ts';
import { type Fields, hasField, withField, withoutFields } from '../http/fields.ts';
import type { Delivery, ProxyResponse } from '../http/message.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { Hold } from '../origin/group/origin-group.ts';
import { isFailureResponse, isOriginFault } from '../origin/group/resend.ts';
import { hostOfOrigin, socketPathOf } from '../origin/origin.ts';
import { originError } from '../origin/origin-error.ts';
import { isLocalhost, lookUpLoopback } from '../origin/undici-origin.ts';
import { isConnectionBinding, ownerOf } from '../semantics/connection-auth.ts';
import { withoutConnectionFields } from '../semantics/message-forwarding.ts';
import type { Emit } from '../telemetry/events.ts';
import type { RequestHead, Tunnel, TunnelClient } from './listener.ts';
import { MessageBody } from './message-body.ts';
import { parseFields } from './receive.ts';
import { wireFields } from './respond.ts';
import { type After, createPeriodicCheck, roundPeriod, takenBytes, unreferencedTimers } from './timeouts.ts';

/** The origin of a tunnel, and the request that it gets. */
export interface TunnelRoute {
  /** The origin, such as `https://origin.example:8443` or `unix:/run/app.sock`. The path of an http URL is ignored. */
  readonly url: string;
  /** The target in origin-form, as sent to the origin. */
  readonly target: string;
  /** End-to-end fields, including Via and X-Forwarded-For. Without a Host among them, the origin's own authority is sent. */
  readonly fields: Fields;
  /** How an https origin is verified, and the client certificate; PEM. Node's defaults when absent. */
  readonly tls?: TunnelTls | undefined;
  /** Time limits to connect, and then for the origin's answer. `TunnelOptions` has the defaults. */
  readonly timeouts?: { readonly connectMs: number; readonly answerMs: number } | undefined;
  /** Maximum time without a byte in either direction, in milliseconds; no limit when 0 or absent. */
  readonly idleTimeoutMs?: number;
  /** The name of the client, to tell the clients of one connection apart. */
  readonly client?: string;
  /** Gets the outcome of the request to this member, and its release. Absent where the route has a single origin. */
  readonly hold?: Pick<Hold, 'report' | 'release'> | undefined;
}

/** The TLS options of a route. */
interface TunnelTls {
  /** The trusted CA certificates. */
  readonly ca?: string | undefined;
  readonly rejectUnauthorized?: boolean | undefined;
  /** The client certificate and its key. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

/** The decision about a tunnel request. */
export interface TunnelAdmission {
  /** Returns the route. Throws, or rejects with, `ProxyError`. Called once. */
  route(): TunnelRoute | Promise<TunnelRoute>;
  /** Adapts a response in place of a tunnel for the client. */
  present(response: ProxyResponse): ProxyResponse;
  /** Called once when the request is over, with or without a tunnel. */
  leave(delivery: Delivery): void;
}

/** Options of the tunnels of a listener. */
export interface TunnelOptions {
  /** Decides about a tunnel request. */
  readonly admit: (request: RequestHead & { readonly connection: ClientConnection | undefined }) => TunnelAdmission;
  readonly emit: Emit;
  /** Returns the time in epoch milliseconds. */
  readonly now: () => number;
  /** Time limit to connect to an origin, where its route sets none. */
  readonly connectTimeoutMs: number;
  /** Time limit for the origin's answer once connected, where its route sets none. */
  readonly answerTimeoutMs: number;
  /** Timer function for the limits of answers and of silence; `unreferencedTimers` when absent. */
  readonly after?: After | undefined;
}

/** Framing fields to remove: a handshake has no content. */
const framingFields: ReadonlySet<string> = new Set(['content-length']);

/** How long writing the remaining bytes to the origin may stall after the client's connection has closed, in milliseconds. */
const flushTimeoutMs = 2_000;

/**
 * Creates the opener of tunnels. A tunnel begins with the origin's 101 (RFC 9110 §7.8, RFC 6455 §4). Any other response of the
 * origin is relayed. Without a response from the origin, the client gets 502 or 504.
 */
export function createTunnel(options: TunnelOptions): Tunnel {
  const attempts = new WeakMap<IncomingMessage, Attempt>();
  const proxy = createProxyServer({ toProxy: true, prependPath: false, connectTimeout: options.connectTimeoutMs });
  // Each attempt handles its errors in its own callback. Without this listener Node would throw them.
  proxy.on('error', () => {});
  proxy.on('proxyReqWs', (outgoing, handshake) => attempts.get(handshake)?.prepare(outgoing));
  return {
    open(request, client) {
      const attempt = new Attempt(request, client, options);
      const handshake = createHandshake(request, client.socket);
      attempts.set(handshake, attempt);
      void attempt.start(proxy, handshake);
    },
  };
}

/** Creates the stand-in for the client's request that http-proxy-3 needs. It checks these fields; none of them is sent. */
function createHandshake(request: RequestHead, socket: Socket): IncomingMessage {
  const handshake = new IncomingMessage(socket);
  handshake.method = 'GET';
  handshake.url = '/';
  handshake.httpVersion = request.version;
  handshake.headers = { connection: 'Upgrade', upgrade: 'websocket' };
  return handshake;
}

/** One tunnel request, from the client's handshake to the end of both connections. */
class Attempt {
  readonly #request: RequestHead;
  readonly #client: TunnelClient;
  readonly #options: TunnelOptions;
  readonly #admission: TunnelAdmission;
  #route: TunnelRoute = { url: '', target: '', fields: [] };
  #content: Buffer = noBytes;
  #outgoing: ClientRequest | undefined;
  #origin: Socket | undefined;
  #stage: 'asking' | 'answered' | 'open' = 'asking';
  #isConnected = false;
  #endWait: (() => void) | undefined;
  readonly #stopWatching: () => void;
  #error: ProxyError | undefined;

  constructor(request: RequestHead, client: TunnelClient, options: TunnelOptions) {
    this.#request = request;
    this.#client = client;
    this.#options = options;
    this.#admission = options.admit({ ...request, connection: client.connection });
    this.#stopWatching = watchForEnd(client.socket);
  }

  async start(proxy: ProxyServer, handshake: IncomingMessage): Promise<void> {
    const { socket, contentBytes } = this.#client;
    try {
      this.#route = await this.#admission.route();
      const route = this.#route;
      if (contentBytes > 0) this.#content = await readContent(this.#client, this.#contentTimeoutMs);
      if (socket.destroyed) throw new ProxyError('client_gone');
      const agent = selectAgent(route.url, this.#owner);
      const originOptions = { ...selectOrigin(route), connectTimeout: this.#connectTimeoutMs, ...(agent && { agent }) };
      const firstBytes = contentBytes > 0 ? noBytes : this.#client.firstBytes;
      proxy.ws(handshake, socket, firstBytes, originOptions, (error) => this.#fail(error));
      // http-proxy-3 would relay a response other than 101 without backpressure and without checking its framing.
      this.#outgoing?.removeAllListeners('response');
      this.#outgoing?.once('response', (answer) => this.#relay(answer));
    } catch (thrown) {
      this.#refuse(toProxyError(thrown));
    }
  }

  /** Replaces all fields and the target of the outgoing request, before it is sent. */
  prepare(outgoing: ClientRequest): void {
    const { target, fields, url } = this.#route;
    this.#outgoing = outgoing;
    const host = hasField(fields, 'host') ? fields : withField(fields, 'host', hostOfOrigin(new URL(url)));
    const sent = withoutFields(withoutConnectionFields(host), framingFields);
    for (const name of outgoing.getHeaderNames()) outgoing.removeHeader(name);
    for (const [name, value = ''] of Object.entries(this.#withUpgrade(sent))) outgoing.setHeader(name, value);
    outgoing.path = target;
    outgoing.method = this.#request.method;
    // A POST without content states so (RFC 9110 §8.6).
    if (outgoing.method === 'POST') outgoing.setHeader('content-length', this.#content.length);
    if (this.#content.length > 0) outgoing.write(this.#content);

    const onConnect = (): void => {
      this.#isConnected = true;
      this.#await(outgoing);
    };
    outgoing.once('socket', (socket) => {
      if (outgoing.reusedSocket) onConnect();
      else socket.once(this.#isTls ? 'secureConnect' : 'connect', onConnect);
    });
    outgoing.once('upgrade', (answer, socket) => this.#open(answer, socket));
    this.#client.socket.once('close', () => {
      if (this.#stage === 'asking') outgoing.destroy(new ProxyError('client_gone'));
    });
  }

  /** Starts the time limit for the origin's answer. Bytes from the origin do not extend it. */
  #await(outgoing: ClientRequest): void {
    const timeoutMs = this.#route.timeouts?.answerMs ?? this.#options.answerTimeoutMs;
    this.#endWait = this.#after(timeoutMs, () => outgoing.destroy(new ProxyError('origin_timeout')));
    outgoing.once('close', this.#endWait);
  }

  /** The owner of the connections to origins that authenticate the client's connection (NTLM, Negotiate); undefined where none does. */
  get #owner(): BoundClient | undefined {
    const { connection } = this.#client;
    const { client, fields } = this.#route;
    return client === undefined ? undefined : ownerOf(fields, connection, client);
  }

  get #after(): After {
    return this.#options.after ?? unreferencedTimers;
  }

  /** Adds Connection and Upgrade to the fields of a handshake, in either direction. */
  #withUpgrade(fields: Fields): NodeJS.Dict<string | string[]> {
    return wireFields([...fields, ['connection', 'Upgrade'], ['upgrade', this.#client.protocol]]);
  }

  /** How long the content before a tunnel may take. */
  get #contentTimeoutMs(): number {
    return this.#route.timeouts?.answerMs ?? this.#options.answerTimeoutMs;
  }

  get #connectTimeoutMs(): number {
    return this.#route.timeouts?.connectMs ?? this.#options.connectTimeoutMs;
  }

  get #isTls(): boolean {
    return /^(https|wss):/i.test(this.#route.url);
  }

  /** Runs before http-proxy-3 writes the 101 with the fields of `answer` and connects the two sockets. */
  #open(answer: IncomingMessage, originSocket: Socket): void {
    this.#stage = 'open';
    this.#origin = originSocket;
    this.#options.emit({ kind: 'begun', what: 'tunnel' });
    this.#stopWatching();
    this.#endWait?.();
    this.#route.hold?.report('well', 'it opened a tunnel');
    const { socket } = this.#client;
    answer.headers = this.#withUpgrade(endToEndFields(answer));
    // http-proxy-3 writes the head as a text: each character of it is a byte (RFC 9110 §5.5).
    socket.setDefaultEncoding('latin1');
    // Every byte of either direction passes the client's socket.
    const { idleTimeoutMs = 0 } = this.#route;
    const endWatch = watchSilence(socket, idleTimeoutMs, this.#after, () => {
      this.#error ??= new ProxyError('tunnel_idle', { detail: `nothing came for ${idleTimeoutMs} ms` });
      socket.destroy();
    });
    originSocket.once('close', () => socket.destroySoon());
    socket.once('close', () => {
      endWatch();
      originSocket.once(
        'close',
        watchSilence(originSocket, flushTimeoutMs, this.#after, () => originSocket.destroy()),
      );
      originSocket.destroySoon();
      this.#report(101, this.#error);
    });
  }

  #relay(answer: IncomingMessage): void {
    this.#stage = 'answered';
    this.#endWait?.();
    const status = answer.statusCode ?? 502;
    this.#route.hold?.report(isFailureResponse({ status }) ? 'failed' : 'well', `status ${status}`);
    const { connection } = this.#client;
    const { client } = this.#route;
    if (connection !== undefined && client !== undefined && isConnectionBinding(parseFields(answer.rawHeaders))) {
      bindConnection(connection, client);
    }
    const length = answer.headers['content-length'];
    const sizeBytes = length === undefined ? undefined : Number(length);
    const stream = new MessageBody(answer, {
      sizeBytes,
      brokenOff: 'origin_body_short',
      onClose: () => answer.destroy(),
    });
    this.#answer({ status, fields: endToEndFields(answer), body: { kind: 'stream', sizeBytes, stream } });
  }

  /** Handles an error of the origin's side, before or after its answer. */
  #fail(thrown: Error): void {
    const error = this.#nameError(thrown);
    if (isOriginFault(error)) this.#route.hold?.report('failed', error.code);
    if (this.#stage === 'asking') this.#refuse(error);
    else this.#error ??= error;
  }

  #nameError(thrown: Error & { code?: string }): ProxyError {
    const { code, message } = thrown;
    const named = { cause: thrown, detail: message };
    if (code === 'ECONNECT_TIMEOUT') return new ProxyError('origin_connect_timeout', named);
    if (code?.startsWith('HPE_') === true) return new ProxyError('origin_ill_framed', named);
    return originError(thrown, this.#isConnected ? 'waiting' : 'connecting', this.#isTls);
  }

  #refuse(error: ProxyError): void {
    this.#stage = 'answered';
    this.#error = error;
    if (this.#client.socket.destroyed) this.#report(error.status, error);
    else this.#answer(errorResponse(error));
  }

  #answer(response: ProxyResponse): void {
    const onDelivered = ({ error }: { readonly error?: ProxyError | undefined }): void => {
      this.#report(response.status, this.#error ?? error);
    };
    this.#stopWatching();
    // A login takes several requests over one connection.
    const closeConnection = this.#owner === undefined || this.#error !== undefined;
    this.#client.answer({ ...this.#admission.present(response), closeConnection, onDelivered });
  }

  #report(status: number, error: ProxyError | undefined): void {
    const { authority, target, peer, receivedAt } = this.#request;
    this.#route.hold?.release();
    this.#admission.leave({ bytesSent: 0, complete: error === undefined, error });
    this.#options.emit({
      kind: 'tunnel',
      authority,
      target,
      peer: peer.address,
      status,
      bytesFromOrigin: this.#origin?.bytesRead ?? 0,
      bytesToOrigin: this.#origin?.bytesWritten ?? 0,
      durationMs: this.#options.now() - receivedAt,
      error: error?.code,
      errorDetail: error?.detail,
    });
  }
}

/** Bounds of the period between two looks at a tunnel, in milliseconds. */
const silencePeriod = { least: 20, most: 5_000 };

/**
 * Calls back once the kernel has neither taken nor delivered a byte of a socket for `limitMs`, or up to a quarter of that later; never
 * when it is 0. The returned function ends the watch.
 */
function watchSilence(socket: Socket, limitMs: number, after: After, onSilence: () => void): () => void {
  if (limitMs === 0) return () => {};
  const periodMs = roundPeriod([limitMs], silencePeriod);
  const progress = (): number => socket.bytesRead + takenBytes({ socket });
  let seen = progress();
  let silentMs = 0;
  const rounds = createPeriodicCheck(after, periodMs, () => {
    const now = progress();
    silentMs = now === seen ? silentMs + periodMs : 0;
    seen = now;
    if (silentMs < limitMs) return true;
    onSilence();
    return false;
  });
  rounds.begin();
  return () => rounds.end();
}

/** Returns the connect options for http-proxy-3, which reads `socketPath`, `cert` and `key` from the target, even from a URL. */
function selectOrigin({ url, tls = {} }: TunnelRoute): ServerOptions {
  // Parsed here, because http-proxy-3 would treat an invalid URL as a path on another host.
  const place = new URL(url);
  const socketPath = socketPathOf(place);
  if (socketPath !== undefined) {
    return { target: Object.assign(new URL(`http://${hostOfOrigin(place)}`), { socketPath }) };
  }
  const { ca, cert, key, rejectUnauthorized = true } = tls;
  // By default Node sends the name in Host as SNI, which may be the client's name for the origin.
  const name = place.hostname.replace(/^\[|\]$/g, '');
  const ssl = { servername: isIP(name) === 0 ? name : '' };
  const target = Object.assign(place, { cert, key });
  return { target, ssl, secure: rejectUnauthorized, ...(ca === undefined ? {} : { ca }) };
}

/** The agents of clients that origins authenticate by their connections, with one connection each. */
const agents = new WeakMap<BoundClient, { readonly http: HttpAgent; readonly https: HttpsAgent }>();

/** Returns the agent that connects; undefined for a connection of its own, which is the rule. */
function selectAgent(url: string, owner: BoundClient | undefined): HttpAgent | undefined {
  const { protocol, hostname } = new URL(url);
  const lookup = isLocalhost(hostname) ? { lookup: lookUpLoopback } : {};
  const isTls = /^(https|wss):/i.test(protocol);
  if (owner === undefined) {
    if (!isLocalhost(hostname)) return undefined;
    return isTls ? new HttpsAgent(lookup) : new HttpAgent(lookup);
  }
  const known = agents.get(owner);
  if (known !== undefined) return isTls ? known.https : known.http;
  const options = { keepAlive: true, maxSockets: 1, ...lookup };
  const own = { http: new HttpAgent(options), https: new HttpsAgent(options) };
  agents.set(owner, own);
  owner.whenEnded(() => {
    own.http.destroy();
    own.https.destroy();
  });
  return isTls ? own.https : own.http;
}

function endToEndFields(answer: IncomingMessage): Fields {
  return withoutFields(withoutConnectionFields(parseFields(answer.rawHeaders)), framingFields);
}

const noBytes = Buffer.alloc(0);

/** Reads the content of a request for a tunnel. Rejects with `client_gone` where not all of it comes within the time. */
function readContent({ socket, firstBytes, contentBytes }: TunnelClient, timeoutMs: number): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const look = (): void => {
    if (socket.readableLength < contentBytes) return;
    resolve(socket.read(contentBytes) as Buffer);
  };
  const leave = (): void => reject(new ProxyError('client_gone'));
  const timer = setTimeout(leave, timeoutMs);
  socket.on('readable', look).once('close', leave);
  if (firstBytes.length > 0) socket.unshift(firstBytes);
  look();
  return promise.finally(() => {
    clearTimeout(timer);
    socket.off('readable', look).off('close', leave);
  });
}

/**
 * Destroys the socket when the client ends its side, until the returned function is called. A socket that is not read emits no
 * `end`, so this reads while the buffer is empty. Bytes that the client has sent stay buffered; an end after them is not seen.
 */
function watchForEnd(socket: Socket): () => void {
  const look = () => {
    if (socket.readableLength === 0) socket.read();
  };
  const leave = () => socket.destroy();
  socket.on('readable', look).once('end', leave);
  return () => socket.off('readable', look).off('end', leave);
}
