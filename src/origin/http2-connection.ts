/** One HTTP/2 connection to an origin, and the requests that share it. */

import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../http/clock.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { Exchange } from './exchange.ts';
import { streamError } from './http2-error.ts';
import { http2Fields } from './http2-fields.ts';
import { OriginStream, type StreamSurroundings } from './http2-stream.ts';
import { sendBody } from './http2-upload.ts';
import type { OriginRequest, OriginResponse } from './origin.ts';

/** How a connection behaves. */
export interface Http2ConnectionOptions {
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

  /** Sends a request, as `Origin.fetch` does. `onOver` is as that of `Exchange`. */
  fetch(request: OriginRequest, onOver: () => void): Promise<OriginResponse> {
    const exchange = new Exchange(request, { isTls: true, version: '2' }, onOver);
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

  #send(request: OriginRequest, exchange: Exchange): void {
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
