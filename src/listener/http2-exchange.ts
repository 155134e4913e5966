/** One request and its response on a stream of an HTTP/2 connection. */

import { constants, type ServerHttp2Stream } from 'node:http2';
import type { Fields } from '../http/fields.ts';
import type { InterimResponse, ProxyRequest } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { headersOf, http2Head, http2Lines } from './http2-head.ts';
import type { Http2Stride } from './http2-stride.ts';
import { Http2Writer } from './http2-writer.ts';
import type { ListenerLimits, RequestHead } from './listener.ts';
import { MessageBody } from './message-body.ts';
import { ReceivedRequest, type RequestOwner } from './received-request.ts';
import type { RequestFraming } from './request-framing.ts';
import type { ResponseHead, ResponseOutlet } from './respond.ts';

const { NGHTTP2_NO_ERROR } = constants;

/** With any error, Node resets a stream with INTERNAL_ERROR. */
const brokenOff = new Error('the response broke off');

/** What an exchange asks of its connection. */
export interface ExchangeOwner {
  /** Whether the connection is there. */
  readonly isOpen: boolean;
  /** Takes no further request. */
  drain(): void;
  /** Bytes of a request's body have come. */
  noteContent(sizeBytes: number): void;
  /** The exchange is over, whole or not. */
  settle(exchange: Http2Exchange): void;
}

/** What an exchange is made of. */
export interface Http2ExchangeParts {
  readonly owner: ExchangeOwner;
  readonly stream: ServerHttp2Stream;
  readonly method: string;
  /** When the request's head was complete, in epoch milliseconds. */
  readonly startedAt: number;
  /** How the client has taken other responses of the connection. */
  readonly stride: Http2Stride;
  /** Tells the time in epoch milliseconds. */
  readonly now: () => number;
}

/** Lives from the request's head until its stream is closed, by either side. */
export class Http2Exchange implements RequestOwner, ResponseOutlet {
  readonly startedAt: number;
  readonly method: string;
  readonly #owner: ExchangeOwner;
  readonly #stream: ServerHttp2Stream;
  readonly #writer: Http2Writer;
  readonly #now: () => number;
  #expectsContinue = false;
  #body: MessageBody | undefined;
  #trailers: Fields = [];
  #isEnded = false;
  #isBroken = false;
  #isSettled = false;
  #isWhole = false;
  #onSettled: ((isWhole: boolean) => void) | undefined;
  #abort: AbortController | undefined;
  /** How far it had come when somebody looked last, and since when. */
  #seenProgress = 0;
  #seenAt: number;

