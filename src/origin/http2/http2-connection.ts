/**
 * One HTTP/2 connection to an origin, and its streams (RFC 9113): the fields of a request, the upload of its body, what a stream
 * reports to its exchange, and the errors of streams and connections as `ProxyError`.
 */

import { once } from 'node:events';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
  type OutgoingHttpHeaders,
} from 'node:http2';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../../http/clock.ts';
import type { BodyStream } from '../../http/message.ts';
import { type ErrorCode, ProxyError } from '../../http/proxy-error.ts';
import { type Control, OriginExchange } from '../exchange.ts';
import type { OriginRequest, OriginResponse } from '../origin.ts';
import { OriginError } from '../origin-error.ts';

/** How a connection behaves. */
interface Http2ConnectionOptions {
  /** The origin's own authority, for requests that name none. */
  readonly authority: string;
  /** From a request's last byte to the final head; each interim response begins it anew. */
  readonly headersTimeoutMs: number;
  /** Silence between two pieces of a body that somebody wants to read. */
  readonly bodyTimeoutMs: number;
  /** How long it is kept without a request. */
  readonly keepAliveTimeoutMs: number;
  readonly clock: Clock;
  /** Called when a stream is free again, and when the connection takes no more of them. */
  readonly onChange: () => void;
  /** Called when the origin refuses HTTP/2 for what it was asked (HTTP_1_1_REQUIRED, RFC 9113 §7). */
  readonly onHttp1Required: () => void;
}

/** The most requests at a time, whatever the origin allows. */
const maxStreams = 100;

/** How much of a body may be on its way to a reader that does not read; and over the connection, which nobody holds back. */
const windowBytes = 256 * 1024;
const connectionWindowBytes = 16 * 1024 * 1024;

/** The largest head that is read, in bytes and in lines; the stream of a larger one is reset. */
const maxHeadBytes = 64 * 1024;
const maxHeadLines = 2000;

/** A connection that is ready to use. It is retired, which is for good, when it takes no more requests. */
export class Http2Connection {
  readonly #session: ClientHttp2Session;
  readonly #options: Http2ConnectionOptions;
  readonly #surroundings: StreamSurroundings;
  #openStreams = 0;
  #isRetired = false;
  /** The last stream that the origin may have acted on (GOAWAY, RFC 9113 §6.8). */
  #lastStream = Number.POSITIVE_INFINITY;
  /** What the whole connection has failed with. */
  #failure: Error | undefined;
  #stopIdling: (() => void) | undefined;

