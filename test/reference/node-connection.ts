/** One connection of Node's server: the exchanges that run on it, and how it ends. */

import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Peer } from '../../src/http/message.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import type { Emit } from '../../src/telemetry/events.ts';
import { formatLastProblem } from './response-lines.ts';

/** How long a connection is still read after we have ended it, in milliseconds (RFC 9112 §9.6). */
const lingerMs = 2_000;

/** How many requests a client may send ahead of their responses. The connection ends after so many. */
const pipelinedRequests = 100;

/** An exchange, as its connection sees it. */
export interface RunningExchange {
  /** Whether its request's body is still arriving. */
  readonly isReceiving: boolean;
  /** Whether only the client can make progress, by sending or by reading. */
  readonly isWaitingForClient: boolean;
  /** Whether its response ends with the connection. Then only a reset shows that the response is incomplete. */
  readonly isCloseDelimited: boolean;
  /** Whether its response broke off. */
  readonly isBroken: boolean;
  /** Called when its request's body can no longer become complete. */
  breakBody(error: ProxyError): void;
  /** Called when the connection is gone. */
  connectionClosed(): void;
}

/** Options of a connection. */
export interface ConnectionOptions {
  readonly emit: Emit;
  /** Returns the time in epoch milliseconds. */
  readonly now: () => number;
}

/** Exchanges begin and settle in order, since HTTP/1 answers in order. */
export class Connection {
  readonly socket: Socket;
  readonly peer: Peer;
  readonly #options: ConnectionOptions;
  readonly #exchanges: RunningExchange[] = [];
  #stage: 'open' | 'draining' | 'finishing' | 'tunnel' | 'ended' = 'open';
  #isRetired = false;
  /** The refusal to send after the running exchanges. */
  #refusal: ProxyError | undefined;
  /** Bytes received by the time that the connection was last idle. */
  #settledBytes: number;

