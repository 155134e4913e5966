/** Serves the requests of a server of Node with a handler, by the rules of our own listeners. */

import { ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { errorResponse, problemResponse } from '../delivery/problem.ts';
import type { Handler, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { readUpgrade } from '../listener/http1/server.ts';
import type { ListenerLimits, RequestHead, Tunnel } from '../listener/listener.ts';
import type { RequestFraming } from '../listener/receive.ts';
import { answer, type ResponseContext, respond } from '../listener/respond.ts';
import { type After, createRateLimits, createUploadPace, type RateLimits } from '../listener/timeouts.ts';
import type { Emit } from '../telemetry/events.ts';
import { NodeExchange, type NodeResponse } from './node-exchange.ts';
import { isHttp2, type NodeRequest, receiveNodeHead } from './node-reception.ts';
import { withOwnedMemory } from './owned-memory.ts';
import type { RunningExchanges } from './running-exchanges.ts';

/** The parts of an adapter. */
export interface NodeAdapterOptions {
  readonly handler: Handler;
  /** Returns whether a route serves a request. Does not throw. */
  readonly isServed: (head: RequestHead) => boolean;
  readonly tunnel: Tunnel;
  readonly running: RunningExchanges;
  readonly emit: Emit;
  /** Returns the time in epoch milliseconds. */
  readonly now: () => number;
  readonly after: After;
  readonly limits: ListenerLimits;
}

/** The last step of a connect-style middleware. */
export type Next = (error?: unknown) => void;

const ignore = (): void => {};

/** Serves requests until Rangeway is closed. */
export class NodeAdapter {
  readonly #options: NodeAdapterOptions;
  readonly #context: ResponseContext;
  readonly #uploadPace: RateLimits;
  readonly #running: RunningExchanges;

  constructor(options: NodeAdapterOptions) {
    const { handler, now, after, limits } = options;
    this.#options = options;
    this.#running = options.running;
    const owned: Handler = (request) => {
      const response = handler(request);
      return 'then' in response ? response.then(withOwnedMemory) : withOwnedMemory(response);
    };
    this.#context = { handler: owned, now, pace: createRateLimits({ limits, now, after }) };
    this.#uploadPace = createUploadPace({ limits, now, after });
  }

  /** Answers every request. */
  handle(request: NodeRequest, response: NodeResponse): void {
    const exchange = this.#begin(request, response);
    if (this.#running.isClosing) {
      this.#respond(exchange, problemResponse(503, 'The proxy is stopping.'));
      return;
    }
    const reception = receiveNodeHead(request, this.#options);
    if (reception.kind === 'refused') this.#refuse(exchange, request, reception.error);
    else if (exchange.hasBody(reception.framing) && exchange.hasLostBody) this.#refuseLostBody(exchange, request);
    else this.#serve(exchange, reception.head, reception.framing);
  }

  /** Answers the requests that a route serves, and leaves the others to `next`. */
  pass(request: NodeRequest, response: NodeResponse, next: Next): void {
    const reception = receiveNodeHead(request, this.#options);
    const isOurs = this.#options.isServed(reception.kind === 'received' ? reception.head : describeHead(request));
    if (!isOurs || this.#running.isClosing || response.headersSent || response.writableEnded) {
      next();
      return;
    }
    const isLost = reception.kind === 'received' && hasLostBody(request, reception.framing);
    if (isLost) next(new Error(describeLostBody(request)));
    else this.handle(request, response);
  }

  /**
   * Opens a tunnel for a WebSocket handshake that a route serves, and answers other upgrades as ordinary requests. Returns false,
   * and leaves the socket alone, where no route serves the request.
   */
  upgrade(request: NodeRequest, socket: Duplex, firstBytes: Buffer): boolean {
    if (isHttp2(request) || !(socket instanceof Socket)) return false;
    const reception = receiveNodeHead(request, this.#options);
    if (!this.#options.isServed(reception.kind === 'received' ? reception.head : describeHead(request))) return false;
    socket.on('error', ignore);
    const wanted =
      reception.kind === 'received' ? readUpgrade(reception.head, this.#options.limits.upgrades) : undefined;
    if (reception.kind === 'refused' || this.#running.isClosing || wanted === undefined) {
      this.#answerUpgrade(request, socket, (exchange) => {
        if (this.#running.isClosing) this.#respond(exchange, problemResponse(503, 'The proxy is stopping.'));
        else if (reception.kind === 'refused') this.#refuse(exchange, request, reception.error);
        else if (!exchange.hasBody(reception.framing)) this.#serve(exchange, reception.head, reception.framing);
        // The server of Node no longer reads the socket.
        else this.#refuse(exchange, request, new ProxyError('malformed_request', { detail: 'an upgrade with a body' }));
      });
      return true;
    }
    const tunnel = { breakOff: () => void socket.destroy() };
    this.#running.add(tunnel);
    socket.once('close', () => this.#running.delete(tunnel));
    this.#options.tunnel.open(reception.head, {
      socket,
      firstBytes,
      ...wanted,
      answer: (answered) => this.#answerUpgrade(request, socket, (exchange) => this.#respond(exchange, answered)),
    });
    return true;
  }

  #begin(request: NodeRequest, response: NodeResponse): NodeExchange {
    const exchange = new NodeExchange(request, response, (over) => this.#running.delete(over));
    if (!exchange.isSettled) this.#running.add(exchange);
    return exchange;
  }

  #serve(exchange: NodeExchange, head: RequestHead, framing: RequestFraming): void {
    const request: ProxyRequest = exchange.receive(head, framing, this.#uploadPace);
    answer(exchange, request, this.#context);
  }

  #respond(exchange: NodeExchange, response: ProxyResponse): void {
    respond(exchange, { ...withOwnedMemory(response), closeConnection: true }, this.#context);
  }

  #refuse(exchange: NodeExchange, { socket }: NodeRequest, error: ProxyError): void {
    const { code, detail, status } = error;
    this.#options.emit({ kind: 'refusal', peer: socket.remoteAddress, status, error: code, detail });
    this.#respond(exchange, errorResponse(error));
  }

  #refuseLostBody(exchange: NodeExchange, request: NodeRequest): void {
    this.#options.emit({ kind: 'listener', level: 'error', message: describeLostBody(request) });
    this.#respond(exchange, errorResponse(new ProxyError('internal')));
  }

  /** Writes a response into a socket that the server of Node has handed over. The connection ends after it. */
  #answerUpgrade(request: NodeRequest, socket: Socket, write: (exchange: NodeExchange) => void): void {
    if (isHttp2(request)) return;
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.once('finish', () => socket.end());
    // Bytes that follow in another protocol are not read as a request; the end of the connection has to be seen.
    socket.resume();
    const exchange = this.#begin(request, response);
    exchange.finishConnection();
    write(exchange);
  }
}

/** Returns what a request says about its destination, where its head is refused. */
function describeHead(request: NodeRequest): RequestHead {
  const { host = '', ':authority': authority = host } = request.headers;
  return {
    method: request.method ?? '',
    scheme: 'http',
    authority: typeof authority === 'string' ? authority : '',
    target: request.originalUrl ?? request.url ?? '',
    version: request.httpVersion,
    fields: [],
    peer: { address: '', port: 0 },
    receivedAt: 0,
  };
}

function hasLostBody(request: NodeRequest, framing: RequestFraming): boolean {
  const hasBody = framing.kind === 'chunked' || (framing.kind === 'length' && framing.sizeBytes > 0);
  return hasBody && (request.readableDidRead || request.readableEnded || request.readableFlowing === true);
}

function describeLostBody({ method, originalUrl, url = '' }: NodeRequest): string {
  const [path] = (originalUrl ?? url).split('?');
  return `Rangeway cannot forward ${method} ${path}: its body was read before. Put Rangeway in front of the middleware that reads bodies (such as express.json()).`;
}
