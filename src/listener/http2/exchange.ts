/** One request and its response on an HTTP/2 stream, and the format of response heads (RFC 9113 §8.3). */

import type { Place } from '../../http/collections.ts';
import type { Fields } from '../../http/fields.ts';
import type { Hit, InterimResponse, ProxyRequest } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { ListenerLimits, RequestHead } from '../listener.ts';
import { ReceivedRequest, type RequestFraming, type RequestOwner } from '../receive.ts';
import type { ResponseHead, ResponseOutlet } from '../respond.ts';
import type { RateLimits } from '../timeouts.ts';
import type { ContentOwner } from './frames.ts';
import { errorCode, formatDataFrameHead, initialWindowBytes } from './frames.ts';
import { encodeLines, encodeStatus, formatHead, http2Lines } from './hpack.ts';
import { Http2RequestBody } from './request-body.ts';

/** The largest status of HTTP (RFC 9110 §15). */
const largestStatus = 599;

/** The connection of an exchange, as the exchange uses it. */
export interface ExchangeOwner {
  /** Puts HEADERS with this field section into the next write. */
  putHeaders(stream: number, section: string, endsStream: boolean): void;
  /** Puts a part of a DATA frame into the next write. */
  putPiece(piece: string | Uint8Array): void;
  /** Has the exchange told when everything that was put has left the process. */
  note(exchange: Http2Exchange, sizeBytes: number): void;
  /** Writes what was put, and lets the exchange send its content as windows allow. */
  schedule(exchange: Http2Exchange): void;
  /** Resets a stream. */
  reset(stream: number, code: number): void;
  /** The response was put as a whole: the stream is closed where the client has ended it, too, or where the request is malformed. */
  noteEnded(exchange: Http2Exchange): void;
  /** The reader of a request body has taken content. */
  noteRead(exchange: Http2Exchange, sizeBytes: number): void;
  /** Nothing of a request body is kept any more, and no more of it will be. */
  noteBodyClosed(): void;
  /** Content was dropped, so that only the window of the connection grows. */
  noteDropped(sizeBytes: number): void;
  /** Ends the connection after its running exchanges. */
  drain(): void;
  /** Minimum rate of request bodies. */
  readonly uploadPace: RateLimits;
  /** Removes an exchange that is over, complete or not. */
  settle(exchange: Http2Exchange): void;
}

/** The parts of an exchange. */
interface Http2ExchangeParts {
  readonly owner: ExchangeOwner;
  readonly stream: number;
  readonly method: string;
  /** Whether the head of the request has ended the stream. */
  readonly isRequestEnded: boolean;
  /** When the request head was complete, in epoch milliseconds. */
  readonly startedAt: number;
  /** The window for content that the client grants at first, in bytes. */
  readonly windowBytes: number;
}

/** Lives from the request head until the response has left the process, or is broken off by either side. */
export class Http2Exchange implements RequestOwner, ResponseOutlet, ContentOwner {
  readonly startedAt: number;
  readonly method: string;
  /** The identifier of the stream. */
  readonly stream: number;
  /** What the client may be sent, in bytes; negative after a smaller setting (RFC 9113 §6.9.2). */
  windowBytes: number;
  /** The largest window that the client is granted, and what it may send of it now. In bytes. */
  mostWindowBytes = initialWindowBytes;
  ownWindowBytes = initialWindowBytes;
  /** Bytes read since the client was told so. */
  readBytes = 0;
  /** Its place among the running exchanges of the connection. */
  place: Place<Http2Exchange> | undefined;
  /** Whether it waits in its connection for its turn to send content. */
  isScheduled = false;
  /** Whether its request is malformed: the response ends with a reset in place of END_STREAM (RFC 9113 §8.1.1). */
  isMalformed = false;
  readonly #owner: ExchangeOwner;
  #isRequestEnded: boolean;
  #requestFields: Fields = [];
  #expectsContinue = false;
  /** The Content-Length of the request, and the content received so far. In bytes. */
  #requestBytes: number | undefined;
  #receivedBytes = 0;
  #body: Http2RequestBody | undefined;
  #isBodyOpen = false;
  #endUploadPace: (() => void) | undefined;
  /** The field section of a response head that waits for the first content, or for the end of the response. */
  #heldHead: string | undefined;
  /** Whether trailers may follow the content. */
  #isTrailing = false;
  #isHeadSent = false;
  #trailers: Fields = [];
  /** Content that waits for a window or for room. */
  readonly #queue: Uint8Array[] = [];
  #queuedBytes = 0;
  /** Content that was put into frames, and the part of it that has left the process. In bytes. */
  #framedBytes = 0;
  #takenBytes = 0;
  /** Frames that have not left the process. */
  #framesOut = 0;
  /** Whether all content is known, and whether the end of the response was put. */
  #isEnded = false;
  #isEndPut = false;
  #isBroken = false;
  #isSettled = false;
  #isWhole = false;
  #giveBack: (() => void) | undefined;
  #onSettled: ((isWhole: boolean) => void) | undefined;
  #onRoom: (() => void) | undefined;
  #abort: AbortController | undefined;
  /** The progress at the last check, and the time of the last change. */
  #seenProgress = 0;
  #seenAt: number;

