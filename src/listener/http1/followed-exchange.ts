/** The response of a precedent, where the client does not take it at once. */

import type { Delivery, PrecedentResponse } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { Pace, Pacer } from '../pace.ts';
import { takenBytes } from '../taken-bytes.ts';
import type { Connection } from './connection.ts';
import type { RunningExchange } from './running-exchange.ts';

/** Lives from when all of it was given to the socket until the client has it, or is gone. */
export class FollowedExchange implements RunningExchange, Pacer {
  readonly isReceiving = false;
  readonly isCloseDelimited = false;
  readonly isLast = false;
  readonly isMade = true;
  readonly isWritten = true;
  readonly waitingBytes = 0;
  readonly #connection: Connection;
  readonly #response: Pick<PrecedentResponse, 'onDelivered'>;
  readonly #bytesSent: number;
  readonly #release: () => void;
  #error: ProxyError | undefined;
  #isSettled = false;

  constructor(connection: Connection, response: Pick<PrecedentResponse, 'onDelivered'>, bytesSent: number, pace: Pace) {
    this.#connection = connection;
    this.#response = response;
    this.#bytesSent = bytesSent;
    this.#release = pace.watch(this, (error) => this.#giveUp(error));
    connection.begin(this);
    const { socket } = connection;
    if (socket.writable) socket.write('', (error) => this.#settle(error === null || error === undefined));
  }

  get isBroken(): boolean {
    return this.#error !== undefined;
  }

  get isBehind(): boolean {
    return this.#connection.socket.writableLength > 0;
  }

  get isWaitingForClient(): boolean {
    return this.isBehind;
  }

  get takenBytes(): number {
    return takenBytes(this.#connection);
  }

  takeTurn(): void {}

  breakBody(): void {}

  connectionClosed(): void {
    this.#settle(false);
  }

  #giveUp(error: ProxyError): void {
    this.#error ??= error;
    this.#connection.cutAt(this);
  }

  #settle(isWhole: boolean): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#release();
    this.#response.onDelivered(this.#delivery(isWhole));
    this.#connection.settle(this);
  }

  #delivery(isWhole: boolean): Delivery {
    const bytesSent = this.#bytesSent;
    if (isWhole && this.#error === undefined) return { bytesSent, complete: true };
    return { bytesSent, complete: false, error: this.#error ?? new ProxyError('client_gone') };
  }
}
