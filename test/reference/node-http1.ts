/** HTTP/1.x on Node's own server, the reference for our server. Read this first, then `node-connection.ts` and `node-exchange.ts`. */

import { createServer, type IncomingMessage, type Server, type ServerOptions, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { errorResponse } from '../../src/delivery/problem.ts';
import { listMembers } from '../../src/http/fields.ts';
import type { Peer } from '../../src/http/message.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import type { ListenerLimits } from '../../src/listener/listener.ts';
import type { ConnectionServer, ProtocolOptions } from '../../src/listener/protocol.ts';
import { methodError, parseFields, type Reception, receiveHead, refused } from '../../src/listener/receive.ts';
import { answer, type ResponseContext, respond } from '../../src/listener/respond.ts';
import { createRateLimits, unreferencedTimers } from '../../src/listener/timeouts.ts';
import { Connection } from './node-connection.ts';
import { Exchange } from './node-exchange.ts';
import { type ClientError, readParserError } from './parser-error.ts';

/** Bounds of the interval at which Node looks for slow requests, in milliseconds. */
const longestCheckMs = 5_000;
const shortestCheckMs = 20;

/** Creates a server of HTTP/1.0 and HTTP/1.1 (RFC 9112). */
export function createNodeHttp1Server(options: ProtocolOptions): ConnectionServer {
  return new NodeHttp1Server(options);
}

class NodeHttp1Server implements ConnectionServer {
  readonly #options: ProtocolOptions;
  /** Owns no port: connections are passed to it. */
  readonly #server: Server;
  readonly #connections = new Map<Duplex, Connection>();
  readonly #context: ResponseContext;
  #ending: 'none' | 'retiring' | 'draining' = 'none';
  /** Called when the last connection is gone. */
  #onEmpty: (() => void) | undefined;

  constructor(options: ProtocolOptions) {
    this.#options = options;
    const { handler, limits, now, after = unreferencedTimers } = options;
    this.#context = { handler, now, pace: createRateLimits({ limits, now, after }) };
    this.#server = createServer(serverOptions(options.limits, (message) => this.#shouldTunnel(message)));
    // Node would silently drop fields above its limit; receiveHead counts them.
    this.#server.maxHeadersCount = 0;
    this.#server.timeout = options.limits.idleTimeoutMs;
    this.#server.on('request', (message, response) => this.#receive(message, response, false));
    this.#server.on('checkContinue', (message, response) => this.#receive(message, response, true));
    // Node would answer an unknown expectation by itself, with another response.
    this.#server.on('checkExpectation', (message, response) => this.#receive(message, response, false));
    this.#server.on('upgrade', (message, socket, head) => this.#tunnel(message, socket, head));
    this.#server.on('connect', (_message, socket) => this.#refuseConnect(socket));
    this.#server.on('clientError', (error: ClientError, socket) => this.#refuse(error, socket));
    this.#server.on('timeout', (socket) => this.#timeOut(socket));
    // Starts Node's search for slow requests. A server that owns a port starts it when it listens.
    this.#server.emit('listening');
  }

  serve(socket: Socket, peer: Peer): void {
    if (socket.destroyed) return;
    this.#server.emit('connection', socket);
    const connection = new Connection(socket, peer, this.#options);
    this.#connections.set(socket, connection);
    socket.once('close', () => {
      this.#connections.delete(socket);
      if (this.#connections.size === 0) this.#onEmpty?.();
    });
    if (socket.isPaused()) socket.resume();
    if (this.#ending === 'retiring') connection.retire();
    else if (this.#ending === 'draining') this.#drain([connection]);
  }

  retire(): void {
    this.#ending = 'retiring';
    for (const connection of this.#connections.values()) connection.retire();
  }

  drain(): void {
    this.#ending = 'draining';
    this.#drain([...this.#connections.values()]);
  }

  cut(): number {
    let count = 0;
    for (const connection of this.#connections.values()) {
      if (!connection.isIdle && !connection.isEnded) count += 1;
      connection.cut();
    }
    return count;
  }

  async close(): Promise<void> {
    const emptied = Promise.withResolvers<void>();
    this.#onEmpty = emptied.resolve;
    if (this.#connections.size > 0) await emptied.promise;
    // Stops the search for slow requests. Called earlier, it would destroy connections whose last response is not sent yet.
    this.#server.close();
  }

  /** Drains connections. Bytes that have arrived are read before a connection counts as idle, which takes a turn of the event loop. */
  #drain(connections: readonly Connection[]): void {
    for (const connection of connections) connection.drain();
    setImmediate(() =>
      setImmediate(() => {
        for (const connection of connections) if (connection.isIdle) connection.end();
      }),
    );
  }

  #receive(message: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void {
    const connection = this.#connections.get(message.socket);
    if (connection?.isOpen !== true) {
      connection?.ignore(message);
      return;
    }
    const reception = this.#receiveHead(message, connection);
    const exchange = new Exchange({ connection, message, response, expectsContinue });
    if (reception.kind === 'refused') this.#answerRefusal(connection, exchange, reception.error);
    else answer(exchange, exchange.receive(reception.head, reception.framing), this.#context);
  }

  #receiveHead(message: IncomingMessage, { peer }: Connection): Reception {
    const { scheme, limits, now } = this.#options;
    const version = message.httpVersion;
    if (version !== '1.1' && version !== '1.0') return refused('malformed_request', `HTTP/${version}`);
    const { method = '', url: target = '' } = message;
    const parsed = { method, target, version, fields: parseFields(message.rawHeaders) } as const;
    return receiveHead(parsed, { scheme, peer, receivedAt: now(), limits });
  }

  #answerRefusal(connection: Connection, exchange: Exchange, error: ProxyError): void {
    connection.reportRefusal(error);
    respond(exchange, { ...errorResponse(error), closeConnection: true }, this.#context);
  }

  /**
   * Checks whether a request becomes a tunnel (RFC 9110 §7.8). If not, Node has lost the bytes that arrived behind it, so the
   * connection cannot be read any further.
   */
  #shouldTunnel(message: IncomingMessage): boolean {
    const connection = this.#connections.get(message.socket);
    const isPossible = this.#options.tunnel !== undefined && connection?.mayTunnel === true;
    if (isPossible && isWebSocketHandshake(message)) return true;
    connection?.finishAfterNext();
    return false;
  }

  #tunnel(message: IncomingMessage, socket: Duplex, firstBytes: Buffer): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined) {
      socket.destroy();
      return;
    }
    connection.becomeTunnel();
    // Node has removed its own error listener; the close that follows an error is enough.
    socket.on('error', () => {});
    const reception = this.#receiveHead(message, connection);
    const takeOver = (): Exchange => takeOverResponse(connection, message);
    if (reception.kind === 'refused') {
      this.#answerRefusal(connection, takeOver(), reception.error);
      return;
    }
    const { tunnel } = this.#options;
    if (tunnel === undefined || !isWebSocketHandshake(message)) {
      // Node before 24.9 does not ask which upgrades are wanted, and has released the connection.
      const detail = 'only upgrades to WebSocket are served';
      this.#answerRefusal(connection, takeOver(), new ProxyError('malformed_request', { detail }));
      return;
    }
    tunnel.open(reception.head, {
      socket: connection.socket,
      firstBytes,
      protocol: 'websocket',
      contentBytes: 0,
      answer: (response) => respond(takeOver(), response, this.#context),
    });
  }

  #refuseConnect(socket: Duplex): void {
    const connection = this.#connections.get(socket);
    socket.on('error', () => {});
    // Node has released the connection, so it can no longer carry the responses that are due on it.
    if (connection?.mayTunnel === true) connection.refuse(methodError('CONNECT'));
    else socket.destroy();
  }

  #refuse(error: ClientError, socket: Duplex): void {
    const connection = this.#connections.get(socket);
    const reading = readParserError(error);
    if (connection === undefined || reading.kind === 'lost') socket.destroy();
    else if (reading.kind === 'ignored') connection.finish();
    else if (reading.error.code === 'request_timeout' && connection.isIdle) connection.end();
    else connection.refuse(reading.error);
  }

  #timeOut(socket: Socket): void {
    const isClientsDoing = this.#connections.get(socket)?.timeOut();
    if (isClientsDoing === false) socket.setTimeout(this.#options.limits.idleTimeoutMs);
  }
}

function serverOptions(limits: ListenerLimits, shouldUpgrade: (message: IncomingMessage) => boolean): ServerOptions {
  const { targetBytes, fieldsBytes, headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs } = limits;
  const timeouts = [headersTimeoutMs, requestTimeoutMs].filter((timeoutMs) => timeoutMs > 0);
  const checkMs = Math.min(longestCheckMs, ...timeouts.map((timeoutMs) => Math.ceil(timeoutMs / 4)));
  return {
    // Node has one limit for both. Below it, receiveHead checks each of them.
    maxHeaderSize: targetBytes + fieldsBytes,
    // Node requires that the timeout of the head is no longer than that of the request.
    headersTimeout: requestTimeoutMs > 0 ? Math.min(...timeouts) : headersTimeoutMs,
    requestTimeout: requestTimeoutMs,
    connectionsCheckingInterval: Math.max(shortestCheckMs, checkMs),
    keepAliveTimeout: keepAliveTimeoutMs,
    keepAlive: true,
    noDelay: true,
    insecureHTTPParser: false,
    // receiveHead refuses a missing Host.
    requireHostHeader: false,
    shouldUpgradeCallback: shouldUpgrade,
  };
}

/** Checks for a WebSocket handshake (RFC 6455 §4.1). No WebSocket client sends a body with it. */
function isWebSocketHandshake({ method, httpVersion, headers }: IncomingMessage): boolean {
  const hasBody = headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0';
  const protocols = listMembers(headers.upgrade).map((name) => name.toLowerCase());
  return method === 'GET' && httpVersion === '1.1' && !hasBody && protocols.includes('websocket');
}

/** Creates a response on a connection that Node has released. The connection ends after it. */
function takeOverResponse(connection: Connection, message: IncomingMessage): Exchange {
  const { socket } = connection;
  const response = new ServerResponse(message);
  response.shouldKeepAlive = false;
  response.assignSocket(socket);
  socket.on('drain', () => response.emit('drain'));
  response.once('finish', () => connection.end());
  return new Exchange({ connection, message, response, expectsContinue: false });
}
