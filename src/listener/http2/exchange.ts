/**
 * One request and its response on a stream of an HTTP/2 connection, and the head of the response as HTTP/2 writes it (RFC 9113
 * §8.3).
 */

import { validateHeaderName, validateHeaderValue } from 'node:http';
import { constants, type OutgoingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { Fields } from '../../http/fields.ts';
import type { Hit, InterimResponse, ProxyRequest } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import { formatHttpDate } from '../../semantics/http-date.ts';
import type { ListenerLimits, RequestHead } from '../listener.ts';
import { MessageBody } from '../message-body.ts';
import { ReceivedRequest, type RequestFraming, type RequestOwner } from '../receive.ts';
import { isFramingField, type ResponseHead, type ResponseOutlet } from '../respond.ts';
import type { Pace } from '../timeouts.ts';
import { type Http2Stride, type Http2Windows, Http2Writer } from './response-writer.ts';

const {
  NGHTTP2_NO_ERROR,
  NGHTTP2_PROTOCOL_ERROR,
  NGHTTP2_STREAM_STATE_HALF_CLOSED_LOCAL: endedByUs,
  NGHTTP2_STREAM_STATE_HALF_CLOSED_REMOTE: endedByClient,
} = constants;

/** Content that Node sends in one frame, in bytes. */
const smallBytes = 16 * 1024;

/** The largest status that `respond` takes. */
const largestStatus = 599;

/** With any error, Node resets a stream with INTERNAL_ERROR. */
const brokenOff = new Error('the response broke off');

/** What an exchange asks of its connection. */
export interface ExchangeOwner {
  /** Whether the connection is there. */
  readonly isOpen: boolean;
  readonly windows: Http2Windows;
  /** Takes no further request. */
  drain(): void;
  /** How fast bodies of requests must come. */
  readonly uploadPace: Pace;
  /** Bytes of a request's body have come. */
  noteContent(sizeBytes: number): void;
  /** The exchange is over, whole or not. */
  settle(exchange: Http2Exchange): void;
}

/** What an exchange is made of. */
interface Http2ExchangeParts {
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

type ResponseLines = ReturnType<typeof http2Head>;

/** The head of a response that waits for the first byte of its content, or for its end. */
interface HeldHead {
  readonly head: ResponseLines;
  /** Whether trailers may follow the content. */
  readonly isTrailing: boolean;
}

/** Lives from the request's head until its stream is closed, by either side. */
export class Http2Exchange implements RequestOwner, ResponseOutlet {
  readonly startedAt: number;
  readonly method: string;
  readonly #owner: ExchangeOwner;
  readonly #stream: ServerHttp2Stream;
  readonly #writer: Http2Writer;
  readonly #now: () => number;
  /** Whether the request is whole without a body. */
  readonly #isBodiless: boolean;
  #requestFields: Fields = [];
  #expectsContinue = false;
  #body: MessageBody | undefined;
  #endUploadPace: (() => void) | undefined;
  #heldHead: HeldHead | undefined;
  #trailers: Fields = [];
  /** Whether the rest of the request is to be refused once our side of the stream has ended. */
  #isRefusingRest = false;
  #isEnded = false;
  #isBroken = false;
  #isSettled = false;
  #isWhole = false;
  /** Takes back the memory of what was written, when all of it has left. */
  #giveBack: (() => void) | undefined;
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
    this.#writer = new Http2Writer(stream, owner, stride, now);
    this.#now = now;
    this.#isBodiless = stream.endAfterHeaders || hasEndedEmpty(stream);
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

  /** Whether its stream was reset because of what the client has sent on it. */
  get isMalformed(): boolean {
    return this.#stream.rstCode === NGHTTP2_PROTOCOL_ERROR;
  }

  get isBehind(): boolean {
    return this.#writer.isBehind || (this.#isEnded && !this.#isSettled);
  }

  get takenBytes(): number {
    return this.#writer.takenBytes;
  }

  /** Whether some of the request's body has yet to come. */
  get isReceiving(): boolean {
    return !this.#isBodiless && this.#body?.isEnded !== true;
  }

  /** Whether only the client can bring it forward, by sending or by reading. */
  get isWaitingForClient(): boolean {
    return this.isBehind || this.#body?.isBehind === true;
  }

  /** Something that changes whenever the client sends or reads some of it. */
  get progress(): number {
    return this.takenBytes + (this.#body?.takenBytes ?? 0);
  }

  /** The request as a handler sees it. */
  receive(head: RequestHead, framing: RequestFraming): ProxyRequest {
    const sizeBytes = framing.kind === 'length' ? framing.sizeBytes : undefined;
    this.#requestFields = head.fields;
    if (!this.#isBodiless && sizeBytes !== 0) {
      this.#expectsContinue = head.fields.some(([name]) => name === 'expect');
      this.#body = new MessageBody(this.#stream, {
        sizeBytes,
        brokenOff: 'request_body_incomplete',
        // Node ends a stream that was reset as it ends one that is whole.
        isWhole: () => !this.#stream.aborted && this.#stream.rstCode === NGHTTP2_NO_ERROR,
        onChunk: (chunkBytes) => this.#owner.noteContent(chunkBytes),
        onStart: () => this.#askForBody(),
      });
      this.#endUploadPace = this.#owner.uploadPace.watch(this.#body, (error) => this.#body?.fail(error));
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
    this.flushHead();
    this.#writer.flush();
    if (this.#isRefusingRest) this.#refuseRest();
    const isIdle = idleTimeoutMs > 0 && now - this.#seenAt >= idleTimeoutMs;
    const isLate = requestTimeoutMs > 0 && this.isReceiving && now - this.startedAt >= requestTimeoutMs;
    if (isIdle && this.isBehind) this.breakOff();
    else if (isIdle || isLate) this.#body?.fail(new ProxyError('request_timeout'));
  }

  writeHead({ status, fields, contentLength, content, mayTrail, now }: ResponseHead): void {
    const head = http2Head({ status, lines: http2Lines(fields), contentLength, now });
    if (!this.#isOpen) return;
    const isTrailing = mayTrail && this.#acceptsTrailers;
    const isEmpty = content === 'none' || (contentLength === 0 && !isTrailing);
    if (isEmpty || content === 'bytes' || status > largestStatus) this.#respond(head, isEmpty, isTrailing);
    else this.#heldHead = { head, isTrailing };
  }

  /** Writes a hit; false where its fields cannot be written, and nothing has happened then. */
  writeHit(hit: Hit, pace: Pace): boolean {
    const { status, fields, ageSeconds, cacheStatus, contentRange, more, sizeBytes: contentLength, chunks } = hit;
    fields.list ??= listKept(fields.lines());
    if (fields.list === false) return false;
    hit.begin();
    const bytesSent = chunks.length === 0 ? 0 : (contentLength ?? 0);
    let slowness: ProxyError | undefined;
    let endWatch: (() => void) | undefined;
    // Less leaves in one frame, before a client can be slow; what a client does not take at all ends by `look`.
    if (bytesSent > smallBytes) {
      this.attend();
      endWatch = pace.watch(this, (error) => {
        slowness = error;
        this.breakOff();
      });
    }
    this.whenSettled((isWhole) => {
      endWatch?.();
      const error = isWhole ? undefined : (slowness ?? new ProxyError('client_gone'));
      hit.onDelivered({ bytesSent, complete: isWhole, error }, this.#now());
    });
    if (!this.#isOpen) return true;
    const lines = [...fields.list, 'age', String(ageSeconds), 'cache-status', cacheStatus, ...more.flat()];
    this.#respond(http2Head({ status, lines, contentRange, contentLength, now: this.#seenAt }), bytesSent === 0, false);
    this.end(chunks, [], () => hit.giveBack());
    return true;
  }

  /**
   * While the client's windows are used up, no content could follow the head, and neither could the empty frame that ends
   * empty content: the head waits until it is known whether it ends the stream.
   */
  flushHead(): void {
    if (this.#heldHead === undefined) return;
    const { stream, connection } = this.#owner.windows;
    if (stream === 0 || connection <= 0) return;
    try {
      this.#sendHead(false);
    } catch {
      this.breakOff();
    }
  }

  write(chunk: Uint8Array): boolean {
    this.#sendHead(false);
    return this.#isOpen ? this.#writer.write(chunk) : true;
  }

  get unsentBytes(): number {
    return this.#isOpen ? this.#writer.unsentBytes : Number.POSITIVE_INFINITY;
  }

  room(): Promise<void> {
    return this.#isOpen ? this.#writer.room() : Promise.resolve();
  }

  end(chunks: readonly Uint8Array[], trailers: Fields, giveBack?: () => void): void {
    this.#isEnded = true;
    this.#giveBack = giveBack;
    this.#trailers = trailers;
    const isTrailing = this.#heldHead?.isTrailing === true && trailers.length > 0;
    this.#sendHead(!isTrailing && chunks.every(({ length }) => length === 0), isTrailing);
    if (this.#stream.writableFinished) this.#leaveRest();
    else if (this.#isOpen) this.#writer.end(chunks);
  }

  breakOff(): void {
    if (this.#isSettled) return;
    this.#isBroken = true;
    try {
      this.#sendHead(false);
    } catch {
      // A head that cannot be written; the stream is reset without one.
    }
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

  /** RFC 9110 §10.1.4. In HTTP/2 the field has no other value than `trailers` (RFC 9113 §8.2.2). */
  get #acceptsTrailers(): boolean {
    return this.#requestFields.some(([name]) => name === 'te');
  }

  /** Sends the head that was held back, if there is one. It ends the stream where the content is empty. */
  #sendHead(isEmpty: boolean, isTrailing = this.#heldHead?.isTrailing ?? false): void {
    const held = this.#heldHead;
    this.#heldHead = undefined;
    if (held !== undefined && this.#isOpen) this.#respond(held.head, isEmpty, isTrailing);
  }

  #respond(head: ResponseLines, endStream: boolean, waitForTrailers: boolean): void {
    this.#stream.respond(head, { endStream, waitForTrailers });
    this.#isEnded ||= endStream;
    if (waitForTrailers) this.#stream.once('wantTrailers', () => this.#sendTrailers());
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
    setImmediate(() => setImmediate(() => this.#refuseRest()));
  }

  /** A reset without an error may follow a response that is whole, and no other: the client must have been sent its end. */
  #refuseRest(): void {
    const stream = this.#stream;
    this.#isRefusingRest = this.#isOpen && stream.state.state !== endedByUs;
    if (this.#isRefusingRest) return;
    stream.close(NGHTTP2_NO_ERROR);
    // What has come of it goes by, so that the stream is over.
    stream.resume();
  }

  #settle(): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#endUploadPace?.();
    this.#isWhole ||= this.#isEnded && (this.#stream.writableFinished || this.#wasClosedInOrder);
    if (!this.#isWhole) this.#abort?.abort(new ProxyError('client_gone'));
    else this.#writer.noteWhole(this.#now());
    if (this.#isEnded && this.#stream.writableFinished) this.#giveBack?.();
    this.#writer.release();
    this.#onSettled?.(this.#isWhole);
    this.#owner.settle(this);
  }
}

/** False where a field cannot be written. */
function listKept(fields: Fields): Http2Lines | false {
  try {
    return http2Lines(fields);
  } catch {
    return false;
  }
}

/** Whether all that has followed the head of a request is an end (RFC 9113 §8.1: an empty DATA frame may tell it). */
function hasEndedEmpty(stream: ServerHttp2Stream): boolean {
  return stream.readableLength === 0 && stream.state.state === endedByClient;
}

/** The close that follows an error says enough. */
function ignore(): void {}

/** Names and values in turn, which Node writes with less work than an object of them. */
type Http2Lines = readonly string[];

/** What a head is made of. */
interface Http2HeadParts {
  readonly status: number;
  readonly lines: Http2Lines;
  /** The value of Content-Range, where `lines` does not have it. */
  readonly contentRange?: string | undefined;
  /** What Content-Length says; undefined when it is not there. */
  readonly contentLength: number | undefined;
  /** Epoch milliseconds, for a response without Date (RFC 9110 §6.6.1). */
  readonly now: number;
}

/** Lines of one name may be written as one (RFC 9110 §5.3); of these, clients are known to misread the list. */
const keptApart: ReadonlySet<string> = new Set(['set-cookie', 'www-authenticate', 'proxy-authenticate']);

/** Since Node 24.7. */
const mayRespondWithLines = isNodeSince(24, 7);

/** The head of a final response, with Date and Content-Length, as `respond` takes it. */
export function http2Head({
  status,
  lines,
  contentRange,
  contentLength,
  now,
}: Http2HeadParts): Http2Lines | OutgoingHttpHeaders {
  const head = [':status', String(status), ...lines];
  if (contentRange !== undefined) head.push('content-range', contentRange);
  if (indexOfName(lines, 'date') === -1) head.push('date', formatHttpDate(now));
  if (contentLength !== undefined) head.push('content-length', String(contentLength));
  return mayRespondWithLines ? head : headersOf(head);
}

/**
 * Fields without those of the connection (RFC 9113 §8.2.2). Throws where a name or a value has characters that it must not
 * have: Node itself would take NUL for the end of a line.
 */
export function http2Lines(fields: Fields): Http2Lines {
  const lines: string[] = [];
  for (const [name, value] of fields) {
    if (isFramingField(name) || name === 'http2-settings') continue;
    validateHeaderName(name);
    validateHeaderValue(name, value);
    const earlier = keptApart.has(name) ? -1 : indexOfName(lines, name);
    if (earlier === -1) lines.push(name, value);
    else lines[earlier + 1] += `, ${value}`;
  }
  return lines;
}

/** Lines as those functions of Node take them that know no lists. */
export function headersOf(lines: Http2Lines): OutgoingHttpHeaders {
  // Without a prototype, so that no name means anything to the object.
  const headers: OutgoingHttpHeaders = Object.create(null);
  for (let at = 0; at + 1 < lines.length; at += 2) {
    const name = lines[at] as string;
    const value = lines[at + 1] as string;
    const earlier = headers[name];
    headers[name] = earlier === undefined ? value : [earlier, value].flat().map(String);
  }
  return headers;
}

function indexOfName(lines: Http2Lines, name: string): number {
  for (let at = 0; at < lines.length; at += 2) if (lines[at] === name) return at;
  return -1;
}

function isNodeSince(major: number, minor: number): boolean {
  const [ownMajor = 0, ownMinor = 0] = process.versions.node.split('.').map(Number);
  return ownMajor > major || (ownMajor === major && ownMinor >= minor);
}