  constructor(socket: TLSSocket, options: Http2ConnectionOptions) {
    this.#options = options;
    this.#surroundings = {
      headersTimeoutMs: options.headersTimeoutMs,
      bodyTimeoutMs: options.bodyTimeoutMs,
      nameError: (stream, thrown, isReading) => this.#nameError(stream, thrown, isReading),
      // The silence may be that of a connection whose end nobody was told: what comes later goes another way.
      onSilence: () => this.retire(),
    };
    this.#session = connect(`https://${options.authority}`, {
      createConnection: () => socket,
      peerMaxConcurrentStreams: maxStreams,
      maxHeaderListPairs: maxHeadLines,
      settings: { enablePush: false, initialWindowSize: windowBytes, maxHeaderListSize: maxHeadBytes },
    });
    this.#session.once('connect', () => {
      if (!this.#session.destroyed) this.#session.setLocalWindowSize(connectionWindowBytes);
    });
    this.#session.on('error', (error: Error) => {
      this.#failure ??= error;
    });
    this.#session.on('goaway', (_code: number, lastStream: number) => {
      this.#lastStream = Math.min(this.#lastStream, lastStream);
      this.retire();
    });
    this.#session.on('remoteSettings', () => options.onChange());
    this.#session.on('close', () => {
      this.retire();
      options.onChange();
    });
    this.#idle();
  }

  /** How many requests may be sent now. */
  get freeStreams(): number {
    if (this.#isRetired || this.#session.closed || this.#session.destroyed) return 0;
    return this.streams - this.#openStreams;
  }

  /** How many requests it carries at a time. */
  get streams(): number {
    const allowed = this.#session.remoteSettings.maxConcurrentStreams ?? maxStreams;
    // An origin that allows none for now is given one, so that it is told when that takes too long.
    return Math.max(1, Math.min(maxStreams, allowed));
  }

  get isRetired(): boolean {
    return this.#isRetired;
  }

  /** Whether nothing is left of it. */
  get isClosed(): boolean {
    return this.#session.destroyed;
  }

  /** Sends a request, as `Origin.fetch` does. `onOver` is as that of `OriginExchange`. */
  fetch(request: OriginRequest, onOver: () => void): Promise<OriginResponse> {
    const exchange = new OriginExchange(request, { isTls: true, version: '2' }, onOver);
    if (!request.signal.aborted) this.#send(request, exchange);
    return exchange.response;
  }

  /** Takes no more requests, and closes when those under way are over. */
  retire(): void {
    if (this.#isRetired) return;
    this.#isRetired = true;
    this.#stopIdling?.();
    if (!this.#session.closed) this.#session.close();
    this.#options.onChange();
  }

  /** Cuts what is running. */
  destroy(): void {
    this.retire();
    this.#session.destroy(new ProxyError('internal', { detail: 'the origin was closed' }));
  }

  #send(request: OriginRequest, exchange: OriginExchange): void {
    const body = request.bodySizeBytes === 0 ? undefined : request.body;
    try {
      const fields = http2Fields(request, this.#options.authority);
      const stream = this.#session.request(fields, { endStream: body === undefined });
      this.#hold(stream);
      const followed = new OriginStream(stream, exchange, this.#surroundings);
      if (body !== undefined) void sendBody(stream, body, request.bodySizeBytes, (error) => followed.fail(error));
    } catch (thrown) {
      const isOurs = thrown instanceof ProxyError;
      if (!isOurs) this.retire();
      exchange.onResponseError(null, isOurs ? thrown : streamError({ thrown, isReading: false, isUnsent: true }));
    }
  }

  /** Counts a stream for as long as it is open. */
  #hold(stream: ClientHttp2Stream): void {
    this.#openStreams += 1;
    this.#stopIdling?.();
    stream.once('close', () => {
      this.#openStreams -= 1;
      if (this.#openStreams === 0) this.#idle();
      this.#options.onChange();
    });
  }

  #idle(): void {
    this.#stopIdling?.();
    if (this.#isRetired) return;
    this.#stopIdling = this.#options.clock.after(this.#options.keepAliveTimeoutMs, () => this.retire());
  }

  #nameError({ id = 0, rstCode }: ClientHttp2Stream, thrown: unknown, isReading: boolean): ProxyError {
    const isHttp1Required = rstCode === constants.NGHTTP2_HTTP_1_1_REQUIRED;
    if (isHttp1Required) this.#options.onHttp1Required();
    const isRefused = rstCode === constants.NGHTTP2_REFUSED_STREAM || isHttp1Required;
    return streamError({
      thrown: thrown ?? this.#failure,
      resetCode: rstCode,
      isReading,
      isUnsent: !isReading && (isRefused || id > this.#lastStream),
    });
  }
}

/** What a stream needs of its connection. */
interface StreamSurroundings {
  readonly headersTimeoutMs: number;
  readonly bodyTimeoutMs: number;
  /** Names what ended a stream before its response was whole. */
  nameError(stream: ClientHttp2Stream, thrown: unknown, isReading: boolean): ProxyError;
  /** Nothing has come for as long as something may take. */
  onSilence(): void;
}

type Head = IncomingHttpHeaders & IncomingHttpStatusHeader;

/** Tells the exchange each thing that happens to the stream, and one end. */
class OriginStream {
  readonly #stream: ClientHttp2Stream;
  readonly #exchange: OriginExchange;
  readonly #surroundings: StreamSurroundings;
  readonly #isWhole: () => boolean;
  #thrown: unknown;
  #isReading = false;
  #isOver = false;
  readonly #control: { -readonly [Name in keyof Control]: Control[Name] } = {
    pause: () => this.#pause(),
    resume: () => this.#resume(),
    abort: () => this.#cut(),
  };

  constructor(stream: ClientHttp2Stream, exchange: OriginExchange, surroundings: StreamSurroundings) {
    this.#stream = stream;
    this.#exchange = exchange;
    this.#surroundings = surroundings;
    this.#isWhole = watchEnd(stream);
    stream.on('error', (error) => {
      this.#thrown ??= error;
    });
    const onHead = (head: Head, _flags: number, lines?: readonly string[]) => this.#receive(head, lines ?? []);
    stream.on('headers', onHead);
    stream.on('response', onHead);
    stream.on('trailers', (_head: IncomingHttpHeaders, _flags: number, lines?: readonly string[]) => {
      this.#control.rawTrailers = lines;
    });
    stream.on('end', () => this.#end());
    stream.on('close', () => this.fail(surroundings.nameError(stream, this.#thrown, this.#isReading)));
    stream.on('timeout', () => this.#onTimeout());
    stream.setTimeout(surroundings.headersTimeoutMs);
    exchange.onRequestStart(this.#control);
  }

  /** Ends it: the response, if there is one, is not whole. */
  fail(error: unknown): void {
    if (this.#isOver) return;
    this.#exchange.onResponseError(this.#control, error);
    this.#cut();
  }

  #receive(head: Head, lines: readonly string[]): void {
    if (this.#isOver) return;
    const status = head[':status'] ?? 0;
    if (this.#isReading) {
      this.fail(new ProxyError('origin_ill_framed', { detail: 'a head behind the final one' }));
      return;
    }
    this.#control.rawHeaders = withoutPseudoFields(lines);
    this.#isReading = status >= 200;
    const { bodyTimeoutMs, headersTimeoutMs } = this.#surroundings;
    this.#stream.setTimeout(this.#isReading ? bodyTimeoutMs : headersTimeoutMs);
    if (this.#isReading) this.#stream.on('data', (chunk: Uint8Array) => this.#push(chunk));
    this.#exchange.onResponseStart(this.#control, status);
  }

  #push(chunk: Uint8Array): void {
    if (!this.#isOver) this.#exchange.onResponseData(this.#control, chunk);
  }

  /** A client that takes its time over the body of its request is no silence of the origin, which has taken all that came. */
  #onTimeout(): void {
    const { headersTimeoutMs } = this.#surroundings;
    const { writableEnded, writableLength } = this.#stream;
    if (!this.#isReading && !writableEnded && writableLength === 0) {
      this.#stream.setTimeout(headersTimeoutMs);
      return;
    }
    this.#surroundings.onSilence();
    this.fail(new ProxyError('origin_timeout', { detail: 'the stream was silent for too long' }));
  }

  /** A stream that was reset ends too; its close tells of that. */
  #end(): void {
    if (this.#isOver || !this.#isReading || !this.#isWhole()) return;
    this.#isOver = true;
    this.#exchange.onResponseEnd(this.#control);
    // An answer that needs no more of the request's body (RFC 9113 §8.1).
    if (!this.#stream.writableEnded) this.#stream.close(constants.NGHTTP2_CANCEL);
  }

  /** What nobody reads is not taken for silence: the origin is held back (RFC 9113 §5.2). */
  #pause(): void {
    this.#stream.pause();
    this.#stream.setTimeout(0);
  }

  #resume(): void {
    if (this.#isOver) return;
    this.#stream.setTimeout(this.#surroundings.bodyTimeoutMs);
    this.#stream.resume();
  }

  /** Resets the stream, not the connection. What is left of it in memory goes at once. */
  #cut(): void {
    this.#isOver = true;
    if (!this.#stream.closed) this.#stream.close(constants.NGHTTP2_CANCEL);
    this.#stream.destroy();
  }
}

/**
 * Node ends a stream that was reset with NO_ERROR as it ends one with END_STREAM, and tells nobody which it was. Only the order
 * does: a reset closes the stream before its end is put behind what was received, END_STREAM does not.
 */
function watchEnd(stream: ClientHttp2Stream): () => boolean {
  let isWhole = false;
  const push = stream.push;
  const watching = (chunk: unknown, encoding?: BufferEncoding) => {
    if (chunk === null && !stream.closed && !stream.destroyed) isWhole = true;
    return push.call(stream, chunk, encoding);
  };
  stream.push = watching;
  return () => isWhole;
}

/** Names and values in turn, those that begin with a colon left out. */
function withoutPseudoFields(lines: readonly string[]): string[] {
  const kept: string[] = [];
  for (let at = 0; at + 1 < lines.length; at += 2) {
    const name = lines[at] ?? '';
    if (!name.startsWith(':')) kept.push(name, lines[at + 1] ?? '');
  }
  return kept;
}

/**
 * Writes a body, as fast as the origin takes it (RFC 9113 §5.2), and ends the stream with it. Never rejects: a body that breaks
 * off, or has another length than was promised, is told to `onError`, and the stream is left unended.
 */
async function sendBody(
  stream: ClientHttp2Stream,
  body: BodyStream,
  sizeBytes: number | undefined,
  onError: (error: unknown) => void,
): Promise<void> {
  let sentBytes = 0;
  const over = once(stream, 'close').catch(() => undefined);
  try {
    for await (const chunk of body) {
      if (stream.destroyed || stream.closed) return;
      sentBytes += chunk.length;
      if (sentBytes > (sizeBytes ?? sentBytes)) break;
      if (!stream.write(chunk)) await Promise.race([once(stream, 'drain').catch(() => undefined), over]);
    }
    if (sentBytes !== (sizeBytes ?? sentBytes)) throw new ProxyError('request_body_incomplete');
    stream.end();
  } catch (thrown) {
    onError(thrown);
  }
}

/**
 * Fields of a connection, which HTTP/2 does not have (RFC 9113 §8.2.2), and those that the connection writes itself. Expect
 * is among them, as over HTTP/1.1.
 */
const connectionFields: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
]);

const lineOverheadBytes = 32;

const tokenPattern = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const targetPattern = /^\/[\x21-\x7e\x80-\xff]*$/;
const valuePattern = /^[\t\x20-\x7e\x80-\xff]*$/;

/**
 * The pseudo-header fields (RFC 9113 §8.3.1), `:authority` being what Host says, and the others. Lines of one name are
 * joined (RFC 9110 §5.3), those of Cookie as RFC 9113 §8.2.3 says. Throws `malformed_request` for what cannot be sent: with
 * a line break in it, say, which HTTP/2 would carry to an origin that speaks HTTP/1.1 behind a gateway. Throws
 * `fields_too_large` for more than HTTP/2 carries.
 */
function http2Fields(request: OriginRequest, authority: string): OutgoingHttpHeaders {
  const { method, target, fields, bodySizeBytes } = request;
  const headers: OutgoingHttpHeaders = Object.create(null);
  headers[':method'] = checked(method, tokenPattern);
  headers[':scheme'] = 'https';
  headers[':authority'] = checked(fields.find(([name]) => name === 'host')?.[1] ?? authority, valuePattern);
  headers[':path'] = checked(target, targetPattern);
  for (const [name, value] of fields) {
    if (connectionFields.has(name)) continue;
    const known = headers[checked(name, tokenPattern)];
    const joined = known === undefined ? value : `${known}${name === 'cookie' ? '; ' : ', '}${value}`;
    headers[name] = checked(joined, valuePattern);
  }
  if (bodySizeBytes !== undefined) headers['content-length'] = String(bodySizeBytes);
  const headBytes = sizeOf(headers);
  if (headBytes > maxHeadBytes) throw new ProxyError('fields_too_large', { detail: `${headBytes} bytes over HTTP/2` });
  return headers;
}

function sizeOf(headers: OutgoingHttpHeaders): number {
  const lines = Object.entries(headers);
  return lines.reduce((sum, [name, value]) => sum + name.length + String(value).length + lineOverheadBytes, 0);
}

function checked(text: string, pattern: RegExp): string {
  if (pattern.test(text)) return text;
  throw new ProxyError('malformed_request', { detail: 'a part of the request cannot be sent to an origin' });
}

/** What is known of a stream that has failed. */
interface StreamFailure {
  /** What was thrown, by the stream or by its connection. */
  readonly thrown?: unknown;
  /** The code of its RST_STREAM (RFC 9113 §7), received or sent. */
  readonly resetCode?: number | undefined;
  /** Whether the final head was there. */
  readonly isReading: boolean;
  /** Whether it is sure that the origin has not acted on the request. */
  readonly isUnsent: boolean;
}

/** Codes by which either side says that the other one does not speak HTTP/2 as it should. */
const illFramedCodes: ReadonlySet<number | undefined> = new Set([
  constants.NGHTTP2_PROTOCOL_ERROR,
  constants.NGHTTP2_FLOW_CONTROL_ERROR,
  constants.NGHTTP2_FRAME_SIZE_ERROR,
  constants.NGHTTP2_COMPRESSION_ERROR,
]);

/** Names a failure. */
function streamError({ thrown, resetCode, isReading, isUnsent }: StreamFailure): ProxyError {
  if (thrown instanceof ProxyError) return thrown;
  const { code, message } = describe(thrown);
  const parts = [code, message, resetCode === undefined ? undefined : `HTTP/2 code ${resetCode}`];
  const detail = parts.filter((part) => part !== undefined && part !== '').join(': ');
  return new OriginError(codeOf(code, resetCode, isReading), { cause: thrown, detail, isUnsent });
}

function codeOf(code: string | undefined, resetCode: number | undefined, isReading: boolean): ErrorCode {
  if (code === 'ERR_HTTP2_ERROR' || illFramedCodes.has(resetCode)) return 'origin_ill_framed';
  if (code === 'ETIMEDOUT') return 'origin_timeout';
  // With TLS 1.3 an origin refuses a client after the handshake.
  if (code?.startsWith('ERR_SSL_') === true && !isReading) return 'origin_tls_failed';
  return isReading && resetCode === constants.NGHTTP2_NO_ERROR ? 'origin_body_short' : 'origin_reset';
}

function describe(thrown: unknown): { readonly code: string | undefined; readonly message: string | undefined } {
  if (!(thrown instanceof Error)) return { code: undefined, message: undefined };
  return { code: 'code' in thrown ? String(thrown.code) : undefined, message: thrown.message };
}
