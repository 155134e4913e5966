/** An origin over HTTP/2 where its server offers that, and over HTTP/1.1 otherwise. Read this file first. */

import type { TLSSocket } from 'node:tls';
import type { Clock } from '../../http/clock.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import { ConnectionQueue, type Turn } from '../connection-queue.ts';
import { goneError } from '../exchange.ts';
import type { ConnectedOrigin, OriginRequest, OriginResponse } from '../origin.ts';
import { OriginError, originError } from '../origin-error.ts';
import { createAlpnDialer, createUndiciOrigin, refuseUnsendable, type UndiciOriginOptions } from '../undici-origin.ts';
import { Http2Connection } from './http2-connection.ts';

/** An origin's options, and the time. */
export interface Http2OriginOptions extends UndiciOriginOptions {
  readonly clock: Clock;
}

/** How long an origin that did not offer HTTP/2 is not asked for it again, in milliseconds. */
const http1Ms = 10 * 60 * 1000;

/** How long a connection is kept without a request that was opened after the origin was retired, in milliseconds. */
const retiredKeepAliveMs = 500;

/** A request that waits for a stream. */
interface Waiting {
  readonly isGone: () => boolean;
  proceed(): void;
  fail(error: ProxyError): void;
}

/**
 * Speaks HTTP/2 (RFC 9113) with an `https:` origin that takes it by ALPN (§3.3): many requests over few connections, each
 * opened when those that are there are full. `connections` is the most of them; besides there are those that the origin is
 * closing while something is still under way on them, as many again at most. A client has at most as many streams as
 * `connectionsPerClient` connections carry.
 *
 * It does not use undici, which can do this too: there the body of a stream that was reset with NO_ERROR counts as whole, lines
 * of a field are not told apart, and requests that wait for a first connection each wait for a failure of their own.
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
  /** How many requests one connection carries, as far as the origin has said so. */
  #streamsPerConnection = 1;
  /** Connections of which it turned out that they speak HTTP/1.1. */
  readonly #spares: TLSSocket[] = [];
  #connections: Http2Connection[] = [];
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
    // How many streams there are is for the connections to say: this one only keeps clients to their shares.
    this.#queue = new ConnectionQueue({
      connections: Number.POSITIVE_INFINITY,
      perClient: () => options.connectionsPerClient * this.#streamsPerConnection,
    });
  }

  async fetch(request: OriginRequest): Promise<OriginResponse> {
    refuseUnsendable(request);
    const turn = this.#queue.join(request.errand);
    try {
      await whenBegun(turn, request.signal);
      for (;;) {
        if (this.#isClosed) throw new ProxyError('internal', { detail: 'the origin was closed' });
        if (this.#options.clock.now() < this.#http1UntilAt) break;
        const connection = this.#select();
        if (connection !== undefined) return await connection.fetch(request, () => turn.leave());
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

  /** The connection with the most room. */
  #select(): Http2Connection | undefined {
    let best: Http2Connection | undefined;
    for (const connection of this.#connections) {
      if (connection.freeStreams > (best?.freeStreams ?? 0)) best = connection;
    }
    return best;
  }

  /** Waits for room, for another connection, or for the news that this is no HTTP/2. */
  #wait(signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = () => reject(goneError(signal));
    if (signal.aborted) leave();
    signal.addEventListener('abort', leave, { once: true });
    this.#waiting.push({ isGone: () => signal.aborted, proceed: resolve, fail: reject });
    this.#openMore();
    return promise.finally(() => signal.removeEventListener('abort', leave));
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
      // Where there are other connections, there will be room on them.
      if (this.#usable().length === 0) for (const waiting of this.#waiting.splice(0)) waiting.fail(error);
    }
  }

  #usable(): readonly Http2Connection[] {
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
      const connection = new Http2Connection(socket, {
        authority: this.#authority,
        headersTimeoutMs,
        bodyTimeoutMs,
        keepAliveTimeoutMs: this.#isRetired ? Math.min(retiredKeepAliveMs, keepAliveTimeoutMs) : keepAliveTimeoutMs,
        clock,
        onChange: () => this.#change(),
        onHttp1Required: () => this.#speakHttp1(),
      });
      if (connection.freeStreams < 1) {
        throw new OriginError('origin_reset', { detail: 'the connection ended as it began', isUnsent: true });
      }
      this.#connections.push(connection);
    }
  }

  #speakHttp1(): void {
    this.#http1UntilAt = this.#options.clock.now() + http1Ms;
  }

  /** A connection has more room, or less. */
  #change(): void {
    const usable = this.#usable();
    if (usable.length > 0) this.#streamsPerConnection = Math.min(...usable.map(({ streams }) => streams));
    this.#proceed();
    this.#queue.proceed();
  }

  /** Lets as many go on as there is room for; all, where there is another way. */
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

/** Waits for a turn. Rejects with `ProxyError` when the signal is aborted before. */
function whenBegun(turn: Turn, signal: AbortSignal): Promise<void> | undefined {
  let isBegun = false;
  let onBegun = (): void => {
    isBegun = true;
  };
  turn.begin(() => onBegun());
  if (isBegun) return undefined;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const leave = () => reject(goneError(signal));
  onBegun = resolve;
  if (signal.aborted) leave();
  signal.addEventListener('abort', leave, { once: true });
  return promise.finally(() => signal.removeEventListener('abort', leave));
}