  constructor(parts: Http2ExchangeParts) {
    const { owner, stream, method, isRequestEnded, startedAt, windowBytes } = parts;
    this.#owner = owner;
    this.stream = stream;
    this.method = method;
    this.#isRequestEnded = isRequestEnded;
    this.startedAt = startedAt;
    this.#seenAt = startedAt;
    this.windowBytes = windowBytes;
  }

  get isSettled(): boolean {
    return this.#isSettled;
  }

  /** Whether the response was sent completely. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** Whether this side broke off the response. */
  get isBroken(): boolean {
    return this.#isBroken;
  }

  /** Whether the client has ended its side of the stream. */
  get isRequestEnded(): boolean {
    return this.#isRequestEnded;
  }

  /** Whether the end of the response was put into a frame. */
  get isEndPut(): boolean {
    return this.#isEndPut;
  }

  get isBehind(): boolean {
    return this.#queuedBytes > 0 || this.#framesOut > 0 || (this.#isEnded && !this.#isSettled);
  }

  get takenBytes(): number {
    return this.#takenBytes;
  }

  get unsentBytes(): number {
    return this.#isSettled ? Number.POSITIVE_INFINITY : this.#queuedBytes + this.#framedBytes - this.#takenBytes;
  }

  /** Whether the client has not sent all of its request. */
  get isReceiving(): boolean {
    return !this.#isRequestEnded;
  }

  /** Whether only the client can make progress, by sending or by reading. */
  get isWaitingForClient(): boolean {
    return this.isBehind || this.#body?.isBehind === true;
  }

  /** A number that changes whenever the client sends or takes bytes. */
  get progress(): number {
    return this.#takenBytes + this.#receivedBytes;
  }

  /** Whether content could be sent now, as far as the window of the stream goes. */
  get isReady(): boolean {
    return this.#queuedBytes > 0 && this.windowBytes > 0 && !this.#isSettled;
  }

