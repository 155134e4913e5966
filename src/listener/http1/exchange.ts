/** One request and its response on an HTTP/1 connection. */

import type { ClientConnection } from '../../http/client-connection.ts';
import { type Fields, fieldLines, listMembers } from '../../http/fields.ts';
import type { BodyStream, InterimResponse, ProxyRequest } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import { isSafeMethod } from '../../semantics/method.ts';
import type { RequestHead } from '../listener.ts';
import { ReceivedRequest, type RequestFraming, type RequestOwner } from '../receive.ts';
import type { HeadLimits, ParsedHead } from '../request-head.ts';
import type { ResponseHead, ResponseOutlet } from '../respond.ts';
import { takenBytes } from '../timeouts.ts';
import type { Connection, RunningExchange } from './connection.ts';
import { type BodyOwner, RequestBody } from './request-body.ts';
import {
  formatFieldLines,
  formatInterim,
  formatLastChunk,
  formatStatusLine,
  formatUpgrade,
  ResponseWriter,
  takesMovable,
} from './response-writer.ts';

/** An unread rest of a request body up to this size is read and dropped: a new connection would cost more. In bytes. */
const drainedBytes = 64 * 1024;

/** Lives from the request head until the response is completely sent or the client is gone. */
export class Exchange implements RunningExchange, RequestOwner, ResponseOutlet, BodyOwner {
  readonly #connection: Connection;
  readonly #parsed: ParsedHead;
  readonly #writer: ResponseWriter;
  /** Whether the client waits for 100 (Continue) before it sends the body (RFC 9110 §10.1.1). */
  #awaitsContinue = false;
  #body: RequestBody | undefined;
  #endUploadPace: (() => void) | undefined;
  #hasHead = false;
  #isChunked = false;
  #isCloseDelimited = false;
  #isLast = false;
  #isBroken = false;
  #isSettled = false;
  #isWhole = false;
  #onSettled: ((isWhole: boolean) => void) | undefined;
  #abort: AbortController | undefined;

  constructor(connection: Connection, parsed: ParsedHead) {
    this.#connection = connection;
    this.#parsed = parsed;
    this.#writer = new ResponseWriter(connection, (isWhole) => this.#settle(isWhole));
    connection.begin(this);
  }

  get method(): string {
    return this.#parsed.method;
  }

  get connection(): ClientConnection {
    return this.#connection;
  }

  get isSettled(): boolean {
    return this.#isSettled;
  }

  get isBroken(): boolean {
    return this.#isBroken;
  }

  get isCloseDelimited(): boolean {
    return this.#isCloseDelimited;
  }

  get isLast(): boolean {
    return this.#isLast;
  }

  get isUnsafe(): boolean {
    return !isSafeMethod(this.method);
  }

  get isWritten(): boolean {
    return this.#writer.isWritten;
  }

  get waitingBytes(): number {
    return this.#writer.waitingBytes;
  }

  get isReceiving(): boolean {
    return this.#body?.isComplete === false;
  }

  get isWaitingForClient(): boolean {
    return this.#body?.isBehind === true || this.isBehind;
  }

  get isBehind(): boolean {
    return this.#writer.isBehind;
  }

  get unsentBytes(): number {
    return this.#isSettled ? Number.POSITIVE_INFINITY : this.#writer.unsentBytes;
  }

