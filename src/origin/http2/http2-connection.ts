/**
 * One HTTP/2 connection to an origin, and its streams (RFC 9113). Sends the fields and the body of a request, reports the events of
 * a stream to its exchange, and converts errors of streams and connections to `ProxyError`.
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

/** The options of a connection. */
interface Http2ConnectionOptions {
  /** The origin's own authority, for requests without Host. */
  readonly authority: string;
  /** The maximum time from a request's last byte to the final head; each interim response restarts it. */
  readonly headersTimeoutMs: number;
  /** The maximum time between two pieces of a body, while the body is read. */
  readonly bodyTimeoutMs: number;
  /** How long the connection is kept without a request. */
  readonly keepAliveTimeoutMs: number;
  /** How long the connection takes requests; Infinity for no limit. */
  readonly maxAgeMs: number;
  readonly clock: Clock;
  /** Called when the number of free streams may have changed, and when the connection takes no more requests. */
  readonly onChange: () => void;
  /** Called when the origin refuses HTTP/2 for a request (HTTP_1_1_REQUIRED, RFC 9113 §7). */
  readonly onHttp1Required: () => void;
}

/** The maximum number of requests at a time, whatever the origin allows. */
const maxStreams = 100;

/** The flow-control windows. That of a stream limits the bytes for a reader that does not read. That of the connection never pauses it. */
const windowBytes = 256 * 1024;
const connectionWindowBytes = 16 * 1024 * 1024;

/** The largest head that is read, in bytes and in lines; a larger one resets its stream. */
const maxHeadBytes = 64 * 1024;
const maxHeadLines = 2000;

/** A connection that is ready to use. Once it is retired, it takes no more requests. */
export class OriginHttp2Connection {
  readonly #session: ClientHttp2Session;
  readonly #options: Http2ConnectionOptions;
  readonly #surroundings: StreamSurroundings;
  #openStreams = 0;
  #isRetired = false;
  /** The last stream that the origin may have acted on (GOAWAY, RFC 9113 §6.8). */
  #lastStream = Number.POSITIVE_INFINITY;
  /** The error of the whole connection. */
  #failure: Error | undefined;
  #stopIdling: (() => void) | undefined;
  #stopAging: (() => void) | undefined;

  constructor(socket: TLSSocket, options: Http2ConnectionOptions) {
    this.#options = options;
    this.#surroundings = {
      headersTimeoutMs: options.headersTimeoutMs,
      bodyTimeoutMs: options.bodyTimeoutMs,
      nameError: (stream, thrown, isReading) => this.#nameError(stream, thrown, isReading),
      // The connection may have ended without a sign, so later requests take another one.
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
    const { maxAgeMs, clock } = options;
    if (maxAgeMs !== Number.POSITIVE_INFINITY) this.#stopAging = clock.after(maxAgeMs, () => this.retire());
  }

