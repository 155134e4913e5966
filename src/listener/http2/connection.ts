/**
 * One HTTP/2 connection: its settings and limits (RFC 9113 §6.5), its exchanges, what a client may make the server do for
 * nothing before it counts as an attacker, and how the connection ends.
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
import { type Pace, takenBytes } from '../timeouts.ts';
import { type ExchangeOwner, Http2Exchange } from './exchange.ts';
import { readPlainHttp2Head, receiveHttp2Head } from './receive.ts';
import { Http2Stride, type Http2Windows } from './response-writer.ts';

const { NGHTTP2_ENHANCE_YOUR_CALM, NGHTTP2_INTERNAL_ERROR, NGHTTP2_PROTOCOL_ERROR } = constants;

/**
 * How long a connection that we have ended is still there when nothing more leaves, so that the client has read all (RFC 9112
 * §9.6), and how long in any case. In milliseconds.
 */
const lingerMs = 2_000;
const longestLingerMs = 30_000;

const cutOff = new Error('the connection was cut');

/** What becomes of requests. */
export interface Http2Requests {
  /** How fast responses must be taken. */
  readonly pace: Pace;
  /** How fast their bodies must come. */
  readonly uploadPace: Pace;
  take(exchange: Http2Exchange, request: ProxyRequest): void;
  /** The exchange had no request that goes any further. */
  refuse(exchange: Http2Exchange, error: ProxyError): void;
}

interface Progress {
  readonly value: number;
  readonly at: number;
}

