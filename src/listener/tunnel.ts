/** WebSocket tunnels to origins (RFC 6455, RFC 9110 §7.8), on http-proxy-3. */

import { type ClientRequest, IncomingMessage } from 'node:http';
import { isIP, type Socket } from 'node:net';
import { createProxyServer, type ProxyServer, type ServerOptions } from 'http-proxy-3';
import { errorResponse } from '../delivery/problem.ts';
import { type Fields, hasField, withField, withoutFields } from '../http/fields.ts';
import type { Delivery, ProxyResponse } from '../http/message.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { Hold } from '../origin/group/origin-group.ts';
import { isOriginFault, isUnwell } from '../origin/group/resend.ts';
import { hostOfOrigin, socketPathOf } from '../origin/origin.ts';
import { originError } from '../origin/origin-error.ts';
import { withoutConnectionFields } from '../semantics/message-forwarding.ts';
import type { Emit } from '../telemetry/events.ts';
import type { RequestHead, Tunnel, TunnelClient } from './listener.ts';
import { MessageBody } from './message-body.ts';
import { parseFields } from './receive.ts';
import { wireFields } from './respond.ts';

/** Where a tunnel leads, and what the origin is asked with. */
export interface TunnelRoute {
  /** The origin, such as `https://origin.example:8443` or `unix:/run/app.sock`. A path of a URL is not used. */
  readonly url: string;
  /** The target in origin-form, as the origin is to get it. */
  readonly target: string;
  /** End-to-end fields only, our own (Via, X-Forwarded-For) among them. Host is the origin's where they have none. */
  readonly fields: Fields;
  /** How an https origin is verified, and what it is shown, in PEM. Node's defaults when absent. */
  readonly tls?: TunnelTls | undefined;
  /** How long it may take to connect, and the origin to answer then; those of all tunnels when absent. */
  readonly timeouts?: { readonly connectMs: number; readonly answerMs: number } | undefined;
  /** How long nothing may come through the tunnel, either way, in milliseconds; no limit when 0 or absent. */
  readonly idleTimeoutMs?: number;
  /** Told what came of asking this origin, and when it is over; absent where there is no other one. */
  readonly hold?: Pick<Hold, 'report' | 'release'> | undefined;
}

