/** One request and its response on an HTTP/1 connection. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { InterimResponse, ProxyRequest } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { Connection, RunningExchange } from './connection.ts';
import type { RequestHead } from './listener.ts';
import { MessageBody } from './message-body.ts';
import { ReceivedRequest, type RequestOwner } from './received-request.ts';
import type { RequestFraming } from './request-framing.ts';
import { interimLines } from './response-head.ts';

/** A rest of a request that is at most so long is read and dropped, because a new connection costs more than that. */
const drainedBytes = 64 * 1024;

/** What an exchange is made of. */
export interface ExchangeParts {
  readonly connection: Connection;
  readonly message: IncomingMessage;
  readonly response: ServerResponse;
  /** Whether the client waits for 100 (Continue) before it sends the body (RFC 9110 §10.1.1). */
  readonly expectsContinue: boolean;
}

/** Lives from the request's head until its response is whole or the client is gone. */
export class Exchange implements RunningExchange, RequestOwner {
  readonly response: ServerResponse;
  readonly #connection: Connection;
  readonly #message: IncomingMessage;
  readonly #expectsContinue: boolean;
  #body: MessageBody | undefined;
  #isCloseDelimited = false;
  #isBroken = false;
  #isSettled = false;
  #onSettled: ((isWhole: boolean) => void) | undefined;
  #onRoom: (() => void) | undefined;
  #abort: AbortController | undefined;

  constructor({ connection, message, response, expectsContinue }: ExchangeParts) {
    this.#connection = connection;
    this.#message = message;
    this.response = response;
    this.#expectsContinue = expectsContinue;
    // Node would send chunks to a client of HTTP/1.0 that sends TE; RFC 9112 §6.1 forbids it.
    if (message.httpVersion === '1.0') response.useChunkedEncodingByDefault = false;
    response.once('close', () => this.#settle());
    connection.begin(this);
  }

  get method(): string {
    return this.#message.method ?? '';
  }

  /** Whether the response is over: the client has all of it, or will not get more. */
  get isSettled(): boolean {
    return this.#isSettled;
  }

  get isBroken(): boolean {
    return this.#isBroken;
  }

  get isCloseDelimited(): boolean {
    return this.#isCloseDelimited;
  }

  get isReceiving(): boolean {
    return this.#body !== undefined && !this.#message.complete;
  }

  get isWaitingForClient(): boolean {
    return this.#body?.isAwaited === true || this.#onRoom !== undefined || this.response.writableLength > 0;
  }

  /** Whether the connection cannot carry another response after this one's. */
  get isLast(): boolean {
    return this.#connection.isLast(this) || (this.#hasLongRest && this.#body?.isUnwanted === true);
  }

  /** The request as a handler sees it. */
  receive(head: RequestHead, framing: RequestFraming): ProxyRequest {
    const sizeBytes = framing.kind === 'length' ? framing.sizeBytes : undefined;
    if (framing.kind === 'chunked' || (sizeBytes !== undefined && sizeBytes > 0)) {
      this.#body = new MessageBody(this.#message, {
        sizeBytes,
        brokenOff: 'request_body_incomplete',
        onStart: () => this.#askForBody(),
      });
    }
    return new ReceivedRequest(head, this.#body, sizeBytes, this);
  }

  /** Aborted when the client is gone before its response is whole. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#isSettled && !this.response.writableFinished) this.#abort.abort(new ProxyError('client_gone'));
    }
    return this.#abort.signal;
  }

  /** Sends an interim response (RFC 9110 §15.2), but not to a client of HTTP/1.0, which has none. */
  sendInterim({ status, fields }: InterimResponse): void {
    if (this.#message.httpVersion !== '1.1' || status < 102 || status > 199) return;
    const lines = interimLines(fields);
    this.#beforeHead(() => writeInterim(this.response, status, lines));
  }

  breakBody(error: ProxyError): void {
    this.#body?.fail(error);
  }

  /** The response's body ends where the connection ends. */
  delimitByClose(): void {
    this.#isCloseDelimited = true;
  }

  /** Calls back once, at once if it is over already, with whether the client was sent all of the response. */
  whenSettled(callback: (isWhole: boolean) => void): void {
    if (this.#isSettled) callback(false);
    else this.#onSettled = callback;
  }

  /** Resolves when the client has taken enough for more to be written, or will take no more. */
  room(): Promise<void> {
    return new Promise((resolve) => {
      const onRoom = (): void => {
        this.#onRoom = undefined;
        resolve();
      };
      this.#onRoom = onRoom;
      this.response.once('drain', onRoom);
    });
  }

  /** The response cannot become whole; the client must see that, once what was written is out as far as it goes. */
  breakOff(): void {
    if (this.#isSettled) return;
    this.#isBroken = true;
    this.response.flushHeaders();
    setImmediate(() => this.#connection.cutAt(this));
  }

  /** Takes no further request on the connection. */
  finishConnection(): void {
    this.#connection.finish();
  }

  get #hasLongRest(): boolean {
    return this.#body !== undefined && this.#body.missingBytes > drainedBytes;
  }

  /** The connection is gone. Node before 24.9 does not tell it to a response that waits behind others. */
  connectionClosed(): void {
    if (this.response.socket === null) this.#settle();
  }

  #settle(): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    const isWhole = this.response.writableFinished;
    if (isWhole) this.#leaveRest();
    else this.#abort?.abort(new ProxyError('client_gone'));
    this.#onRoom?.();
    this.#onSettled?.(isWhole);
    this.#connection.settle(this);
  }

  #leaveRest(): void {
    if (this.#body === undefined) return;
    if (this.#hasLongRest) this.#connection.finish();
    this.#body.discard();
  }

  #askForBody(): void {
    if (this.#expectsContinue) this.#beforeHead(() => this.response.writeContinue());
  }

  /**
   * Writes something before the final head, or not at all when that is out. A response that has to wait for those before
   * it must not be given it yet: Node would put the head in front of it.
   */
  #beforeHead(write: () => void): void {
    if (this.#isSettled || this.response.headersSent) return;
    if (this.response.socket === null) {
      this.response.once('socket', () => this.#beforeHead(write));
      return;
    }
    try {
      write();
    } catch {
      // A field that Node does not let pass; the final response comes without the interim one.
    }
  }
}

function writeInterim(response: ServerResponse, status: number, lines: readonly string[]): void {
  // Node has it since 26.2. Before, there is a function for 102, and one for a 103 that has Link.
  if (typeof response.writeInformation === 'function') response.writeInformation(status, lines);
  else if (status === 102) response.writeProcessing();
  else if (status === 103) response.writeEarlyHints(earlyHints(lines));
}

function earlyHints(lines: readonly string[]): Record<string, string[]> {
  const hints: Record<string, string[]> = {};
  for (let at = 0; at + 1 < lines.length; at += 2) {
    const wireName = lines[at] as string;
    const name = wireName === 'Link' ? 'link' : wireName;
    hints[name] = [...(hints[name] ?? []), lines[at + 1] as string];
  }
  return hints;
}
