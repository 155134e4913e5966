/** An origin over HTTP/2 where its server offers it, and over HTTP/1.1 otherwise. Read this file first, then `http2-connection.ts`. */

import type { TLSSocket } from 'node:tls';
import type { Clock } from '../../http/clock.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import { hasConnectionCredentials } from '../../semantics/connection-auth.ts';
import { ConnectionQueue, noPlace, type Turn } from '../connection-queue.ts';
import { abortError } from '../exchange.ts';
import type { ConnectedOrigin, OriginRequest, OriginResponse, OriginUse } from '../origin.ts';
import { OriginError, originError } from '../origin-error.ts';
import {
  createAlpnDialer,
  createUndiciOrigin,
  hasOwnAddress,
  maxConnectionAgeMs,
  queueRules,
  refuseUnsendable,
  type UndiciOriginOptions,
} from '../undici-origin.ts';
import { OriginHttp2Connection } from './http2-connection.ts';

/** The options of an origin over HTTP/2. */
export interface Http2OriginOptions extends UndiciOriginOptions {
  readonly clock: Clock;
}

/** How long HTTP/2 is not offered again to an origin that did not accept it, in milliseconds. */
const http1Ms = 10 * 60 * 1000;

/** How long a connection that was opened after `retire` is kept without a request, in milliseconds. */
const retiredKeepAliveMs = 500;

/** A request that waits for a stream. */
interface Waiting {
  readonly isGone: () => boolean;
  proceed(): void;
  fail(error: ProxyError): void;
}

/**
 * Creates an origin that speaks HTTP/2 (RFC 9113) with an `https:` server that selects it by ALPN (§3.2). Many requests share few
 * connections; a connection is opened when the existing ones are full. `connections` is their maximum number. At most as many again
 * are being closed by the origin while requests on them are still under way. A client has at most as many streams as
 * `connectionsPerClient` connections carry.
 *
 * undici's own HTTP/2 is not used: there the body of a stream that was reset with NO_ERROR counts as complete, the lines of a field
 * are not kept apart, and each request that waits for a first connection waits for a failure of its own.
 */
export function createHttp2Origin(options: Http2OriginOptions): ConnectedOrigin {
  return new AlpnOrigin(options);
}

class AlpnOrigin implements ConnectedOrigin {
  readonly #options: Http2OriginOptions;
  readonly #authority: string;
  readonly #dial: () => Promise<TLSSocket>;
  readonly #http1: ConnectedOrigin;
  readonly #queue: ConnectionQueue;
  /** The number of requests that one connection carries, as far as the origin has stated it. */
  #streamsPerConnection = 1;
  /** Connections that turned out to speak HTTP/1.1. */
  readonly #spares: TLSSocket[] = [];
  #connections: OriginHttp2Connection[] = [];
  #waiting: Waiting[] = [];
  #isDialing = false;
  #isClosed = false;
  #isRetired = false;
  #http1UntilAt = Number.NEGATIVE_INFINITY;

  constructor(options: Http2OriginOptions) {
    this.#options = options;
    this.#authority = new URL(options.url).host;
    this.#dial = createAlpnDialer(options);
    this.#http1 = createUndiciOrigin(options, { take: () => this.#takeSpare() });
    // The connections limit the number of streams. The queue only keeps clients to their shares.
    this.#queue = new ConnectionQueue(queueRules(options, () => this.#streamsPerConnection));
  }