/** As much of TLS as is decided for each route. */
interface TunnelTls {
  /** The certificates to trust. */
  readonly ca?: string | undefined;
  readonly rejectUnauthorized?: boolean | undefined;
  /** The client certificate and its key. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

/** What was decided about a request for a tunnel. */
export interface TunnelAdmission {
  /** Where it leads. Throws, or rejects with, `ProxyError`; called once. */
  route(): TunnelRoute | Promise<TunnelRoute>;
  /** A response in place of a tunnel, as the client is to get it. */
  present(response: ProxyResponse): ProxyResponse;
  /** It is over, tunnel or not. */
  leave(delivery: Delivery): void;
}

/** What a tunnel is made with. */
export interface TunnelOptions {
  /** Decides what becomes of a request. */
  readonly admit: (request: RequestHead) => TunnelAdmission;
  readonly emit: Emit;
  /** Tells the time in epoch milliseconds. */
  readonly now: () => number;
  /** How long the connection to an origin may take, where its route does not say. */
  readonly connectTimeoutMs: number;
  /** How long the origin may then take to answer. */
  readonly answerTimeoutMs: number;
}

/** Fields that frame a message, which a handshake has not. */
const framingFields: ReadonlySet<string> = new Set(['content-length']);

/** How long bytes that a closed side has left may take to be written to the other. */
const flushTimeoutMs = 2_000;

/**
 * Tunnels begin with the origin's 101 (RFC 9110 §7.8, RFC 6455 §4). Any other answer of the origin is relayed, and an
 * origin that does not answer becomes a 502 or 504.
 */
export function createTunnel(options: TunnelOptions): Tunnel {
  const attempts = new WeakMap<IncomingMessage, Attempt>();
  const proxy = createProxyServer({ toProxy: true, prependPath: false, connectTimeout: options.connectTimeoutMs });
  // What ends a tunnel also comes to the callback of its attempt; without a listener it would be thrown.
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

/** What http-proxy-3 takes for the client's request. Its fields are those that it looks for; none of them is sent. */
function createHandshake(request: RequestHead, socket: Socket): IncomingMessage {
  const handshake = new IncomingMessage(socket);
  handshake.method = request.method;
  handshake.url = '/';
  handshake.httpVersion = request.version;
  handshake.headers = { connection: 'Upgrade', upgrade: 'websocket' };
  return handshake;
}

/** One request for a tunnel, from the client's handshake to the end of both connections. */
class Attempt {
  readonly #request: RequestHead;
  readonly #client: TunnelClient;
  readonly #options: TunnelOptions;
  readonly #admission: TunnelAdmission;
  #route: TunnelRoute = { url: '', target: '', fields: [] };
  #outgoing: ClientRequest | undefined;
  #origin: Socket | undefined;
  #stage: 'asking' | 'answered' | 'open' = 'asking';
  #isConnected = false;
  #deadline: NodeJS.Timeout | undefined;
  readonly #stopWatching: () => void;
  #error: ProxyError | undefined;

  constructor(request: RequestHead, client: TunnelClient, options: TunnelOptions) {
    this.#request = request;
    this.#client = client;
    this.#options = options;
    this.#admission = options.admit(request);
    this.#stopWatching = watchForEnd(client.socket);
  }

  async start(proxy: ProxyServer, handshake: IncomingMessage): Promise<void> {
    const { socket, firstBytes } = this.#client;
    try {
      this.#route = await this.#admission.route();
      const route = this.#route;
      if (socket.destroyed) throw new ProxyError('client_gone');
      const originOptions = { ...selectOrigin(route), connectTimeout: this.#connectTimeoutMs };
      proxy.ws(handshake, socket, firstBytes, originOptions, (error) => this.#fail(error));
      // http-proxy-3 would relay another answer without backpressure and without regard to its framing.
      this.#outgoing?.removeAllListeners('response');
      this.#outgoing?.once('response', (answer) => this.#relay(answer));
    } catch (thrown) {
      this.#refuse(toProxyError(thrown));
    }
  }

  /** Makes the request to the origin ours to the last field, before it is sent. */
  prepare(outgoing: ClientRequest): void {
    const { target, fields, url } = this.#route;
    this.#outgoing = outgoing;
    const host = hasField(fields, 'host') ? fields : withField(fields, 'host', hostOfOrigin(new URL(url)));
    const sent = withoutFields(withoutConnectionFields(host), framingFields);
    for (const name of outgoing.getHeaderNames()) outgoing.removeHeader(name);
    for (const [name, value = ''] of Object.entries(withUpgrade(sent))) outgoing.setHeader(name, value);
    outgoing.path = target;

    outgoing.once('socket', (socket) => {
      socket.once(this.#isTls ? 'secureConnect' : 'connect', () => {
        this.#isConnected = true;
        this.#await(outgoing);
      });
    });
    outgoing.once('upgrade', (answer, socket) => this.#open(answer, socket));
    this.#client.socket.once('close', () => {
      if (this.#stage === 'asking') outgoing.destroy(new ProxyError('client_gone'));
    });
  }

  /** From now on the origin may take so long, however it fills the time. */
  #await(outgoing: ClientRequest): void {
    const timeoutMs = this.#route.timeouts?.answerMs ?? this.#options.answerTimeoutMs;
    this.#deadline = setTimeout(() => outgoing.destroy(new ProxyError('origin_timeout')), timeoutMs);
    outgoing.once('close', () => clearTimeout(this.#deadline));
  }

  get #connectTimeoutMs(): number {
    return this.#route.timeouts?.connectMs ?? this.#options.connectTimeoutMs;
  }

  get #isTls(): boolean {
    return /^(https|wss):/i.test(this.#route.url);
  }

  /** Runs before http-proxy-3 writes the 101 with the answer's fields and connects the two sockets. */
  #open(answer: IncomingMessage, originSocket: Socket): void {
    this.#stage = 'open';
    this.#origin = originSocket;
    this.#options.emit({ kind: 'begun', what: 'tunnel' });
    this.#stopWatching();
    clearTimeout(this.#deadline);
    this.#route.hold?.report('well', 'it opened a tunnel');
    const { socket } = this.#client;
    answer.headers = withUpgrade(endToEndFields(answer));
    // All that comes and leaves passes the client's socket.
    const { idleTimeoutMs = 0 } = this.#route;
    socket.setTimeout(idleTimeoutMs, () => {
      this.#error ??= new ProxyError('tunnel_idle', { detail: `nothing came for ${idleTimeoutMs} ms` });
      socket.destroy();
    });
    originSocket.once('close', () => socket.destroySoon());
    socket.once('close', () => {
      originSocket.setTimeout(flushTimeoutMs, () => originSocket.destroy());
      originSocket.destroySoon();
      this.#report(101, this.#error);
    });
  }

  #relay(answer: IncomingMessage): void {
    this.#stage = 'answered';
    clearTimeout(this.#deadline);
    const status = answer.statusCode ?? 502;
    this.#route.hold?.report(isUnwell({ status }) ? 'failed' : 'well', `status ${status}`);
    const length = answer.headers['content-length'];
    const sizeBytes = length === undefined ? undefined : Number(length);
    const stream = new MessageBody(answer, {
      sizeBytes,
      brokenOff: 'origin_body_short',
      onClose: () => answer.destroy(),
    });
    this.#answer({ status, fields: endToEndFields(answer), body: { kind: 'stream', sizeBytes, stream } });
  }

  /** Called for whatever ends the origin's side with an error, before the answer and after it. */
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
    this.#client.answer({ ...this.#admission.present(response), closeConnection: true, onDelivered });
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

/** Whom http-proxy-3 connects to. It looks for a socket and for certificates in the target, even where that is a URL. */
function selectOrigin({ url, tls = {} }: TunnelRoute): ServerOptions {
  // A text that is no URL would be taken for a path of some other host.
  const place = new URL(url);
  const socketPath = socketPathOf(place);
  if (socketPath !== undefined) {
    return { target: Object.assign(new URL(`http://${hostOfOrigin(place)}`), { socketPath }) };
  }
  const { ca, cert, key, rejectUnauthorized = true } = tls;
  // Node would ask for the certificate of the name in Host, which may be the client's name for the origin.
  const name = place.hostname.replace(/^\[|\]$/g, '');
  const ssl = { servername: isIP(name) === 0 ? name : '' };
  const target = Object.assign(place, { cert, key });
  return { target, ssl, secure: rejectUnauthorized, ...(ca === undefined ? {} : { ca }) };
}

function endToEndFields(answer: IncomingMessage): Fields {
  return withoutFields(withoutConnectionFields(parseFields(answer.rawHeaders)), framingFields);
}

/** The fields of a handshake, in either direction, with those of its connection. */
function withUpgrade(fields: Fields): NodeJS.Dict<string | string[]> {
  return wireFields([...fields, ['connection', 'Upgrade'], ['upgrade', 'websocket']]);
}

/**
 * Destroys a socket whose client ends its side, until the function is called: nothing tells the end of a socket that is not
 * read. What the client has sent stays where it is, and behind it no end is seen.
 */
function watchForEnd(socket: Socket): () => void {
  const look = () => {
    if (socket.readableLength === 0) socket.read();
  };
  const leave = () => socket.destroy();
  socket.on('readable', look).once('end', leave);
  return () => socket.off('readable', look).off('end', leave);
}