  constructor({ owner, stream, method, startedAt, stride, now }: Http2ExchangeParts) {
    this.method = method;
    this.startedAt = startedAt;
    this.#seenAt = startedAt;
    this.#owner = owner;
    this.#stream = stream;
    this.#writer = new Http2Writer(stream, stride, now);
    this.#now = now;
    // All that a response needs which is there at once: each listener of a stream has its price.
    stream.on('error', ignore);
    stream.on('close', () => this.#settle());
  }

  /** Expects a response that takes time, or comes before the request is whole. */
  attend(): void {
    this.#stream.on('aborted', () => this.#leave());
    if (this.isReceiving) this.#stream.once('finish', () => this.#leaveRest());
  }

  get isSettled(): boolean {
    return this.#isSettled;
  }

  /** Whether the client was sent all of the response. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** Whether it was we who broke the response off. */
  get isBroken(): boolean {
    return this.#isBroken;
  }

  get isBehind(): boolean {
    return this.#writer.isBehind;
  }

  get takenBytes(): number {
    return this.#writer.takenBytes;
  }

  /** Whether some of the request's body has yet to come. */
  get isReceiving(): boolean {
    return !this.#stream.endAfterHeaders && this.#body?.isEnded !== true;
  }

  /** Whether only the client can bring it forward, by sending or by reading. */
  get isWaitingForClient(): boolean {
    return this.isBehind || this.#body?.isAwaited === true;
  }

  /** Something that changes whenever the client sends or reads some of it. */
  get progress(): number {
    return this.takenBytes + (this.#body?.takenBytes ?? 0);
  }

  /** The request as a handler sees it. */
  receive(head: RequestHead, framing: RequestFraming): ProxyRequest {
    const sizeBytes = framing.kind === 'length' ? framing.sizeBytes : undefined;
    if (!this.#stream.endAfterHeaders && sizeBytes !== 0) {
      this.#expectsContinue = head.fields.some(([name]) => name === 'expect');
      this.#body = new MessageBody(this.#stream, {
        sizeBytes,
        brokenOff: 'request_body_incomplete',
        // Node ends a stream that was reset as it ends one that is whole.
        isWhole: () => !this.#stream.aborted && this.#stream.rstCode === NGHTTP2_NO_ERROR,
        onChunk: (chunkBytes) => this.#owner.noteContent(chunkBytes),
        onStart: () => this.#askForBody(),
      });
    }
    return new ReceivedRequest(head, this.#body, sizeBytes, this);
  }

  /** Aborted when the client is gone before its response is whole. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#isSettled && !this.#isWhole) this.#abort.abort(new ProxyError('client_gone'));
    }
    return this.#abort.signal;
  }

  /** Sends an interim response (RFC 9113 §8.1). */
  sendInterim({ status, fields }: InterimResponse): void {
    if (status < 102 || status > 199) return;
    this.#beforeHead(() => this.#stream.additionalHeaders({ ...headersOf(http2Lines(fields)), ':status': status }));
  }

  /** Ends what takes too long. */
  look(now: number, { idleTimeoutMs, requestTimeoutMs }: ListenerLimits): void {
    const { progress } = this;
    if (progress !== this.#seenProgress || !this.isWaitingForClient) {
      this.#seenProgress = progress;
      this.#seenAt = now;
    }
    const isIdle = idleTimeoutMs > 0 && now - this.#seenAt >= idleTimeoutMs;
    const isLate = requestTimeoutMs > 0 && this.isReceiving && now - this.startedAt >= requestTimeoutMs;
    if (isIdle && this.isBehind) this.breakOff();
    else if (isIdle || isLate) this.#body?.fail(new ProxyError('request_timeout'));
  }

  writeHead({ status, fields, contentLength, content, mayTrail, now }: ResponseHead): void {
    const head = http2Head({ status, lines: http2Lines(fields), contentLength, now });
    if (!this.#isOpen) return;
    this.#stream.respond(head, { endStream: content === 'none', waitForTrailers: mayTrail });
    if (mayTrail) this.#stream.once('wantTrailers', () => this.#sendTrailers());
  }

  /** Node sends it in any case before the turn of the event loop is over. */
  flushHead(): void {}

  write(chunk: Uint8Array): boolean {
    return this.#isOpen ? this.#writer.write(chunk) : true;
  }

  room(): Promise<void> {
    return this.#isOpen ? this.#writer.room() : Promise.resolve();
  }

  end(chunks: readonly Uint8Array[], trailers: Fields): void {
    this.#isEnded = true;
    this.#trailers = trailers;
    if (this.#stream.writableFinished) this.#leaveRest();
    else if (this.#isOpen) this.#writer.end(chunks);
  }

  breakOff(): void {
    if (this.#isSettled) return;
    this.#isBroken = true;
    // Not with `close`, which ends the content before it resets the stream, as if that were whole.
    setImmediate(() => this.#stream.destroy(brokenOff));
  }

  finishConnection(): void {
    this.#owner.drain();
  }

  whenSettled(callback: (isWhole: boolean) => void): void {
    if (this.#isSettled) callback(false);
    else this.#onSettled = callback;
  }

  get #isOpen(): boolean {
    return !this.#stream.destroyed && !this.#stream.closed;
  }

  /**
   * Whether the stream was closed because both sides have ended it. Node tells that before it tells that the last write is
   * over. A client that resets a stream without an error is taken for one that has all that Node was given.
   */
  get #wasClosedInOrder(): boolean {
    return this.#owner.isOpen && !this.#isBroken && this.#stream.rstCode === NGHTTP2_NO_ERROR && this.#writer.isEmpty;
  }

  #askForBody(): void {
    if (this.#expectsContinue) this.#beforeHead(() => this.#stream.additionalHeaders({ ':status': 100 }));
  }

  /** Writes something before the final head, or not at all when that is out. */
  #beforeHead(write: () => void): void {
    if (!this.#isOpen || this.#stream.headersSent) return;
    try {
      write();
    } catch {
      // A field that must not be written; the final response comes without the interim one.
    }
  }

  /** RFC 9113 §8.1: a field section after the content. Without any fields Node ends the stream with an empty frame. */
  #sendTrailers(): void {
    this.#stream.sendTrailers(headersOf(http2Lines(this.#trailers)));
  }

  /** The client has reset the stream. Node before 24.20 lets one wait that was reset without an error. */
  #leave(): void {
    setImmediate(() => this.#stream.destroy());
  }

  /**
   * The response is out. What of the request has not come by now is not wanted, and the client is told so (RFC 9113 §8.1);
   * trailers, which follow in a turn of the event loop of their own, go before that.
   */
  #leaveRest(): void {
    if (!this.#isEnded) return;
    this.#isWhole = true;
    if (!this.isReceiving) return;
    this.#body?.fail(new ProxyError('request_body_incomplete', { detail: 'the response was over before' }));
    setImmediate(() => setImmediate(() => this.#stream.close(NGHTTP2_NO_ERROR)));
  }

  #settle(): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#isWhole ||= this.#isEnded && (this.#stream.writableFinished || this.#wasClosedInOrder);
    if (!this.#isWhole) this.#abort?.abort(new ProxyError('client_gone'));
    else this.#writer.noteWhole(this.#now());
    this.#writer.release();
    this.#onSettled?.(this.#isWhole);
    this.#owner.settle(this);
  }
}

/** The close that follows an error says enough. */
function ignore(): void {}