  constructor(socket: Socket, peer: Peer, options: ConnectionOptions) {
    this.socket = socket;
    this.peer = peer;
    this.#options = options;
    // Bytes that were put back before the connection was handed over are still to be read.
    this.#settledBytes = socket.bytesRead - socket.readableLength;
    // Node's server closes with destroySoon, which loses the response where the client is still sending.
    socket.destroySoon = () => this.end();
    socket.once('close', () => {
      for (const exchange of [...this.#exchanges]) exchange.connectionClosed();
    });
    // Node ends its side as soon as the client has ended its own. A close-delimited body would then look complete.
    socket.prependListener('end', () => {
      if (this.#exchanges[0]?.isCloseDelimited === true) socket.resetAndDestroy();
    });
  }

  /** Whether a further request may be taken. */
  get isOpen(): boolean {
    return this.#stage === 'open' || this.#stage === 'draining';
  }

  /** Whether it has nothing to do: no exchange, no tunnel, and no part of a request. */
  get isIdle(): boolean {
    return this.isOpen && this.#exchanges.length === 0 && this.socket.bytesRead === this.#settledBytes;
  }

  get isEnded(): boolean {
    return this.#stage === 'ended';
  }

  /** Whether it may become a tunnel: it is not ending, and no response is due on it. */
  get mayTunnel(): boolean {
    return this.#stage === 'open' && this.#exchanges.length === 0;
  }

  begin(exchange: RunningExchange): void {
    this.#exchanges.push(exchange);
    const isLast = this.#stage === 'draining' || this.#isRetired || this.#exchanges.length >= pipelinedRequests;
    if (isLast) this.finish();
  }

  /**
   * Drops a request that came after the last one (RFC 9112 §9.6). While responses are due, nothing more is read, because Node
   * keeps state for every unanswered request.
   */
  ignore(message: IncomingMessage): void {
    message.resume();
    if (this.#stage === 'finishing') setImmediate(() => this.#stopReading());
  }

  /** Ends an exchange, whether or not its response is complete. */
  settle(exchange: RunningExchange): void {
    const at = this.#exchanges.indexOf(exchange);
    if (at >= 0) this.#exchanges.splice(at, 1);
    if (this.#exchanges[0]?.isBroken === true) this.cut();
    if (this.#exchanges.length > 0) return;
    if (this.#refusal !== undefined) this.#answerRefusal(this.#refusal);
    else if (this.#stage === 'draining' || this.#stage === 'finishing') this.end();
    else this.#settledBytes = this.socket.bytesRead;
  }

  /** Whether nothing follows this exchange's response. */
  isLast(exchange: RunningExchange): boolean {
    return !this.isOpen && this.#refusal === undefined && this.#exchanges.at(-1) === exchange;
  }

  /** Takes no further request; the connection ends after those that run. */
  finish(): void {
    if (this.isOpen) this.#stage = 'finishing';
  }

  /** Takes one further request, the last one. */
  finishAfterNext(): void {
    if (this.#stage === 'open') this.#stage = 'draining';
  }

  /**
   * Takes one further request, however late. The client may have read keep-alive, and only a response tells it that no further
   * request is taken.
   */
  retire(): void {
    this.#isRetired = true;
  }

  /** Ends after the running exchanges, or after the request that is on its way. */
  drain(): void {
    if (this.#exchanges.length > 0) this.finish();
    else this.finishAfterNext();
  }

  /** Called when no byte was received or sent for a while. Where the client is the cause, ends the connection and returns true. */
  timeOut(): boolean {
    const isWaitingForClient =
      this.#exchanges.length === 0 || this.#exchanges.some((exchange) => exchange.isWaitingForClient);
    if (this.isIdle) this.end();
    else if (!isWaitingForClient) return false;
    else if (this.isOpen && this.socket.writableLength === 0) this.refuse(new ProxyError('request_timeout'));
    else this.cut();
    return true;
  }

  /**
   * Refuses bytes that are no request, or no rest of one. A body that is being received fails, and its handler responds. Otherwise
   * the client gets an error response after the running exchanges.
   */
  refuse(error: ProxyError): void {
    if (!this.isOpen) return;
    this.finish();
    const receiving = this.#exchanges.find((exchange) => exchange.isReceiving);
    if (receiving !== undefined) {
      receiving.breakBody(error);
      return;
    }
    this.reportRefusal(error);
    this.#refusal = error;
    if (this.#exchanges.length === 0) this.#answerRefusal(error);
  }

  reportRefusal(error: ProxyError): void {
    const { code, detail, status } = error;
    this.#options.emit({ kind: 'refusal', peer: this.peer.address, status, error: code, detail });
  }

  /** Gives the socket over to a tunnel. */
  becomeTunnel(): void {
    this.#stage = 'tunnel';
  }

  /**
   * Ends our side, then reads on for a while and drops the bytes: closing at once could reset the connection before the
   * client has read the last response (RFC 9112 §9.6).
   */
  end(): void {
    if (this.#stage === 'ended') return;
    this.#stage = 'ended';
    const { socket } = this;
    socket.end(() => {
      const timer = setTimeout(() => socket.destroy(), lingerMs).unref();
      socket.once('close', () => clearTimeout(timer));
    });
    socket.resume();
  }

  /** Ends the connection at once, so that a broken response does not look complete. */
  cut(): void {
    this.#stage = 'ended';
    if (this.#exchanges.some((exchange) => exchange.isCloseDelimited)) this.socket.resetAndDestroy();
    else this.socket.destroy();
  }

  /** Cuts the connection because of an exchange whose response broke off, but not before the responses ahead of it are sent. */
  cutAt(exchange: RunningExchange): void {
    if (this.#exchanges[0] === exchange) this.cut();
    else this.finish();
  }

  /** Must not be called while Node still parses received bytes: Node would read on. */
  #stopReading(): void {
    if (this.#stage === 'finishing') this.socket.pause();
  }

  #answerRefusal(error: ProxyError): void {
    this.#refusal = undefined;
    if (this.socket.writable) this.socket.write(formatLastProblem(error, this.#options.now()), 'latin1');
    this.end();
  }
}