  get takenBytes(): number {
    return takenBytes(this.#connection);
  }

  /** Returns the request for the handler. From now on the connection reads the request body. */
  receive(head: RequestHead, framing: RequestFraming, limits: HeadLimits): ProxyRequest {
    const sizeBytes = framing.kind === 'length' ? framing.sizeBytes : undefined;
    if (framing.kind === 'chunked' || (sizeBytes !== undefined && sizeBytes > 0)) {
      this.#body = new RequestBody({ owner: this, sizeBytes, limits });
      this.#connection.receiveBody(this.#body);
      this.#endUploadPace = this.#connection.context.uploadPace.watch(this.#body, (error) => this.#refuseRest(error));
    }
    if (this.#parsed.version === '1.1' && head.fields.some(([name]) => name === 'expect')) {
      this.#awaitsContinue = true;
      // Expect without a body is inconsistent: no further request is read from this client.
      if (this.#body === undefined) this.#connection.finish();
    }
    return new ReceivedRequest(head, this.#body, sizeBytes, this, takesMovable(this.#connection.socket));
  }

  /** Aborted when the client is gone before the response is complete. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#isSettled && !this.#isWhole) this.#abort.abort(new ProxyError('client_gone'));
    }
    return this.#abort.signal;
  }

  /** Sends an interim response (RFC 9110 §15.2), except to an HTTP/1.0 client. */
  sendInterim({ status, fields }: InterimResponse): void {
    if (this.#parsed.version !== '1.1' || status < 102 || status > 199) return;
    if (this.#hasHead || this.#isSettled) return;
    try {
      this.#writer.interim(formatInterim(status, fields));
    } catch {
      // A field cannot be written: the interim response is left out.
    }
  }

  askForBody(): void {
    if (!this.#awaitsContinue || this.#hasHead || this.#isSettled) return;
    this.#awaitsContinue = false;
    this.#writer.interim('HTTP/1.1 100 Continue\r\n\r\n');
  }

  holdBack(): void {
    this.#connection.pause();
  }

  goOn(): void {
    this.#connection.resume();
  }

  breakBody(error: ProxyError): void {
    this.#body?.fail(error);
  }

  writeHead({ status, fields, contentLength, content, isLast, now }: ResponseHead): void {
    const lines = formatFieldLines(fields);
    const isDelimited = content !== 'stream' || contentLength !== undefined;
    // RFC 9112 §6.1 forbids chunked responses to an HTTP/1.0 client, even with TE.
    this.#isChunked = !isDelimited && this.#parsed.version === '1.1';
    this.#isCloseDelimited = !isDelimited && !this.#isChunked;
    // A client that has not got its 100 may send the body or not. The next bytes are ambiguous (RFC 9110 §10.1.1).
    const hasRest = this.#awaitsContinue || (this.#hasLongRest && this.#body?.isUnwanted === true);
    if (hasRest || this.#isCloseDelimited) this.#connection.finish();

    this.#isLast = isLast || this.#isCloseDelimited || this.#connection.isLast(this);
    const { dateLine, keepAlive } = this.#connection.context;
    let text = formatStatusLine(status) + lines.text;
    if (!lines.hasDate) text += dateLine.at(now);
    if (contentLength !== undefined) text += `Content-Length: ${contentLength}\r\n`;
    const connection = this.#isLast ? 'Connection: close\r\n' : keepAlive;
    text += status === 426 ? formatUpgrade(status, fields, connection) : connection;
    text += this.#isChunked ? 'Transfer-Encoding: chunked\r\n\r\n' : '\r\n';
    this.#hasHead = true;
    this.#writer.begin(text, this.#isChunked);
  }

  flushHead(): void {
    this.#writer.flushHead();
  }

  move(content: Pick<BodyStream, 'moveTo'>): number {
    return this.#writer.move(content);
  }

  write(chunk: Uint8Array): boolean {
    return this.#writer.write(chunk);
  }

  end(chunks: readonly Uint8Array[], trailers: Fields, giveBack?: () => void): void {
    // Only for a client that sends `TE: trailers`.
    const sent = trailers.length > 0 && this.#isChunked && this.#acceptsTrailers ? trailers : [];
    this.#writer.end(chunks, this.#isChunked ? formatLastChunk(sent) : '', giveBack);
  }

  whenSettled(callback: (isWhole: boolean) => void): void {
    if (this.#isSettled) callback(false);
    else this.#onSettled = callback;
  }

  room(): Promise<void> {
    return this.#isSettled ? Promise.resolve() : this.#writer.room();
  }

  breakOff(): void {
    if (this.#isSettled) return;
    this.#isBroken = true;
    this.#writer.flushHead();
    setImmediate(() => {
      if (!this.#isSettled) this.#connection.cutAt(this);
    });
  }

  finishConnection(): void {
    this.#connection.finish();
  }

  takeTurn(): void {
    this.#writer.takeTurn();
  }

  connectionClosed(): void {
    if (this.isReceiving) {
      this.breakBody(new ProxyError('request_body_incomplete', { detail: 'the connection was lost' }));
    }
    this.#settle(false);
  }

  /** Whether TE contains `trailers` (RFC 9110 §10.1.4). */
  get #acceptsTrailers(): boolean {
    const lines = fieldLines(this.#parsed.fields, 'te');
    return lines.flatMap(listMembers).some((coding) => coding.toLowerCase() === 'trailers');
  }

  get #hasLongRest(): boolean {
    return this.#body !== undefined && this.#body.missingBytes > drainedBytes;
  }

  /** Refuses a request whose body arrives too slowly. */
  #refuseRest(error: ProxyError): void {
    if (this.isReceiving) this.#connection.refuse(error);
  }

  #settle(isWhole: boolean): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#endUploadPace?.();
    this.#isWhole = isWhole;
    if (isWhole) this.#leaveRest();
    else this.#abort?.abort(new ProxyError('client_gone'));
    this.#writer.makeRoom();
    this.#onSettled?.(isWhole);
    this.#connection.settle(this);
  }

  #leaveRest(): void {
    if (this.#hasLongRest) this.#connection.finish();
    this.#body?.discard();
  }
}
