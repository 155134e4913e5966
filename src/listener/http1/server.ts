/**
 * Speaks HTTP/1.0 and HTTP/1.1 (RFC 9112) on accepted sockets. Turns heads into exchanges and upgrades into tunnels, and drains its
 * connections at a reload or shutdown. Next: `connection.ts`.
 */

import type { Socket } from 'node:net';
import { errorResponse } from '../../delivery/problem.ts';
import { type Field, type Fields, fieldValue, listMembers } from '../../http/fields.ts';
import type { Delivery, Handler, Hit, Peer, PlainHead } from '../../http/message.ts';
import type { ProxyError } from '../../http/proxy-error.ts';
import type { RequestHead, Tunnel, TunnelClient } from '../listener.ts';
import type { ConnectionServer, ProtocolOptions } from '../protocol.ts';
import { receiveHead } from '../receive.ts';
import type { ParsedHead } from '../request-head.ts';
import { answer, type ResponseContext, respond } from '../respond.ts';
import {
  type After,
  createPeriodicCheck,
  createRateLimits,
  createUploadPace,
  type PeriodicCheck,
  type RateLimits,
  Timeouts,
  unreferencedTimers,
} from '../timeouts.ts';
import { WriteBuffer } from '../write-buffer.ts';
import { Connection, type ConnectionOwner } from './connection.ts';
import { Exchange } from './exchange.ts';
import { HeadParser } from './head-parser.ts';
import { DateLine, formatKeepAlive } from './response-writer.ts';

/** Creates the HTTP/1.0 and HTTP/1.1 server (RFC 9112). */
export function createHttp1Server(options: ProtocolOptions): ConnectionServer {
  return new Http1Server(options);
}

class Http1Server implements ConnectionServer, ConnectionOwner {
  readonly emit: ConnectionOwner['emit'];
  readonly now: () => number;
  readonly after: After;
  readonly limits: ProtocolOptions['limits'];
  readonly timeouts: Timeouts;
  readonly uploadPace: RateLimits;
  readonly writeBuffer = new WriteBuffer();
  readonly dateLine = new DateLine();
  readonly keepAlive: string;
  readonly #options: ProtocolOptions;
  readonly parser: HeadParser;
  readonly pace: RateLimits;
  readonly scheme: 'http' | 'https';
  readonly handler: Handler;
  readonly #context: ResponseContext;
  readonly #connections = new Set<Connection>();
  readonly #rounds: PeriodicCheck;
  #ending: 'none' | 'retiring' | 'draining' = 'none';
  /** Called when the last connection is gone. */
  #onEmpty: (() => void) | undefined;

  constructor(options: ProtocolOptions) {
    const { handler, limits, emit, now, after = unreferencedTimers } = options;
    this.#options = options;
    this.emit = emit;
    this.now = now;
    this.after = after;
    this.limits = limits;
    this.timeouts = new Timeouts(limits);
    this.keepAlive = formatKeepAlive(limits.keepAliveTimeoutMs);
    this.parser = new HeadParser(limits);
    this.pace = createRateLimits({ limits, now, after });
    this.scheme = options.scheme;
    this.handler = handler;
    this.#context = { handler, now, pace: this.pace };
    this.uploadPace = createUploadPace({ limits, now, after });
    this.#rounds = createPeriodicCheck(after, this.timeouts.periodMs, () => this.#look());
  }

