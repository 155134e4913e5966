/** HTTP/1.x, on sockets. */

import type { Socket } from 'node:net';
import { errorResponse } from '../../delivery/problem.ts';
import type { Handler, Peer } from '../../http/message.ts';
import type { ProxyError } from '../../http/proxy-error.ts';
import type { RequestHead, Tunnel } from '../listener.ts';
import { createPace, createUploadPace, type Pace } from '../pace.ts';
import type { ConnectionServer, ProtocolOptions } from '../protocol.ts';
import { receiveHead } from '../receive.ts';
import { answer, type ResponseContext, respond } from '../respond.ts';
import { createRounds, type Rounds, unreferencedTimers } from '../rounds.ts';
import { Connection, type ConnectionOwner } from './connection.ts';
import { Exchange } from './exchange.ts';
import { HeadParser } from './head-parser.ts';
import { DateLine, formatKeepAlive } from './head-text.ts';
import { Joint } from './joint.ts';
import { Patience } from './patience.ts';
import { isWebSocketHandshake, readConnectionWishes } from './persistence.ts';
import type { ParsedHead } from './request-head.ts';

/** Creates what speaks HTTP/1.0 and HTTP/1.1 (RFC 9112). */
export function createHttp1Server(options: ProtocolOptions): ConnectionServer {
  return new Http1Server(options);
}

class Http1Server implements ConnectionServer, ConnectionOwner {
  readonly emit: ConnectionOwner['emit'];
  readonly now: () => number;
  readonly limits: ProtocolOptions['limits'];
  readonly patience: Patience;
  readonly uploadPace: Pace;
  readonly joint = new Joint();
  readonly dateLine = new DateLine();
  readonly keepAlive: string;
  readonly #options: ProtocolOptions;
  readonly parser: HeadParser;
  readonly pace: Pace;
  readonly scheme: 'http' | 'https';
  readonly handler: Handler;
  readonly #context: ResponseContext;
  readonly #connections = new Set<Connection>();
  readonly #rounds: Rounds;
  #ending: 'none' | 'retiring' | 'draining' = 'none';
  /** Called when the last connection is gone. */
  #onEmpty: (() => void) | undefined;

  constructor(options: ProtocolOptions) {
    const { handler, limits, emit, now, after = unreferencedTimers } = options;
    this.#options = options;
    this.emit = emit;
    this.now = now;
    this.limits = limits;
    this.patience = new Patience(limits);
    this.keepAlive = formatKeepAlive(limits.keepAliveTimeoutMs);
    this.parser = new HeadParser(limits);
    this.pace = createPace({ limits, now, after });
    this.scheme = options.scheme;
    this.handler = handler;
    this.#context = { handler, now, pace: this.pace };
    this.uploadPace = createUploadPace({ limits, now, after });
    this.#rounds = createRounds(after, this.patience.periodMs, () => this.#look());
  }

  serve(socket: Socket, peer: Peer): void {
    if (socket.destroyed) return;
    const connection = new Connection(socket, peer, this);
    this.#connections.add(connection);
    this.#rounds.begin();
    // It is paused where something was read from it before.
    socket.resume();
    if (this.#ending === 'retiring') connection.retire();
    else if (this.#ending === 'draining') this.#drain([connection]);
  }

  retire(): void {
    this.#ending = 'retiring';
    for (const connection of this.#connections) connection.retire();
  }

  drain(): void {
    this.#ending = 'draining';
    this.#drain([...this.#connections]);
  }

  cut(): number {
    let count = 0;
    for (const connection of this.#connections) {
      if (!connection.isIdle && !connection.isEnded) count += 1;
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

  take(connection: Connection, parsed: ParsedHead, rest: Buffer): void {
    const { scheme, tunnel } = this.#options;
    const { limits, now } = this;
    const { isLast, isUpgrade } = readConnectionWishes(parsed);
    const reception = receiveHead(parsed, { scheme, peer: connection.peer, receivedAt: now(), limits });
    if (isUpgrade) {
      const mayTunnel = tunnel !== undefined && connection.isFree && isWebSocketHandshake(parsed);
      if (mayTunnel && reception.kind === 'received') {
        this.#tunnel(connection, parsed, reception.head, { tunnel, firstBytes: rest });
        return;
      }
      // What comes after it could be meant in the other protocol.
      connection.finishAfterNext();
    }
    const exchange = new Exchange(connection, parsed);
    if (isLast) connection.finish();
    if (reception.kind === 'refused') {
      this.#refuse(connection, exchange, reception.error);
      return;
    }
    const { head, framing } = reception;
    const request = exchange.receive(head, framing, limits);
    answer(exchange, request, this.#context);
  }

  forget(connection: Connection): void {
    this.#connections.delete(connection);
    if (this.#connections.size === 0) this.#onEmpty?.();
  }

  #refuse(connection: Connection, exchange: Exchange, error: ProxyError): void {
    connection.reportRefusal(error);
    respond(exchange, { ...errorResponse(error), closeConnection: true }, this.#context);
  }

  #tunnel(connection: Connection, parsed: ParsedHead, head: RequestHead, { tunnel, firstBytes }: TunnelParts): void {
    connection.becomeTunnel();
    tunnel.open(head, {
      socket: connection.socket,
      firstBytes,
      answer: (response) => {
        connection.becomeAnswer();
        respond(new Exchange(connection, parsed), response, this.#context);
      },
    });
  }

  /** What has arrived already is read before a connection counts as idle: one turn of the event loop. */
  #drain(connections: readonly Connection[]): void {
    for (const connection of connections) connection.drain();
    setImmediate(() =>
      setImmediate(() => {
        for (const connection of connections) if (connection.isIdle) connection.end();
      }),
    );
  }

  #look(): boolean {
    for (const connection of this.#connections) connection.look();
    return this.#connections.size > 0;
  }
}

interface TunnelParts {
  readonly tunnel: Tunnel;
  /** What the client has sent after its handshake. */
  readonly firstBytes: Buffer;
}
