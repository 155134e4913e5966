/** One request and its response on an HTTP/2 stream, and the format of response heads (RFC 9113 §8.3). */

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
import type { RateLimits } from '../timeouts.ts';
import { type Http2Windows, Http2Writer, type PieceSizer } from './response-writer.ts';

const {
  NGHTTP2_NO_ERROR,
  NGHTTP2_PROTOCOL_ERROR,
  NGHTTP2_STREAM_STATE_HALF_CLOSED_LOCAL: endedByUs,
  NGHTTP2_STREAM_STATE_HALF_CLOSED_REMOTE: endedByClient,
} = constants;

/** Maximum content that Node sends in one frame, in bytes. */
const smallBytes = 16 * 1024;

/** The largest status that Node's `respond` accepts. */
const largestStatus = 599;

/** Node resets a stream that is destroyed with any error with INTERNAL_ERROR. */
const brokenOff = new Error('the response broke off');

/** The connection of an exchange, as the exchange uses it. */
export interface ExchangeOwner {
  /** Whether the session exists. */
  readonly isOpen: boolean;
  readonly windows: Http2Windows;
  /** Ends the connection after its running exchanges. */
  drain(): void;
  /** Minimum rate of request bodies. */
  readonly uploadPace: RateLimits;
  /** Counts received bytes of a request body. */
  noteContent(sizeBytes: number): void;
  /** Removes an exchange that is over, complete or not. */
  settle(exchange: Http2Exchange): void;
}

/** The parts of an exchange. */
interface Http2ExchangeParts {
  readonly owner: ExchangeOwner;
  readonly stream: ServerHttp2Stream;
  readonly method: string;
  /** When the request head was complete, in epoch milliseconds. */
  readonly startedAt: number;
  /** The piece size, learned from the other responses of the connection. */
  readonly stride: PieceSizer;
  /** Returns the time in epoch milliseconds. */
  readonly now: () => number;
}

type ResponseLines = ReturnType<typeof http2Head>;

/** A response head that waits for the first content, or for the end of the response. */
interface HeldHead {
  readonly head: ResponseLines;
  /** Whether trailers may follow the content. */
  readonly isTrailing: boolean;
}

/** Lives from the request head until the stream is closed, by either side. */
export class Http2Exchange implements RequestOwner, ResponseOutlet {
  readonly startedAt: number;
  readonly method: string;
  readonly #owner: ExchangeOwner;
  readonly #stream: ServerHttp2Stream;
  readonly #writer: Http2Writer;
  readonly #now: () => number;
  /** Whether the request has no body. */
  readonly #isBodiless: boolean;
  #requestFields: Fields = [];
  #expectsContinue = false;
  #body: MessageBody | undefined;
  #endUploadPace: (() => void) | undefined;
  #heldHead: HeldHead | undefined;
  #trailers: Fields = [];
  /** Whether the rest of the request is to be refused as soon as the end of the response is sent. */
  #isRefusingRest = false;
  #isEnded = false;
  #isBroken = false;
  #isSettled = false;
  #isWhole = false;
  /** Gives back the memory of the content when all of it has left the process. */
  #giveBack: (() => void) | undefined;
  #onSettled: ((isWhole: boolean) => void) | undefined;
  #abort: AbortController | undefined;
  /** The progress at the last check, and the time of the last change. */
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
    // Only the listeners that an immediate response needs, because each listener costs time. `attend` adds the others.
    stream.on('error', ignore);
    stream.on('close', () => this.#settle());
  }

  /** Prepares for a response that takes time, or that comes before the request is complete. */
  attend(): void {
    this.#stream.on('aborted', () => this.#leave());
    if (this.isReceiving) this.#stream.once('finish', () => this.#leaveRest());
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

  /** Whether the stream was reset because the client violated the protocol. */
  get isMalformed(): boolean {
    return this.#stream.rstCode === NGHTTP2_PROTOCOL_ERROR;
  }

  get isBehind(): boolean {
    return this.#writer.isBehind || (this.#isEnded && !this.#isSettled);
  }

  get takenBytes(): number {
    return this.#writer.takenBytes;
  }

  /** Whether the request body is incomplete or not read to its end. */
  get isReceiving(): boolean {
    return !this.#isBodiless && this.#body?.isEnded !== true;
  }

  /** Whether only the client can make progress, by sending or by reading. */
  get isWaitingForClient(): boolean {
    return this.isBehind || this.#body?.isBehind === true;
  }

  /** A number that changes whenever the client sends or takes bytes. */
  get progress(): number {
    return this.takenBytes + (this.#body?.takenBytes ?? 0);
  }

  /** Returns the request for the handler. */
  receive(head: RequestHead, framing: RequestFraming): ProxyRequest {
    const sizeBytes = framing.kind === 'length' ? framing.sizeBytes : undefined;
    this.#requestFields = head.fields;
    if (!this.#isBodiless && sizeBytes !== 0) {
      this.#expectsContinue = head.fields.some(([name]) => name === 'expect');
      this.#body = new MessageBody(this.#stream, {
        sizeBytes,
        brokenOff: 'request_body_incomplete',
        // Node emits `end` for a reset stream as for a complete one.
        isWhole: () => !this.#stream.aborted && this.#stream.rstCode === NGHTTP2_NO_ERROR,
        onChunk: (chunkBytes) => this.#owner.noteContent(chunkBytes),
        onStart: () => this.#askForBody(),
      });
      this.#endUploadPace = this.#owner.uploadPace.watch(this.#body, (error) => this.#body?.fail(error));
    }
    return new ReceivedRequest(head, this.#body, sizeBytes, this);
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
    if (status < 102 || status > 199) return;
    this.#beforeHead(() => this.#stream.additionalHeaders({ ...headersOf(http2Lines(fields)), ':status': status }));
  }

  /** Checks the time limits, and ends what exceeds them. Called periodically. */
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

  /** Writes a hit. Returns false, without any effect, where a field cannot be written. */
  writeHit(hit: Hit, pace: RateLimits): boolean {
    const { status, fields, ageSeconds, cacheStatus, contentRange, more, sizeBytes: contentLength, chunks } = hit;
    fields.list ??= listKept(fields.lines());
    if (fields.list === false) return false;
    hit.begin();
    const bytesSent = chunks.length === 0 ? 0 : (contentLength ?? 0);
    let slowness: ProxyError | undefined;
    let endWatch: (() => void) | undefined;
    // Smaller content leaves in one frame and needs no pace. `look` ends a response that the client does not read at all.
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
   * Sends the head if it waits and the client's flow-control windows have room. Without room no DATA frame could follow, not even
   * the empty frame that ends a stream. So the head waits until it is known whether the head itself ends the stream.
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
      // The head cannot be written: the stream is reset without it.
    }
    // Not with `close`: it would end the content before the reset, as if the response were complete.
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
   * Whether the stream was closed because both sides have ended it. Node reports the close before the end of the last write. A
   * client that resets a stream without an error counts as having received everything that Node was given.
   */
  get #wasClosedInOrder(): boolean {
    return this.#owner.isOpen && !this.#isBroken && this.#stream.rstCode === NGHTTP2_NO_ERROR && this.#writer.isEmpty;
  }

