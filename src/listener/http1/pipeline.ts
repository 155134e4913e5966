/** The exchanges that run on one connection, in the order in which HTTP/1 answers them (RFC 9112 §9.3.2). */

import type { Socket } from 'node:net';
import type { RunningExchange } from './running-exchange.ts';

/** With so many bytes that a client has yet to take, no further request of it is read. */
const untakenLimitBytes = 64 * 1024;

/** Most connections have nothing to do most of the time. */
const none: readonly RunningExchange[] = [];

/** Exchanges begin and settle in order. */
export class Pipeline {
  readonly #socket: Socket;
  #running: readonly RunningExchange[] = none;
  /** Whether there is something that is not read for now. */
  #isHeldBack = false;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  get length(): number {
    return this.#running.length;
  }

  get first(): RunningExchange | undefined {
    return this.#running[0];
  }

  get last(): RunningExchange | undefined {
    return this.#running.at(-1);
  }

  /** The one whose request's body is still coming. */
  get receiving(): RunningExchange | undefined {
    return this.#running.find(({ isReceiving }) => isReceiving);
  }

  /** Whether all of every response is there. */
  get isMade(): boolean {
    return this.#running.every(({ isMade }) => isMade);
  }

  get isCloseDelimited(): boolean {
    return this.#running.some(({ isCloseDelimited }) => isCloseDelimited);
  }

  get isWaitingForClient(): boolean {
    return this.#running.some(({ isWaitingForClient }) => isWaitingForClient);
  }

  /** Whether the client should take something before its next request is read: a few bytes can ask for many responses. */
  get isFull(): boolean {
    if (this.#running.length === 0) return false;
    const waitingBytes = this.#running.reduce((sum, exchange) => sum + exchange.waitingBytes, 0);
    return this.#socket.writableLength + waitingBytes >= untakenLimitBytes;
  }

  add(exchange: RunningExchange): void {
    this.#running = [...this.#running, exchange];
  }

  remove(exchange: RunningExchange): void {
    const others = this.#running.filter((running) => running !== exchange);
    this.#running = others.length === 0 ? none : others;
    this.#readOn();
  }

  /**
   * Lets the first one write that has not written all, where the socket takes more: TLS copies the whole of what it is given
   * beyond that. After a response that says that it is the last one, none follows.
   */
  passTurn(): void {
    if (this.#socket.writableNeedDrain) return;
    const next = this.#running.find(({ isLast, isWritten }) => isLast || !isWritten);
    if (next?.isWritten === false) next.takeTurn();
  }

  /** The socket takes more. */
  makeRoom(): void {
    this.passTurn();
    this.#readOn();
  }

  /** Leaves what has come unread, for as long as it is full at least. */
  holdBack(bytes: Buffer): void {
    this.#isHeldBack = true;
    // Paused before: what flows would come here again.
    this.#socket.pause();
    this.#socket.unshift(bytes);
  }

  connectionClosed(): void {
    for (const exchange of this.#running) exchange.connectionClosed();
  }

  #readOn(): void {
    if (!this.#isHeldBack || this.isFull) return;
    this.#isHeldBack = false;
    this.#socket.resume();
  }
}