  async fetch(request: OriginRequest): Promise<OriginResponse> {
    refuseUnsendable(request);
    // Many requests share a connection of HTTP/2, so none can be authenticated.
    if (request.owner !== undefined || hasConnectionCredentials(request.fields))
      return await this.#http1.fetch(request);
    const turn = this.#queue.join(request.charged);
    try {
      await whenBegun(turn, request.signal);
      for (;;) {
        if (this.#isClosed) throw new ProxyError('internal', { detail: 'the origin was closed' });
        if (this.#options.clock.now() < this.#http1UntilAt) break;
        const connection = this.#select();
        if (connection !== undefined) {
          const response = await connection.fetch(request, () => turn.leave());
          turn.answered();
          return response;
        }
        await this.#wait(request.signal);
      }
    } catch (thrown) {
      turn.leave();
      request.body?.close();
      throw thrown;
    }
    turn.leave();
    return this.#http1.fetch(request);
  }

  get use(): OriginUse {
    const streams = this.#queue.use;
    const { use = streams } = this.#http1;
    return {
      streams: streams.streams + use.streams,
      fills: streams.fills + use.fills,
      unanswered: streams.unanswered + use.unanswered,
      waiting: streams.waiting + use.waiting + this.#waiting.length,
    };
  }

  retire(): void {
    this.#isRetired = true;
    for (const connection of this.#connections) connection.retire();
    for (const socket of this.#spares) socket.destroy();
    this.#http1.retire();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const connection of this.#connections) connection.destroy();
    for (const socket of this.#spares) socket.destroy();
    for (const waiting of this.#waiting.splice(0)) waiting.proceed();
    await this.#http1.close();
  }

  /** The connection with the most free streams; undefined where all are full. */
  #select(): OriginHttp2Connection | undefined {
    let best: OriginHttp2Connection | undefined;
    for (const connection of this.#connections) {
      if (connection.freeStreams > (best?.freeStreams ?? 0)) best = connection;
    }
    return best;
  }

  /** Waits for a free stream, for another connection, or until the origin turns out not to speak HTTP/2. */
  #wait(signal: AbortSignal): Promise<void> {
    const { patience, onWait, connections } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let isGone = false;
    const fail = (error: Error) => {
      isGone = true;
      reject(error);
    };
    const leave = () => fail(abortError(signal));
    if (signal.aborted) leave();
    signal.addEventListener('abort', leave, { once: true });
    if (this.#usable().length >= connections)
      onWait?.({ limit: 'connections', most: connections, use: () => this.use });
    const stopTimer = patience?.clock.after(patience.waitMs, () => fail(noPlace(connections, patience.waitMs)));
    this.#waiting.push({ isGone: () => isGone, proceed: resolve, fail });
    this.#openMore();
    return promise.finally(() => {
      stopTimer?.();
      signal.removeEventListener('abort', leave);
    });
  }

  #openMore(): void {
    if (this.#waiting.length === 0 || this.#isDialing || this.#isClosed) return;
    const { connections } = this.#options;
    if (this.#usable().length < connections && this.#connections.length < 2 * connections) void this.#open();
  }

  async #open(): Promise<void> {
    this.#isDialing = true;
    try {
      this.#take(await this.#dial());
      this.#isDialing = false;
      this.#proceed();
    } catch (thrown) {
      this.#isDialing = false;
      const error = originError(thrown, 'connecting', true);
      // Other connections will have free streams.
      if (this.#usable().length === 0) for (const waiting of this.#waiting.splice(0)) waiting.fail(error);
    }
  }

  #usable(): readonly OriginHttp2Connection[] {
    return this.#connections.filter((connection) => !connection.isRetired);
  }

  #take(socket: TLSSocket): void {
    if (this.#isClosed) socket.destroy();
    else if (socket.alpnProtocol !== 'h2') {
      this.#speakHttp1();
      this.#spares.push(socket);
      socket.once('close', () => this.#drop(socket));
    } else {
      const { clock, headersTimeoutMs, bodyTimeoutMs, keepAliveTimeoutMs } = this.#options;
      const connection = new OriginHttp2Connection(socket, {
        authority: this.#authority,
        headersTimeoutMs,
        bodyTimeoutMs,
        keepAliveTimeoutMs: this.#isRetired ? Math.min(retiredKeepAliveMs, keepAliveTimeoutMs) : keepAliveTimeoutMs,
        maxAgeMs: hasOwnAddress(new URL(this.#options.url)) ? Number.POSITIVE_INFINITY : maxConnectionAgeMs,
        clock,
        onChange: () => this.#change(),
        onHttp1Required: () => this.#speakHttp1(),
      });
      if (connection.freeStreams < 1) {
        throw new OriginError('origin_reset', { detail: 'the connection ended right after it opened', isUnsent: true });
      }
      this.#connections.push(connection);
    }
  }

  #speakHttp1(): void {
    this.#http1UntilAt = this.#options.clock.now() + http1Ms;
  }

  /** Called when a connection has more free streams, or fewer. */
  #change(): void {
    const usable = this.#usable();
    if (usable.length > 0) this.#streamsPerConnection = Math.min(...usable.map(({ streams }) => streams));
    this.#proceed();
    this.#queue.proceed();
  }

  /** Lets as many waiting requests go on as there are free streams; all of them where HTTP/1.1 is used instead. */
  #proceed(): void {
    this.#connections = this.#connections.filter((connection) => !connection.isClosed);
    this.#waiting = this.#waiting.filter((waiting) => !waiting.isGone());
    if (this.#waiting.length === 0) return;
    const isHttp1 = this.#options.clock.now() < this.#http1UntilAt;
    const room = this.#connections.reduce((sum, { freeStreams }) => sum + Math.max(0, freeStreams), 0);
    for (const waiting of this.#waiting.splice(0, isHttp1 ? this.#waiting.length : room)) waiting.proceed();
    this.#openMore();
  }

  #takeSpare(): TLSSocket | undefined {
    const socket = this.#spares.shift();
    return socket === undefined || socket.destroyed ? undefined : socket;
  }

  #drop(socket: TLSSocket): void {
    const at = this.#spares.indexOf(socket);
    if (at !== -1) this.#spares.splice(at, 1);
  }
}

/** Waits for a turn; undefined where it begins at once. Throws or rejects with `ProxyError`: where the signal is aborted before, or with a refusal. */
function whenBegun(turn: Turn, signal: AbortSignal): Promise<void> | undefined {
  let isBegun = false;
  let refused: ProxyError | undefined;
  let onBegun = (refusal?: ProxyError): void => {
    isBegun = true;
    refused = refusal;
  };
  turn.begin((refusal) => onBegun(refusal));
  if (refused !== undefined) throw refused;
  if (isBegun) return undefined;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const leave = () => reject(abortError(signal));
  onBegun = (refusal) => (refusal === undefined ? resolve() : reject(refusal));
  if (signal.aborted) leave();
  signal.addEventListener('abort', leave, { once: true });
  return promise.finally(() => signal.removeEventListener('abort', leave));
}