  #askForBody(): void {
    if (this.#expectsContinue) this.#beforeHead(() => this.#stream.additionalHeaders({ ':status': 100 }));
  }

  /** Writes an interim response; does nothing after the final head. */
  #beforeHead(write: () => void): void {
    if (!this.#isOpen || this.#stream.headersSent) return;
    try {
      write();
    } catch {
      // A field must not be written: the interim response is left out.
    }
  }

  /** Whether TE is present (RFC 9110 §10.1.4). In HTTP/2 its only value is `trailers` (RFC 9113 §8.2.2). */
  get #acceptsTrailers(): boolean {
    return this.#requestFields.some(([name]) => name === 'te');
  }

  /** Sends the head if it waits. With empty content the head ends the stream. */
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

  /** Sends the trailer section (RFC 9113 §8.1). Without trailer fields Node ends the stream with an empty frame. */
  #sendTrailers(): void {
    this.#stream.sendTrailers(headersOf(http2Lines(this.#trailers)));
  }

  /** Destroys a stream that the client has reset. Node before 24.20 leaves it open if the reset had no error. */
  #leave(): void {
    setImmediate(() => this.#stream.destroy());
  }

  /**
   * Called when the response is written. Refuses the rest of an incomplete request (RFC 9113 §8.1), after one turn of the event loop
   * in which trailers are sent.
   */
  #leaveRest(): void {
    if (!this.#isEnded) return;
    this.#isWhole = true;
    if (!this.isReceiving) return;
    this.#body?.fail(new ProxyError('request_body_incomplete', { detail: 'the response ended before the request' }));
    setImmediate(() => setImmediate(() => this.#refuseRest()));
  }

  /** Resets the stream without an error. Only a complete response allows that, so it waits until the end is sent. */
  #refuseRest(): void {
    const stream = this.#stream;
    this.#isRefusingRest = this.#isOpen && stream.state.state !== endedByUs;
    if (this.#isRefusingRest) return;
    stream.close(NGHTTP2_NO_ERROR);
    // Drops the received bytes, so that the stream can close.
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

/** Formats the fields that hits of one stored response share; false where a field cannot be written. */
function listKept(fields: Fields): Http2Lines | false {
  try {
    return http2Lines(fields);
  } catch {
    return false;
  }
}

/** Checks whether the client has ended the stream without content, as with an empty DATA frame (RFC 9113 §8.1). */
function hasEndedEmpty(stream: ServerHttp2Stream): boolean {
  return stream.readableLength === 0 && stream.state.state === endedByClient;
}

/** Every error is followed by `close`, which is handled. */
function ignore(): void {}

/** Alternating names and values, which Node writes faster than an object. */
type Http2Lines = readonly string[];

/** The parts of a response head. */
interface Http2HeadParts {
  readonly status: number;
  readonly lines: Http2Lines;
  /** The value of Content-Range, where `lines` lacks it. */
  readonly contentRange?: string | undefined;
  /** The value of Content-Length; undefined when the response has none. */
  readonly contentLength: number | undefined;
  /** The time for Date in a response without one (RFC 9110 §6.6.1), in epoch milliseconds. */
  readonly now: number;
}

/** Fields that are not combined into one line (RFC 9110 §5.3): clients are known to misread their list form. */
const keptApart: ReadonlySet<string> = new Set(['set-cookie', 'www-authenticate', 'proxy-authenticate']);

/** Node's `respond` takes alternating names and values since Node 24.7. */
const mayRespondWithLines = isNodeSince(24, 7);

/** Returns the head of a final response, with Date and Content-Length, in the form that Node's `respond` takes. */
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
 * Converts fields to lines, without connection-specific fields (RFC 9113 §8.2.2). Throws for invalid characters in a name or value:
 * Node itself would treat NUL as the end of a line.
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

/** Converts lines to the header object that some functions of Node need; repeated names as an array. */
export function headersOf(lines: Http2Lines): OutgoingHttpHeaders {
  // No prototype, so that a name such as `__proto__` is an ordinary key.
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