  /** The number of requests that may be sent now. */
  get freeStreams(): number {
    if (this.#isRetired || this.#session.closed || this.#session.destroyed) return 0;
    return this.streams - this.#openStreams;
  }

  /** The number of requests that the connection carries at a time. */
  get streams(): number {
    const allowed = this.#session.remoteSettings.maxConcurrentStreams ?? maxStreams;
    // Where the origin allows none for now, one request is sent all the same, so that a long wait ends with its timeout.
    return Math.max(1, Math.min(maxStreams, allowed));
  }

  get isRetired(): boolean {
    return this.#isRetired;
  }

  /** Whether the connection and all of its streams are gone. */
  get isClosed(): boolean {
    return this.#session.destroyed;
  }

  /** Sends a request, as `Origin.fetch` does. `onOver` as in `OriginExchange`. */
  fetch(request: OriginRequest, onOver: () => void): Promise<OriginResponse> {
    const exchange = new OriginExchange(request, { isTls: true, version: '2' }, onOver);
    exchange.connection = this;
    if (!request.signal.aborted) this.#send(request, exchange);
    return exchange.response;
  }

  /** Takes no more requests, and closes when the requests under way are over. */
  retire(): void {
    if (this.#isRetired) return;
    this.#isRetired = true;
    this.#stopIdling?.();
    this.#stopAging?.();
    if (!this.#session.closed) this.#session.close();
    this.#options.onChange();
  }

  /** Cuts the requests under way. */
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

  /** Counts a stream while it is open. */
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

/** The parts of a connection that its streams use. */
interface StreamSurroundings {
  readonly headersTimeoutMs: number;
  readonly bodyTimeoutMs: number;
  /** Returns the error that ended a stream before its response was complete. */
  nameError(stream: ClientHttp2Stream, thrown: unknown, isReading: boolean): ProxyError;
  /** Called when a stream has timed out. */
  onSilence(): void;
}

type Head = IncomingHttpHeaders & IncomingHttpStatusHeader;

/** Reports the events of a stream to its exchange, with exactly one end. */
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

  /** Ends the stream with an error; a response that has begun is incomplete. */
  fail(error: unknown): void {
    if (this.#isOver) return;
    this.#exchange.onResponseError(this.#control, error);
    this.#cut();
  }

  #receive(head: Head, lines: readonly string[]): void {
    if (this.#isOver) return;
    const status = head[':status'] ?? 0;
    if (this.#isReading) {
      this.fail(new ProxyError('origin_ill_framed', { detail: 'a head after the final one' }));
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

  /** The origin is not silent while the client is slow to send the request's body, and all bytes so far are written. */
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

  /** A stream that was reset ends too; its `close` event reports that. */
  #end(): void {
    if (this.#isOver || !this.#isReading || !this.#isWhole()) return;
    this.#isOver = true;
    this.#exchange.onResponseEnd(this.#control);
    // The response is complete, so the rest of the request's body is not needed (RFC 9113 §8.1).
    if (!this.#stream.writableEnded) this.#stream.close(constants.NGHTTP2_CANCEL);
  }

  /** There is no timeout while paused: flow control holds the origin back (RFC 9113 §5.2). */
  #pause(): void {
    this.#stream.pause();
    this.#stream.setTimeout(0);
  }

  #resume(): void {
    if (this.#isOver) return;
    this.#stream.setTimeout(this.#surroundings.bodyTimeoutMs);
    this.#stream.resume();
  }

  /** Resets the stream, not the connection, and frees its memory at once. */
  #cut(): void {
    this.#isOver = true;
    if (!this.#stream.closed) this.#stream.close(constants.NGHTTP2_CANCEL);
    this.#stream.destroy();
  }
}

/**
 * Returns a function that tells whether END_STREAM ended the stream. Node ends a stream that was reset with NO_ERROR alike, and does
 * not report the difference. Only the order shows it: a reset closes the stream before the end is pushed, END_STREAM does not.
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

/** Names and values in turn, without pseudo-header fields. */
function withoutPseudoFields(lines: readonly string[]): string[] {
  const kept: string[] = [];
  for (let at = 0; at + 1 < lines.length; at += 2) {
    const name = lines[at] ?? '';
    if (!name.startsWith(':')) kept.push(name, lines[at + 1] ?? '');
  }
  return kept;
}

/**
 * Writes a body as fast as the origin takes it (RFC 9113 §5.2), and then ends the stream. Never rejects. Where the body breaks off,
 * or has another length than stated, the stream is not ended, and `onError` is called.
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
 * Hop-by-hop fields, which HTTP/2 does not have (RFC 9113 §8.2.2), and fields that the connection writes itself. Expect is left out
 * as over HTTP/1.1.
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
 * Makes the pseudo-header fields (RFC 9113 §8.3.1), with the value of Host as `:authority`, and the other fields. Lines of one name are
 * joined (RFC 9110 §5.3), those of Cookie by RFC 9113 §8.2.3. Throws `malformed_request` for characters that must not be sent, such as
 * a line break, which HTTP/2 would carry to an HTTP/1.1 origin behind a gateway. Throws `fields_too_large` above `maxHeadBytes`.
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

/** The facts about a stream that has failed. */
interface StreamFailure {
  /** The error of the stream or of its connection. */
  readonly thrown?: unknown;
  /** The code of its RST_STREAM (RFC 9113 §7), received or sent. */
  readonly resetCode?: number | undefined;
  /** Whether the final head had arrived. */
  readonly isReading: boolean;
  /** Whether it is certain that the origin has not acted on the request. */
  readonly isUnsent: boolean;
}

/** Codes by which either side reports that the other one violates HTTP/2. */
const illFramedCodes: ReadonlySet<number | undefined> = new Set([
  constants.NGHTTP2_PROTOCOL_ERROR,
  constants.NGHTTP2_FLOW_CONTROL_ERROR,
  constants.NGHTTP2_FRAME_SIZE_ERROR,
  constants.NGHTTP2_COMPRESSION_ERROR,
]);

/** Converts a failure to a `ProxyError`. */
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
