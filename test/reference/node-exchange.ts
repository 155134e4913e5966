/** One request and its response on a connection of Node's server. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Fields, fieldLines, listMembers } from '../../src/http/fields.ts';
import type { InterimResponse, ProxyRequest } from '../../src/http/message.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import type { RequestHead } from '../../src/listener/listener.ts';
import { MessageBody } from '../../src/listener/message-body.ts';
import { parseFields, ReceivedRequest, type RequestFraming, type RequestOwner } from '../../src/listener/receive.ts';
import { type ResponseHead, type ResponseOutlet, reasonPhrase } from '../../src/listener/respond.ts';
import { takenBytes } from '../../src/listener/timeouts.ts';
import type { Connection, RunningExchange } from './node-connection.ts';
import { headLines, interimLines, trailerLines } from './response-lines.ts';

/** The longest rest of a request's body that is read and dropped, in bytes. A new connection costs more than that. */
const drainedBytes = 64 * 1024;

/** Parts of an exchange. */
export interface ExchangeParts {
  readonly connection: Connection;
  readonly message: IncomingMessage;
  readonly response: ServerResponse;
  /** Whether the client waits for 100 (Continue) before it sends the body (RFC 9110 §10.1.1). */
  readonly expectsContinue: boolean;
}

/** Lives from the request's head until its response is complete or the client is gone. */
export class Exchange implements RunningExchange, RequestOwner, ResponseOutlet {
  readonly #response: ServerResponse;
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
    this.#response = response;
    this.#expectsContinue = expectsContinue;
    // Node would send chunks to a client of HTTP/1.0 that sends TE; RFC 9112 §6.1 forbids it.
    if (message.httpVersion === '1.0') response.useChunkedEncodingByDefault = false;
    response.once('close', () => this.#settle());
    connection.begin(this);
    // Where HTTP/1.0 says both, Node prefers keep-alive, against RFC 9112 §9.3.
    if (message.httpVersion === '1.0' && saysClose(message)) connection.finish();
  }