  serve(socket: Socket, peer: Peer): void {
    if (socket.destroyed) return;
    const connection = new Connection(socket, peer, this);
    this.#connections.add(connection);
    this.#rounds.begin();
    // The listener leaves the socket paused where it has inspected its first bytes.
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
      const wanted = tunnel !== undefined && connection.isFree ? readUpgrade(parsed, limits.upgrades) : undefined;
      if (tunnel !== undefined && wanted !== undefined && reception.kind === 'received') {
        this.#tunnel(connection, parsed, reception.head, { tunnel, firstBytes: rest, ...wanted });
        return;
      }
      // Bytes after this request could be in the other protocol.
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

  sendFile(connection: Connection, { method, target }: PlainHead, hit: Hit, file: NonNullable<Hit['file']>): void {
    const { status, fields, ageSeconds, cacheStatus, contentRange, more, sizeBytes = 0 } = hit;
    fields.kept ??= fields.lines();
    const lines: Field[] = [...fields.kept, ['age', String(ageSeconds)], ['cache-status', cacheStatus], ...more];
    if (contentRange !== undefined) lines.push(['content-range', contentRange]);
    // No fields are needed: a plain head has no request body, and a file has no trailers.
    const exchange = new Exchange(connection, { method, target, version: '1.1', fields: [] });
    hit.begin();
    const onDelivered = (delivery: Delivery): void => hit.onDelivered(delivery, this.now());
    const body = { kind: 'file', sizeBytes, bytes: file(exchange) } as const;
    respond(exchange, { status, fields: lines, body, onDelivered }, this.#context);
  }

  forget(connection: Connection): void {
    this.#connections.delete(connection);
    if (this.#connections.size === 0) this.#onEmpty?.();
  }

  #refuse(connection: Connection, exchange: Exchange, error: ProxyError): void {
    connection.reportRefusal(error);
    respond(exchange, { ...errorResponse(error), closeConnection: true }, this.#context);
  }

  #tunnel(connection: Connection, parsed: ParsedHead, head: RequestHead, { tunnel, ...parts }: TunnelParts): void {
    connection.becomeTunnel();
    tunnel.open(head, {
      socket: connection.socket,
      connection,
      ...parts,
      answer: (response) => {
        connection.becomeAnswer(response.closeConnection !== true);
        respond(new Exchange(connection, parsed), response, this.#context);
      },
    });
  }

  /** Ends idle connections after one turn of the event loop, in which bytes that have already arrived are read. */
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

interface TunnelParts extends Omit<TunnelClient, 'socket' | 'answer'> {
  readonly tunnel: Tunnel;
}

/** The meaning of a request's Connection field and version. */
interface ConnectionWishes {
  /** Whether the connection ends after the response (RFC 9112 §9.3). */
  readonly isLast: boolean;
  /** Whether the client asks for another protocol (RFC 9110 §7.8). */
  readonly isUpgrade: boolean;
}

const persistent: ConnectionWishes = { isLast: false, isUpgrade: false };
const closing: ConnectionWishes = { isLast: true, isUpgrade: false };

/** Reads Connection. HTTP/1.0 connections persist only with `keep-alive`; `close` overrides everything. */
function readConnectionWishes({ version, fields }: ParsedHead): ConnectionWishes {
  const connection = fieldValue(fields, 'connection');
  if (connection === undefined) return version === '1.1' ? persistent : closing;
  const options = listMembers(connection.toLowerCase());
  return {
    isLast: options.includes('close') || (version === '1.0' && !options.includes('keep-alive')),
    isUpgrade: options.includes('upgrade') && fields.some(([name]) => name === 'upgrade'),
  };
}

/** Checks for a WebSocket handshake (RFC 6455 §4.1). It has no body. */
function isWebSocketHandshake({
  method,
  version,
  fields,
}: Pick<RequestHead, 'method' | 'version' | 'fields'>): boolean {
  if (method !== 'GET' || version !== '1.1' || hasBody(fields)) return false;
  return listMembers(fieldValue(fields, 'upgrade')).some((protocol) => protocol.toLowerCase() === 'websocket');
}

/** The most bytes of content before a tunnel: they are kept in memory until all have come. */
const mostContentBytes = 64 * 1024;

/**
 * Returns the protocol that a request asks for: WebSocket, or the first one that the operator names. Undefined where there is none,
 * or where its content has no known and small length.
 */
export function readUpgrade(
  head: Pick<RequestHead, 'method' | 'version' | 'fields'>,
  upgrades: ReadonlySet<string> = new Set(),
): Pick<TunnelClient, 'protocol' | 'contentBytes'> | undefined {
  if (isWebSocketHandshake(head)) return { protocol: 'websocket', contentBytes: 0 };
  const { method, version, fields } = head;
  if (version !== '1.1' || (method !== 'GET' && method !== 'POST')) return undefined;
  const protocol = listMembers(fieldValue(fields, 'upgrade')).find((name) => upgrades.has(name.toLowerCase()));
  const contentBytes = Number(fieldValue(fields, 'content-length') ?? 0);
  const isSmall = contentBytes <= mostContentBytes && fieldValue(fields, 'transfer-encoding') === undefined;
  return protocol !== undefined && isSmall ? { protocol, contentBytes } : undefined;
}

function hasBody(fields: Fields): boolean {
  return fields.some(([name, value]) => {
    return name === 'transfer-encoding' || (name === 'content-length' && value !== '0');
  });
}