  /** Returns the request for the handler. */
  receive(head: RequestHead, framing: RequestFraming): ProxyRequest {
    const sizeBytes = framing.kind === 'length' ? framing.sizeBytes : undefined;
    this.#requestFields = head.fields;
    this.#requestBytes = sizeBytes;
    if (!this.#isRequestEnded && sizeBytes !== 0) {
      this.#isBodyOpen = true;
      this.#expectsContinue = head.fields.some(([name]) => name === 'expect');
      this.#body = new Http2RequestBody(this);
      this.#endUploadPace = this.#owner.uploadPace.watch(this.#body, (error) => this.#body?.fail(error));
    }
    return new ReceivedRequest(head, this.#body, sizeBytes, this);
  }

  /** Takes content of the request. Returns false where it is more than Content-Length says (RFC 9113 §8.1.1). */
  receiveContent(bytes: Buffer): boolean {
    this.#receivedBytes += bytes.length;
    const isTooLong = this.#receivedBytes > (this.#requestBytes ?? Number.POSITIVE_INFINITY);
    if (bytes.length === 0) return true;
    if (isTooLong || this.#body?.receive(bytes) !== false) this.#owner.noteDropped(bytes.length);
    return !isTooLong;
  }

  /** The client has ended its side. Returns false where the content is shorter than Content-Length says. */
  receiveEnd(): boolean {
    this.#isRequestEnded = true;
    if (this.#requestBytes !== undefined && this.#receivedBytes !== this.#requestBytes) return false;
    this.#body?.complete();
    this.#closeBody();
    return true;
  }

  /** The body keeps nothing any more, and receives nothing. */
  #closeBody(): void {
    if (!this.#isBodyOpen || (this.#body?.keptBytes ?? 0) > 0) return;
    this.#isBodyOpen = false;
    this.#owner.noteBodyClosed();
  }

  /** Aborted when the client is gone before the response is complete. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#isSettled && !this.#isWhole) this.#abort.abort(new ProxyError('client_gone'));
    }
    return this.#abort.signal;
  }

  /** Sends an interim response (RFC 9113 §8.1). */
  sendInterim({ status, fields }: InterimResponse): void {
    if (status >= 102 && status <= 199) this.#putInterim(status, fields);
  }

  /** As `BodyOwner.askForBody`: sends 100 where the client waits for it (RFC 9110 §10.1.1). */
  askForBody(): void {
    if (this.#expectsContinue && !this.#isRequestEnded) this.#putInterim(100, []);
  }

  noteRead(sizeBytes: number): void {
    this.#owner.noteRead(this, sizeBytes);
    if (this.#isRequestEnded) this.#closeBody();
  }

  noteDropped(sizeBytes: number): void {
    this.#owner.noteDropped(sizeBytes);
  }

  /** Checks the time limits, and ends what exceeds them. Called periodically. */
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

  /** Writes a hit that `WrittenHit` cannot: it is larger than what may be sent at once. */
  writeHit(hit: Hit, section: string, pace: RateLimits, now: () => number): void {
    const { sizeBytes = 0, chunks } = hit;
    const bytesSent = chunks.length === 0 ? 0 : sizeBytes;
    let slowness: ProxyError | undefined;
    hit.begin();
    const endWatch = pace.watch(this, (error) => {
      slowness = error;
      this.breakOff();
    });
    this.whenSettled((isWhole) => {
      endWatch();
      const error = isWhole ? undefined : (slowness ?? new ProxyError('client_gone'));
      hit.onDelivered({ bytesSent, complete: isWhole, error }, now());
    });
    this.#heldHead = section;
    this.end(chunks, [], () => hit.giveBack());
  }

  writeHead({ status, fields, contentLength, content, mayTrail, now }: ResponseHead): void {
    if (status > largestStatus) throw new ProxyError('internal', { detail: `the status ${status} does not exist` });
    const section = formatHead(status, encodeLines(http2Lines(fields)), contentLength, now);
    if (this.#isSettled) return;
    this.#isTrailing = mayTrail && this.#acceptsTrailers;
    const isEmpty = content === 'none' || (contentLength === 0 && !this.#isTrailing);
    if (!isEmpty) this.#heldHead = section;
    else {
      this.#isEnded = true;
      this.#putHead(section, true);
      this.#owner.schedule(this);
    }
  }

  flushHead(): void {
    if (this.#heldHead === undefined || this.#isSettled) return;
    this.#putHeldHead(false);
    this.#owner.schedule(this);
  }

  write(chunk: Uint8Array): boolean {
    if (this.#isSettled) return true;
    this.#putHeldHead(false);
    this.#queue.push(chunk);
    this.#queuedBytes += chunk.length;
    this.#owner.schedule(this);
    return this.#queuedBytes === 0;
  }

  room(): Promise<void> {
    if (this.#isSettled || this.#queuedBytes === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onRoom = resolve;
    });
  }

  end(chunks: readonly Uint8Array[], trailers: Fields, giveBack?: () => void): void {
    this.#giveBack = giveBack;
    this.#isEnded = true;
    // `writeHead` has ended a response without content.
    if (this.#isSettled || this.#isEndPut) {
      this.#noteTakenWhole();
      return;
    }
    if (this.#isTrailing) this.#trailers = trailers;
    for (const chunk of chunks) {
      if (chunk.length === 0) continue;
      this.#queue.push(chunk);
      this.#queuedBytes += chunk.length;
    }
    const endsWithHead = this.#queuedBytes === 0 && this.#trailers.length === 0;
    this.#putHeldHead(endsWithHead);
    if (this.#queuedBytes === 0 && !this.#isEndPut) this.#putEnd();
    this.#owner.schedule(this);
  }

  breakOff(): void {
    if (this.#isSettled) return;
    this.#isBroken = true;
    if (!this.#isEndPut) {
      this.#putHeldHead(false);
      this.#owner.reset(this.stream, errorCode.internal);
    }
    // The response is complete for a client that takes it after all. The rest of the request is refused, as after any response.
    else if (!this.#isRequestEnded) this.#owner.reset(this.stream, errorCode.none);
    this.#settle(false);
  }

  requireHttp1(): void {
    this.#isBroken = true;
    this.#owner.reset(this.stream, errorCode.http1Required);
    this.#settle(false);
  }

  finishConnection(): void {
    this.#owner.drain();
  }

  whenSettled(callback: (isWhole: boolean) => void): void {
    if (this.#isSettled) callback(this.#isWhole);
    else this.#onSettled = callback;
  }

  /** Drops content that waits: its stream is reset. */
  dropContent(): void {
    this.#queue.length = 0;
    this.#queuedBytes = 0;
  }

  /** The stream was reset: by the client, or because the client violated the protocol. */
  noteReset(): void {
    this.#settle(false);
  }

  /** Puts a DATA frame of at most `mostBytes` into the next write. Requires `isReady`. Returns the number of bytes. */
  putContent(mostBytes: number): number {
    const sizeBytes = Math.min(mostBytes, this.windowBytes, this.#queuedBytes);
    const isLast = sizeBytes === this.#queuedBytes && this.#isEnded && this.#trailers.length === 0;
    this.#owner.putPiece(formatDataFrameHead(this.stream, sizeBytes, isLast && !this.isMalformed));
    for (let leftBytes = sizeBytes; leftBytes > 0; ) {
      const chunk = this.#queue[0] as Uint8Array;
      if (chunk.length <= leftBytes) this.#queue.shift();
      else this.#queue[0] = chunk.subarray(leftBytes);
      const part = chunk.length <= leftBytes ? chunk : chunk.subarray(0, leftBytes);
      if (part.length > 0) this.#owner.putPiece(part);
      leftBytes -= part.length;
    }
    this.windowBytes -= sizeBytes;
    this.#queuedBytes -= sizeBytes;
    if (isLast) this.#noteEndPut(sizeBytes);
    else {
      this.#noteFrame(sizeBytes);
      if (this.#queuedBytes === 0 && this.#isEnded) this.#putEnd();
    }
    return sizeBytes;
  }

  noteTaken(sizeBytes: number): void {
    this.#framesOut -= 1;
    this.#takenBytes += sizeBytes;
    this.#noteTakenWhole();
    // A socket that takes content makes room for more of it.
    if (this.#queuedBytes === 0) this.#release();
  }

  noteLost(): void {
    this.#settle(false);
  }

  /** Whether TE is present (RFC 9110 §10.1.4). In HTTP/2 its only value is `trailers` (RFC 9113 §8.2.2). */
  get #acceptsTrailers(): boolean {
    return this.#requestFields.some(([name]) => name === 'te');
  }

  #putInterim(status: number, fields: Fields): void {
    if (this.#isSettled || this.#isHeadSent) return;
    try {
      this.#owner.putHeaders(this.stream, encodeStatus(status) + encodeLines(http2Lines(fields)).text, false);
    } catch {
      // A field must not be written: the interim response is left out.
      return;
    }
    this.#owner.schedule(this);
  }

  #putHeldHead(endsStream: boolean): void {
    const section = this.#heldHead;
    this.#heldHead = undefined;
    if (section !== undefined) this.#putHead(section, endsStream);
  }

  #putHead(section: string, endsStream: boolean): void {
    this.#isHeadSent = true;
    this.#owner.putHeaders(this.stream, section, endsStream && !this.isMalformed);
    if (endsStream) this.#noteEndPut(0);
  }

  /** Ends the stream after all content: with the trailer section, or with an empty frame, which needs no window (RFC 9113 §6.9.1). */
  #putEnd(): void {
    if (this.#trailers.length > 0) {
      this.#owner.putHeaders(this.stream, encodeLines(http2Lines(this.#trailers)).text, true);
    } else this.#owner.putPiece(formatDataFrameHead(this.stream, 0, true));
    this.#noteEndPut(0);
  }

  /** The last frame was put, with this much content. */
  #noteEndPut(sizeBytes: number): void {
    this.#noteFrame(sizeBytes);
    this.#isEndPut = true;
    this.#owner.noteEnded(this);
  }

  #noteFrame(sizeBytes: number): void {
    this.#framesOut += 1;
    this.#framedBytes += sizeBytes;
    this.#owner.note(this, sizeBytes);
  }

  /** Ends the exchange when all of its response has left the process. */
  #noteTakenWhole(): void {
    if (this.#isEndPut && this.#framesOut === 0) this.#settle(true);
  }

  #release(): void {
    const onRoom = this.#onRoom;
    this.#onRoom = undefined;
    onRoom?.();
  }

  #settle(isWhole: boolean): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#isWhole = isWhole;
    this.#heldHead = undefined;
    this.dropContent();
    this.#endUploadPace?.();
    this.#leaveBody(isWhole);
    if (isWhole) this.#giveBack?.();
    else this.#abort?.abort(new ProxyError('client_gone'));
    this.#release();
    this.#onSettled?.(isWhole);
    this.#owner.settle(this);
  }

  /** Refuses the rest of the request, which a complete response permits (RFC 9113 §8.1). */
  #leaveBody(isWhole: boolean): void {
    if (this.#body !== undefined) {
      const detail = isWhole ? 'the response ended before the request' : 'the stream was closed';
      this.#body.fail(new ProxyError('request_body_incomplete', { detail }));
      this.#owner.noteDropped(this.#body.drop());
      this.#closeBody();
    }
    if (isWhole && !this.#isRequestEnded) this.#owner.reset(this.stream, errorCode.none);
  }
}