  get method(): string {
    return this.#message.method ?? '';
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

  get isReceiving(): boolean {
    return this.#body !== undefined && !this.#message.complete;
  }

  get isWaitingForClient(): boolean {
    return this.#body?.isBehind === true || this.isBehind;
  }

  get unsentBytes(): number {
    return Number.POSITIVE_INFINITY;
  }

  get isBehind(): boolean {
    return this.#onRoom !== undefined || this.#response.writableLength > 0;
  }

  get takenBytes(): number {
    return takenBytes({ socket: this.#connection.socket });
  }

  /** Whether this is the last response on the connection. */
  get #isLast(): boolean {
    return this.#connection.isLast(this) || (this.#hasLongRest && this.#body?.isUnwanted === true);
  }

  /** Creates the request that the handler gets. */
  receive(head: RequestHead, framing: RequestFraming): ProxyRequest {
    const sizeBytes = framing.kind === 'length' ? framing.sizeBytes : undefined;
    if (framing.kind === 'chunked' || (sizeBytes !== undefined && sizeBytes > 0)) {
      this.#body = new MessageBody(this.#message, {
        sizeBytes,
        brokenOff: 'request_body_incomplete',
        onStart: () => this.#askForBody(),
      });
    }
    // Node ends the connection after a response without a 100 before it.
    if (this.#expectsContinue && this.#body === undefined) this.#connection.finish();
    return new ReceivedRequest(head, this.#body, sizeBytes, this);
  }

  /** Aborted when the client is gone before its response is complete. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#isSettled && !this.#response.writableFinished) this.#abort.abort(new ProxyError('client_gone'));
    }
    return this.#abort.signal;
  }

  /** Sends an interim response (RFC 9110 §15.2), but not to a client of HTTP/1.0, which knows none. */
  sendInterim({ status, fields }: InterimResponse): void {
    if (this.#message.httpVersion !== '1.1' || status < 102 || status > 199) return;
    const lines = interimLines(fields);
    this.#beforeHead(() => writeInterim(this.#response, status, lines));
  }

  breakBody(error: ProxyError): void {
    this.#body?.fail(error);
  }

  writeHead({ status, fields, contentLength, content, isLast, now }: ResponseHead): void {
    // Node adds `close` by itself, but not to a Connection field that we set.
    const isNodesLast = !this.#response.shouldKeepAlive;
    const lines = headLines(fields, { status, contentLength, isLast: isLast || this.#isLast || isNodesLast, now });
    this.#response.writeHead(status, reasonPhrase(status), lines);
    const isDelimited = contentLength !== undefined || this.#response.chunkedEncoding;
    this.#isCloseDelimited = content === 'stream' && !isDelimited;
  }

  flushHead(): void {
    this.#response.flushHeaders();
  }

  write(chunk: Uint8Array): boolean {
    return this.#response.write(chunk);
  }

  /** Ends the response. Node gathers the head and all writes of the same tick into one write, without a copy. */
  end(chunks: readonly Uint8Array[], trailers: Fields): void {
    // Only chunked responses can have trailers (RFC 9112 §7.1.2), and only clients with TE: trailers expect them.
    if (trailers.length > 0 && this.#response.chunkedEncoding && this.#acceptsTrailers) {
      this.#response.addTrailers(trailerLines(trailers));
    }
    const last = chunks.at(-1);
    for (const chunk of chunks.slice(0, -1)) this.#response.write(chunk);
    if (last === undefined) this.#response.end();
    else this.#response.end(last);
  }

  whenSettled(callback: (isWhole: boolean) => void): void {
    if (this.#isSettled) callback(false);
    else this.#onSettled = callback;
  }

  room(): Promise<void> {
    return new Promise((resolve) => {
      const onRoom = (): void => {
        this.#onRoom = undefined;
        resolve();
      };
      this.#onRoom = onRoom;
      this.#response.once('drain', onRoom);
    });
  }

  breakOff(): void {
    if (this.#isSettled) return;
    this.#isBroken = true;
    this.#response.flushHeaders();
    setImmediate(() => this.#connection.cutAt(this));
  }

  finishConnection(): void {
    this.#connection.finish();
  }

  /** Whether the client sent TE: trailers (RFC 9110 §10.1.4). */
  get #acceptsTrailers(): boolean {
    const lines = fieldLines(parseFields(this.#message.rawHeaders), 'te');
    return lines.flatMap(listMembers).some((coding) => coding.toLowerCase() === 'trailers');
  }

  get #hasLongRest(): boolean {
    return this.#body !== undefined && this.#body.missingBytes > drainedBytes;
  }

  /** Called when the connection is gone. Node before 24.9 does not notify a response that waits behind others. */
  connectionClosed(): void {
    if (this.#response.socket === null) this.#settle();
  }

  #settle(): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    const isWhole = this.#response.writableFinished;
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
    if (this.#expectsContinue) this.#beforeHead(() => this.#response.writeContinue());
  }

  /**
   * Writes an interim response before the final head, or nothing once that is sent. A response that waits behind others must
   * not get it yet: Node would put the final head in front of it.
   */
  #beforeHead(write: () => void): void {
    if (this.#isSettled || this.#response.headersSent) return;
    if (this.#response.socket === null) {
      this.#response.once('socket', () => this.#beforeHead(write));
      return;
    }
    try {
      write();
    } catch {
      // Node refused a field. The final response is sent without the interim one.
    }
  }
}

function saysClose({ headers }: IncomingMessage): boolean {
  return listMembers(headers.connection).some((option) => option.toLowerCase() === 'close');
}

function writeInterim(response: ServerResponse, status: number, lines: readonly string[]): void {
  // Node has `writeInformation` since 26.2. Before, it has a function for 102, and one for a 103 with Link.
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
