/**
 * One HTTP/2 connection: its settings and limits (RFC 9113 §6.5), its exchanges, the detection of floods, and the end of the
 * connection.
 */

import {
  constants,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type ServerSessionOptions,
} from 'node:http2';
import type { Socket } from 'node:net';
import type { Peer, PlainSource, ProxyRequest } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { ListenerLimits } from '../listener.ts';
import type { ProtocolOptions } from '../protocol.ts';
import { type RateLimits, takenBytes } from '../timeouts.ts';
import { type ExchangeOwner, Http2Exchange } from './exchange.ts';
import { readPlainHttp2Head, receiveHttp2Head } from './receive.ts';
import { type Http2Windows, PieceSizer } from './response-writer.ts';

const { NGHTTP2_ENHANCE_YOUR_CALM, NGHTTP2_INTERNAL_ERROR, NGHTTP2_PROTOCOL_ERROR } = constants;

/**
 * How long an ended connection stays open so that the client can read everything (RFC 9112 §9.6): the time without any progress,
 * and the total time. In milliseconds.
 */
const lingerMs = 2_000;
const longestLingerMs = 30_000;

const cutOff = new Error('the connection was cut');

/** The server of a connection, as the connection uses it. */
export interface Http2Requests {
  /** Limits of responses: total time and minimum rate. */
  readonly pace: RateLimits;
  /** Minimum rate of request bodies. */
  readonly uploadPace: RateLimits;
  take(exchange: Http2Exchange, request: ProxyRequest): void;
  /** Answers an exchange whose request is refused. */
  refuse(exchange: Http2Exchange, error: ProxyError): void;
}

interface Progress {
  readonly value: number;
  readonly at: number;
}

/** One HTTP/2 connection. The server calls `look` periodically; it checks the time limits. */
export class Http2Connection implements ExchangeOwner, PlainSource {
  readonly scheme: 'http' | 'https';
  readonly peer: Peer;
  readonly takesMovable = false;
  known: object | undefined;
  readonly #socket: Socket;
  readonly #options: ProtocolOptions;
  readonly #requests: Http2Requests;
  readonly #session: ServerHttp2Session;
  readonly #flood: FloodMeter;
  readonly #stride = new PieceSizer();
  readonly #exchanges = new Set<Http2Exchange>();
  #stage: 'open' | 'draining' | 'finishing' | 'ended' = 'open';
  /** When the last exchange ended, or the connection began, in epoch milliseconds. */
  #since: number;
  /** While lingering: the number of bytes taken, and when it last changed. */
  #leaving: Progress | undefined;
  #hadRequest = false;
  /** Number of errors reported by nghttp2 for which no stream was reset yet, and the last of them. */
  #protocolErrors = 0;
  #protocolError: Error | undefined;

