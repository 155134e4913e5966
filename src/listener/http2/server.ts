/** Speaks HTTP/2 (RFC 9113) on accepted sockets. Next: `connection.ts`. */

import type { Socket } from 'node:net';
import { errorResponse } from '../../delivery/problem.ts';
import { clientName } from '../../guard/client.ts';
import { LeakyBuckets } from '../../guard/limits/rate-limit.ts';
import type { Peer, ProxyRequest } from '../../http/message.ts';
import type { ProxyError } from '../../http/proxy-error.ts';
import { type UnreadContent, unreadContent } from '../message-body.ts';
import type { ConnectionServer, ProtocolOptions } from '../protocol.ts';
import { answer, type ResponseContext, respond } from '../respond.ts';
import {
  createPeriodicCheck,
  createRateLimits,
  createUploadPace,
  type PeriodicCheck,
  type RateLimits,
  roundPeriod,
  unreferencedTimers,
} from '../timeouts.ts';
import { WriteBuffer } from '../write-buffer.ts';
import { Http2Connection, type Http2Requests } from './connection.ts';
import type { Http2Exchange } from './exchange.ts';

/** Bounds of the period between two checks of the connections, in milliseconds. */
const period = { least: 20, most: 1_000 };

/**
 * Allowed resets of all connections of one client: a burst, and 400 a second. Each costs as much as a miss, also where every
 * connection has few of them. In milliseconds of debt for each.
 */
const mostResets = 600;
const msPerReset = 1000 / 400;

/**
 * Creates the HTTP/2 server (RFC 9113), over TLS and in cleartext with prior knowledge (§3.3). Extended CONNECT (RFC 8441) is not
 * offered.
 */
export function createHttp2Server(options: ProtocolOptions): ConnectionServer {
  return new Http2Server(options);
}

class Http2Server implements ConnectionServer, Http2Requests {
  readonly pace: RateLimits;
  readonly uploadPace: RateLimits;
  readonly writeBuffer = new WriteBuffer();
  readonly unread: UnreadContent;
  readonly #options: ProtocolOptions;
  readonly #context: ResponseContext;
  readonly #connections = new Set<Http2Connection>();
  readonly #rounds: PeriodicCheck;
  /** Streams that ended before their response, by client, as time debts. */
  readonly #resets: LeakyBuckets;
  #isDraining = false;
  /** Called when the last connection is gone. */
  #onEmpty: (() => void) | undefined;

  constructor(options: ProtocolOptions) {
    const { handler, limits, now, after = unreferencedTimers } = options;
    const { headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs, idleTimeoutMs } = limits;
    const timeouts = [headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs, idleTimeoutMs];
    this.#options = options;
    this.unread = options.unread ?? unreadContent;
    this.pace = createRateLimits({ limits, now, after });
    this.#context = { handler, now, pace: this.pace };
    this.#resets = new LeakyBuckets({ maxNames: 10_000, now });
    this.uploadPace = createUploadPace({ limits, now, after });
    this.#rounds = createPeriodicCheck(after, roundPeriod(timeouts, period), () => this.#look());
  }

  serve(socket: Socket, peer: Peer): void {
    if (socket.destroyed) return;
    const connection = new Http2Connection(socket, peer, this.#options, this);
    this.#connections.add(connection);
    this.#rounds.begin();
    socket.once('close', () => {
      this.#connections.delete(connection);
      if (this.#connections.size === 0) this.#onEmpty?.();
    });
    if (this.#isDraining) connection.drain();
  }

  /** The same as `drain`: GOAWAY tells the client which requests were not taken (RFC 9113 §6.8), so that none is lost. */
  retire(): void {
    this.drain();
  }

  drain(): void {
    this.#isDraining = true;
    for (const connection of this.#connections) connection.drain();
  }

  cut(): number {
    let count = 0;
    for (const connection of this.#connections) {
      if (connection.isBusy) count += 1;
      connection.cut();
    }
    return count;
  }

  async close(): Promise<void> {
    const emptied = Promise.withResolvers<void>();
    this.#onEmpty = emptied.resolve;
    if (this.#connections.size > 0) await emptied.promise;
    this.#rounds.end();
  }

  take(exchange: Http2Exchange, request: ProxyRequest): void {
    answer(exchange, request, this.#context);
  }

  noteReset(address: string): boolean {
    const client = clientName(address);
    this.#resets.add(client, msPerReset);
    return this.#resets.of(client) > mostResets * msPerReset;
  }

  refuse(exchange: Http2Exchange, error: ProxyError): void {
    respond(exchange, errorResponse(error), this.#context);
  }

  #look(): boolean {
    const now = this.#options.now();
    for (const connection of this.#connections) connection.look(now);
    return this.#connections.size > 0;
  }
}