/** Its limits of time are looked after by `look`, which somebody has to call again and again. */
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
  readonly #stride = new Http2Stride();
  readonly #exchanges = new Set<Http2Exchange>();
  #stage: 'open' | 'draining' | 'finishing' | 'ended' = 'open';
  /** When it last had something to do, or began. */
  #since: number;
  /** What had left at which time, after it had its last thing to do. */
  #leaving: Progress | undefined;
  #hadRequest = false;
  /** Errors that nghttp2 has reported and for which no stream was reset yet, and the last of them. */
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
    // HTTP/2 has no use for half a connection: who has ended one side has left.
    socket.once('end', () => this.cut());
  }

  get isOpen(): boolean {
    return !this.#session.destroyed;
  }

  get uploadPace(): Pace {
    return this.#requests.uploadPace;
  }

  get windows(): Http2Windows {
    const { state, remoteSettings } = this.#session;
    return { stream: remoteSettings.initialWindowSize ?? 0, connection: state.remoteWindowSize ?? 0 };
  }

  /** Whether something runs on it. */
  get isBusy(): boolean {
    return this.#exchanges.size > 0;
  }

  /**
   * Ends after what runs, and after what has arrived but was not read yet: one turn of the event loop. What else is on its
   * way comes after the last stream that GOAWAY names, so that the client knows that it may send it again (RFC 9113 §6.8).
   * nghttp2 takes no stream after any GOAWAY: a first one that names none, as the RFC has it, would lose requests.
   */
  drain(): void {
    if (this.#stage !== 'open') return;
    this.#stage = 'draining';
    setImmediate(() => setImmediate(() => this.#finish()));
  }

  /** Ends it at once. */
  cut(): void {
    this.#stage = 'ended';
    // With an error, or streams would be reset as those are whose response was whole.
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
    // What the client sends of a body before it learns that nobody wants it is no fault of its own.
    if (exchange.isReceiving) this.#flood.noteUse(streamWindowBytes);
    this.#since = now;
    if (exchange.isWhole || exchange.isBroken || this.#session.destroyed) return;
    if (this.#flood.noteReset(now)) this.#calm('too many streams were reset');
  }

  /** Ends what takes too long. */
  look(now: number): void {
    const sentBytes = takenBytes({ socket: this.#socket });
    if (this.#stage === 'ended' || (this.#stage === 'finishing' && !this.isBusy)) {
      this.#linger(sentBytes, now);
      return;
    }
    if (this.#flood.isFlooded({ receivedBytes: this.#socket.bytesRead, sentBytes }, now)) {
      this.#calm('too many bytes for nothing');
    } else if (this.#stage === 'open' && this.#isUnused(now)) this.drain();
    this.#judgeProtocolErrors();
    for (const exchange of this.#exchanges) exchange.look(now, this.#options.limits);
    if (this.#session.destroyed) this.#stage = 'ended';
  }

  #receive(stream: ServerHttp2Stream, method: string, rawHeaders: readonly string[]): void {
    const receivedAt = this.#options.now();
    this.#hadRequest = true;
    // It was reset with the same bytes that it came with.
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

  /** Answers a plain head from memory, where that can be. */
  #writeHit(exchange: Http2Exchange, rawHeaders: readonly string[], receivedAt: number): boolean {
    const { handler } = this.#options;
    if (handler.hit === undefined) return false;
    const head = readPlainHttp2Head(rawHeaders, this.#options);
    const hit = head && handler.hit(head, this, receivedAt);
    return hit !== undefined && exchange.writeHit(hit, this.#requests.pace);
  }

  /** Whether it was kept for long enough without a request. */
  #isUnused(now: number): boolean {
    if (this.isBusy) return false;
    const { headersTimeoutMs, keepAliveTimeoutMs, idleTimeoutMs } = this.#options.limits;
    const patienceMs = this.#hadRequest ? keepAliveTimeoutMs || idleTimeoutMs : headersTimeoutMs;
    return patienceMs > 0 && now - this.#since >= patienceMs;
  }

  /** Waits for the client to take what is left, and then to end its side. */
  #linger(sentBytes: number, now: number): void {
    if (this.#leaving?.value !== sentBytes) this.#leaving = { value: sentBytes, at: now };
    else if (now - this.#leaving.at >= lingerMs || now - this.#since >= longestLingerMs) this.#socket.destroy();
  }

  /** Takes no further stream; the session ends after those that run. */
  #finish(): void {
    if (this.#stage !== 'draining') return;
    this.#stage = 'finishing';
    this.#session.close();
  }

  /** The client makes us work for nothing. */
  #calm(detail: string): void {
    if (this.#stage === 'ended') return;
    const error = new ProxyError('rate_limited', { detail });
    this.#reportRefusal(error);
    this.#stage = 'ended';
    this.#session.destroy(error, NGHTTP2_ENHANCE_YOUR_CALM);
  }

  /** Whether it was an error of a stream or of the connection shows when nghttp2 has sent its answer. */
  #noteProtocolError(error: Error): void {
    this.#protocolErrors += 1;
    this.#protocolError = error;
    setImmediate(() => this.#judgeProtocolErrors());
  }

  /** nghttp2 has reset a stream. */
  #noteMalformed(): void {
    this.#protocolErrors = Math.max(0, this.#protocolErrors - 1);
  }

  /** Ends the connection where nghttp2 has reported more errors than it has reset streams. */
  #judgeProtocolErrors(): void {
    if (this.#protocolErrors === 0 || this.#session.destroyed) return;
    const isAnswered = this.#session.state.outboundQueueSize === 0;
    if (isAnswered) this.#session.destroy(this.#protocolError, NGHTTP2_INTERNAL_ERROR);
  }

  /** A connection error (RFC 9113 §5.4.1), of the client's or of the socket. */
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
 * How much of a request's body a client may send before it is read, in bytes. Node reads a connection whatever becomes of its
 * streams, so that this times the streams is what one connection can make us keep.
 */
export const streamWindowBytes = 256 * 1024;

/** The window of the whole connection, in bytes: a few uploads at full speed. */
const connectionWindowBytes = 1024 * 1024;

/** What a field costs in SETTINGS_MAX_HEADER_LIST_SIZE besides its bytes (RFC 9113 §6.5.2). */
const listOverheadBytes = 32;

/** Header lists up to so many times what is allowed are read to the end, so that they can be answered with 414 or 431. */
const readShare = 2;

/** Memory of one session before new streams are refused, in MiB. Content that is on its way to the client is not in it. */
const sessionMemory = 32;

/** Malformed frames and streams beyond the limits that nghttp2 has to refuse, in the whole life of a connection. */
const invalidFrames = 1_000;
const rejectedStreams = 1_000;

/** RST_STREAM frames: a burst, and their number per second; nghttp2 counts those that come too late for us to see, too. */
const resetBurst = 2_000;
const resetRate = 100;

/** Begins HTTP/2 on a connection. */
function beginSession(socket: Socket, limits: ListenerLimits): ServerHttp2Session {
  // What was read of it and put back must not flow away before the session reads it.
  socket.pause();
  const session = performServerHandshake(socket, sessionOptions(limits));
  session.setLocalWindowSize(connectionWindowBytes);
  return session;
}

/** NGHTTP2_ERR_PROTO. */
const protocolError = -505;

/**
 * Node destroys a session for every protocol error that nghttp2 reports. nghttp2 has answered each of them by then: most with
 * GOAWAY, but content beyond Content-Length by resetting the stream alone (RFC 9113 §8.1.1). Such an error, whichever it was,
 * comes to `onError` from now on, and the session goes on.
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

/** Resets at a time, for each stream that it may have open, and resets per second in the long run. */
const resetsPerStream = 4;
const resetsPerSecond = 33;

/** Bytes without content or a request at a time, and per second in the long run. */
const idleBytes = 1024 * 1024;
const idleBytesPerSecond = 16 * 1024;

/** Of what a client reads, a part is as much again in WINDOW_UPDATE and the like. */
const answerShare = 1 / 32;

/** What was earned beforehand counts up to this, in bytes. */
const mostCredit = 4 * 1024 * 1024;

/** What a connection has received and sent so far, in bytes. */
interface Traffic {
  readonly receivedBytes: number;
  readonly sentBytes: number;
}

/**
 * Counts two things of one connection. Streams that end before their response, whatever has ended them but us: the client
 * has reset them (rapid reset, CVE-2023-44487), or has made nghttp2 reset them (CVE-2025-8671). And bytes that bring neither
 * content nor a request: frames of control, empty frames, padding, header lists that are refused.
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

  /** A stream has ended before its response. Returns whether that was one too many. */
  noteReset(now: number): boolean {
    const forgiven = ((now - this.#resetAt) / 1000) * resetsPerSecond;
    this.#resets = Math.max(0, this.#resets - forgiven) + 1;
    this.#resetAt = now;
    return this.#resets > this.#mostResets;
  }

  /** Bytes were of use: of a request's head or of its body. */
  noteUse(sizeBytes: number): void {
    this.#usefulBytes += sizeBytes;
  }

  /** Looks at what has come since it was last asked. Returns whether that was too much for nothing. */
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