  constructor(socket: Socket, peer: Peer, options: ProtocolOptions, requests: Http2Requests) {
    this.#socket = socket;
    this.scheme = options.scheme;
    this.peer = peer;
    this.#options = options;
    this.#requests = requests;
    this.#since = options.now();
    this.#flood = new FloodMeter(options.limits.streamsPerConnection, this.#since);
    this.#session = beginSession(socket, options.limits);
    catchProtocolErrors(this.#session, (error) => this.#noteProtocolError(error));
    this.#session.on('stream', (stream, headers, _flags, rawHeaders) => {
      this.#receive(stream, headers[':method'] ?? '', rawHeaders);
    });
    this.#session.on('error', (error) => this.#fail(error));
    // HTTP/2 has no half-closed connections: a client that ends its side is gone.
    socket.once('end', () => this.cut());
  }

  get isOpen(): boolean {
    return !this.#session.destroyed;
  }

  get uploadPace(): RateLimits {
    return this.#requests.uploadPace;
  }

  get windows(): Http2Windows {
    const { state, remoteSettings } = this.#session;
    return { stream: remoteSettings.initialWindowSize ?? 0, connection: state.remoteWindowSize ?? 0 };
  }

  /** Whether an exchange is running. */
  get isBusy(): boolean {
    return this.#exchanges.size > 0;
  }

  /**
   * Ends the connection after the running exchanges. Waits one turn of the event loop before GOAWAY, to read requests that have
   * already arrived. Streams after the last one that GOAWAY names may be sent again (RFC 9113 §6.8). nghttp2 takes no new stream
   * after any GOAWAY, so the two-step shutdown of the RFC would lose requests.
   */
  drain(): void {
    if (this.#stage !== 'open') return;
    this.#stage = 'draining';
    setImmediate(() => setImmediate(() => this.#finish()));
  }

  /** Ends the connection at once. */
  cut(): void {
    this.#stage = 'ended';
    // With an error: otherwise open streams would be reset as after a complete response.
    if (this.isBusy) this.#session.destroy(cutOff);
    else this.#session.destroy();
    this.#socket.destroy();
  }

  noteContent(sizeBytes: number): void {
    this.#flood.noteUse(sizeBytes);
  }

  settle(exchange: Http2Exchange): void {
    this.#exchanges.delete(exchange);
    if (exchange.isMalformed) this.#noteMalformed();
    const now = this.#options.now();
    // Body bytes that the client sends before it sees the end of the stream must not count as a flood.
    if (exchange.isReceiving) this.#flood.noteUse(streamWindowBytes);
    this.#since = now;
    if (exchange.isWhole || exchange.isBroken || this.#session.destroyed) return;
    if (this.#flood.noteReset(now)) this.#calm('too many streams were reset');
  }

  /** Checks the time limits and the flood limits, and ends what exceeds them. */
  look(now: number): void {
    const sentBytes = takenBytes({ socket: this.#socket });
    if (this.#stage === 'ended' || (this.#stage === 'finishing' && !this.isBusy)) {
      this.#linger(sentBytes, now);
      return;
    }
    if (this.#flood.isFlooded({ receivedBytes: this.#socket.bytesRead, sentBytes }, now)) {
      this.#calm('too many bytes without content or a request');
    } else if (this.#stage === 'open' && this.#isUnused(now)) this.drain();
    this.#judgeProtocolErrors();
    for (const exchange of this.#exchanges) exchange.look(now, this.#options.limits);
    if (this.#session.destroyed) this.#stage = 'ended';
  }

  #receive(stream: ServerHttp2Stream, method: string, rawHeaders: readonly string[]): void {
    const receivedAt = this.#options.now();
    this.#hadRequest = true;
    // The stream was reset in the same read that opened it.
    if (stream.destroyed || stream.closed) {
      stream.on('error', () => {});
      if (stream.rstCode === NGHTTP2_PROTOCOL_ERROR) this.#noteMalformed();
      if (this.#flood.noteReset(receivedAt)) this.#calm('too many streams were reset');
      return;
    }
    let headBytes = 0;
    for (const text of rawHeaders) headBytes += text.length;
    this.#flood.noteUse(headBytes);
    const exchange = new Http2Exchange({
      owner: this,
      stream,
      method,
      startedAt: receivedAt,
      stride: this.#stride,
      now: this.#options.now,
    });
    this.#exchanges.add(exchange);
    const { limits, scheme } = this.#options;
    if (stream.endAfterHeaders && this.#writeHit(exchange, rawHeaders, receivedAt)) return;
    exchange.attend();
    const context = { scheme, peer: this.peer, receivedAt: exchange.startedAt, limits };
    const reception = receiveHttp2Head(rawHeaders, context);
    if (reception.kind === 'received') {
      this.#requests.take(exchange, exchange.receive(reception.head, reception.framing));
    } else {
      this.#reportRefusal(reception.error);
      this.#requests.refuse(exchange, reception.error);
    }
  }

  /** Answers a plain head from memory, where possible. */
  #writeHit(exchange: Http2Exchange, rawHeaders: readonly string[], receivedAt: number): boolean {
    const { handler } = this.#options;
    if (handler.hit === undefined) return false;
    const head = readPlainHttp2Head(rawHeaders, this.#options);
    const hit = head && handler.hit(head, this, receivedAt);
    return hit !== undefined && exchange.writeHit(hit, this.#requests.pace);
  }

  /** Whether the connection has exceeded its time limit without a request. */
  #isUnused(now: number): boolean {
    if (this.isBusy) return false;
    const { headersTimeoutMs, keepAliveTimeoutMs, idleTimeoutMs } = this.#options.limits;
    const patienceMs = this.#hadRequest ? keepAliveTimeoutMs || idleTimeoutMs : headersTimeoutMs;
    return patienceMs > 0 && now - this.#since >= patienceMs;
  }

  /** Gives the client time to take the remaining bytes and to end its side, then destroys the socket. */
  #linger(sentBytes: number, now: number): void {
    if (this.#leaving?.value !== sentBytes) this.#leaving = { value: sentBytes, at: now };
    else if (now - this.#leaving.at >= lingerMs || now - this.#since >= longestLingerMs) this.#socket.destroy();
  }

  /** Takes no further stream. The session ends after the running ones. */
  #finish(): void {
    if (this.#stage !== 'draining') return;
    this.#stage = 'finishing';
    this.#session.close();
  }

  /** Ends the connection of a flooding client with ENHANCE_YOUR_CALM. */
  #calm(detail: string): void {
    if (this.#stage === 'ended') return;
    const error = new ProxyError('rate_limited', { detail });
    this.#reportRefusal(error);
    this.#stage = 'ended';
    this.#session.destroy(error, NGHTTP2_ENHANCE_YOUR_CALM);
  }

  /** Counts an error. Whether it was a stream error or a connection error is known after nghttp2 has sent its answer. */
  #noteProtocolError(error: Error): void {
    this.#protocolErrors += 1;
    this.#protocolError = error;
    setImmediate(() => this.#judgeProtocolErrors());
  }

  /** Accounts one error to a stream that nghttp2 has reset. */
  #noteMalformed(): void {
    this.#protocolErrors = Math.max(0, this.#protocolErrors - 1);
  }

  /** Ends the connection if nghttp2 has reported more errors than it has reset streams. */
  #judgeProtocolErrors(): void {
    if (this.#protocolErrors === 0 || this.#session.destroyed) return;
    const isAnswered = this.#session.state.outboundQueueSize === 0;
    if (isAnswered) this.#session.destroy(this.#protocolError, NGHTTP2_INTERNAL_ERROR);
  }

  /** Handles a connection error (RFC 9113 §5.4.1) or an error of the socket. */
  #fail(error: Error & { readonly code?: string }): void {
    if (this.#stage === 'ended') return;
    this.#stage = 'ended';
    if (error.code === 'ERR_HTTP2_ERROR') {
      this.#reportRefusal(new ProxyError('malformed_request', { detail: error.message }));
    }
  }

  #reportRefusal(error: ProxyError): void {
    const { code, detail, status } = error;
    this.#options.emit({ kind: 'refusal', peer: this.peer.address, status, error: code, detail });
  }
}

/**
 * Flow-control window of a stream, in bytes. Node reads a connection even when its streams are not read, so one connection can make
 * the process buffer this times the number of streams.
 */
export const streamWindowBytes = 256 * 1024;

/** Flow-control window of a connection, in bytes: a few uploads at full speed. */
const connectionWindowBytes = 1024 * 1024;

/** Overhead per field in SETTINGS_MAX_HEADER_LIST_SIZE, in bytes (RFC 9113 §6.5.2). */
const listOverheadBytes = 32;

/** Header lists up to this many times the limits are read completely, so that they get a 414 or 431 response. */
const readShare = 2;

/** Memory of a session above which new streams are refused, in MiB. Content being sent to the client does not count. */
const sessionMemory = 32;

/** Maximum number of malformed frames, and of streams that nghttp2 has to refuse, in the life of a connection. */
const invalidFrames = 1_000;
const rejectedStreams = 1_000;

/** Limits of RST_STREAM frames: burst, and number per second. nghttp2 also counts frames that Node does not report. */
const resetBurst = 2_000;
const resetRate = 100;

/** Begins an HTTP/2 session on a socket. */
function beginSession(socket: Socket, limits: ListenerLimits): ServerHttp2Session {
  // Bytes that were put back must not be emitted before the session reads the socket.
  socket.pause();
  const session = performServerHandshake(socket, sessionOptions(limits));
  session.setLocalWindowSize(connectionWindowBytes);
  return session;
}

/** NGHTTP2_ERR_PROTO. */
const protocolError = -505;

/**
 * Passes the protocol errors of a session to `onError`, and keeps the session open. Node would destroy the session for each of them.
 * nghttp2 has already answered the error: usually with GOAWAY, but content beyond Content-Length only with a stream reset (RFC 9113
 * §8.1.1).
 */
function catchProtocolErrors(session: ServerHttp2Session, onError: (error: Error) => void): void {
  const destroy = session.destroy.bind(session);
  Object.assign(session, {
    destroy(error?: Error & { readonly errno?: number }, code?: number): void {
      if (error?.errno === protocolError && code === undefined && !session.destroyed) onError(error);
      else destroy(error, code);
    },
  });
}

type Limits = Pick<ListenerLimits, 'targetBytes' | 'fieldsBytes' | 'maxFieldCount' | 'streamsPerConnection'>;

function sessionOptions({
  targetBytes,
  fieldsBytes,
  maxFieldCount,
  streamsPerConnection,
}: Limits): ServerSessionOptions {
  const maxHeaderListPairs = readShare * maxFieldCount + 4;
  return {
    maxHeaderListPairs,
    maxSessionMemory: sessionMemory,
    maxSessionInvalidFrames: invalidFrames,
    maxSessionRejectedStreams: rejectedStreams,
    streamResetBurst: resetBurst,
    streamResetRate: resetRate,
    settings: {
      enablePush: false,
      enableConnectProtocol: false,
      initialWindowSize: streamWindowBytes,
      maxConcurrentStreams: streamsPerConnection,
      maxHeaderListSize: readShare * (targetBytes + fieldsBytes) + listOverheadBytes * maxHeaderListPairs,
    },
  };
}

/** Allowed resets: a burst per permitted concurrent stream, and a number per second. */
const resetsPerStream = 4;
const resetsPerSecond = 33;

/** Allowed bytes without content or a request: a burst, and a number per second. */
const idleBytes = 1024 * 1024;
const idleBytesPerSecond = 16 * 1024;

/** Share of the sent bytes that a client may send back as WINDOW_UPDATE and similar frames. */
const answerShare = 1 / 32;

/** Maximum credit for later bytes without content or a request, in bytes. */
const mostCredit = 4 * 1024 * 1024;

/** Bytes that a connection has received and sent so far. */
interface Traffic {
  readonly receivedBytes: number;
  readonly sentBytes: number;
}

/**
 * Detects floods on one connection. Counts streams that end before their response, unless the proxy ended them: reset by the client
 * (rapid reset, CVE-2023-44487), or by nghttp2 because of the client (CVE-2025-8671). Also counts bytes without content or a
 * request: control frames, empty frames, padding, refused header lists.
 */
class FloodMeter {
  readonly #mostResets: number;
  #resets = 0;
  #resetAt = 0;
  #idle = 0;
  #idleAt: number;
  #usefulBytes = 0;
  #counted: Traffic = { receivedBytes: 0, sentBytes: 0 };

  constructor(streamsPerConnection: number, now: number) {
    this.#mostResets = resetsPerStream * streamsPerConnection;
    this.#idleAt = now;
  }

  /** Counts a stream that has ended before its response. Returns whether the limit is exceeded. */
  noteReset(now: number): boolean {
    const forgiven = ((now - this.#resetAt) / 1000) * resetsPerSecond;
    this.#resets = Math.max(0, this.#resets - forgiven) + 1;
    this.#resetAt = now;
    return this.#resets > this.#mostResets;
  }

  /** Counts useful bytes: of a request head or body. */
  noteUse(sizeBytes: number): void {
    this.#usefulBytes += sizeBytes;
  }

  /** Counts the traffic since the last call. Returns whether the limit of useless bytes is exceeded. */
  isFlooded(traffic: Traffic, now: number): boolean {
    const received = traffic.receivedBytes - this.#counted.receivedBytes;
    const sent = traffic.sentBytes - this.#counted.sentBytes;
    const forgiven = ((now - this.#idleAt) / 1000) * idleBytesPerSecond;
    const idle = this.#idle + received - this.#usefulBytes - sent * answerShare - forgiven;
    this.#idle = Math.max(-mostCredit, idle);
    this.#idleAt = now;
    this.#counted = traffic;
    this.#usefulBytes = 0;
    return this.#idle > idleBytes;
  }
}
