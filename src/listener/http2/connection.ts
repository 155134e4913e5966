/**
 * One HTTP/2 connection (RFC 9113): reads frames, holds its limits and windows, gives its streams their turns, detects floods, and
 * ends in order.
 */

import type { Socket } from 'node:net';
import { ShortLivedMap, ShortLivedSet } from '../../http/collections.ts';
import type { Hit, Peer, PlainSource, ProxyRequest } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import { retryAfter } from '../../semantics/rate-limit-fields.ts';
import type { UnreadContent } from '../message-body.ts';
import type { ProtocolOptions } from '../protocol.ts';
import { readPlainHttp2Head } from '../request-head.ts';
import { type RateLimits, takenBytes } from '../timeouts.ts';
import type { WriteBuffer } from '../write-buffer.ts';
import { type ExchangeOwner, Http2Exchange } from './exchange.ts';
import {
  type ContentOwner,
  clientPreface,
  errorCode,
  formatDataFrameHead,
  formatGoAway,
  formatHeaders,
  formatPingAck,
  formatReset,
  formatSettings,
  formatWindowUpdate,
  frameFlag,
  frameHeadBytes,
  frameType,
  Http2Output,
  initialWindowBytes,
  largestWindowBytes,
  leastMaxFrameBytes,
  mostMaxFrameBytes,
  readNumber,
  readUnsigned,
  setting,
  settingsAck,
} from './frames.ts';
import { emptyTable, type FieldSection, formatHitHead, HpackDecoder, HpackFault, initialTableBytes } from './hpack.ts';
import { methodOf, receiveHttp2Head, trailersFault } from './receive.ts';

/**
 * How long an ended connection stays open so that the client can read everything (RFC 9112 §9.6): the time without any progress,
 * and the total time. In milliseconds.
 */
const lingerMs = 2_000;
const longestLingerMs = 30_000;

/** Flow-control window of a stream whose body is being read, in bytes. */
export const streamWindowBytes = 256 * 1024;

/**
 * Flow-control windows of a connection, in bytes: at first, and once content is read as it comes. What the client may send, the
 * process may have to keep.
 */
const firstWindowBytes = 256 * 1024;
const connectionWindowBytes = 1024 * 1024;

/** Of what all clients together may keep and do not, one client gets at most this share for wide windows. */
const wideShare = 1 / 4;

/** A window is granted anew when this share of it was used. */
const updateShare = 1 / 2;

/** Overhead per field in SETTINGS_MAX_HEADER_LIST_SIZE, in bytes (RFC 9113 §6.5.2). */
const listOverheadBytes = 32;

/** Field sections up to this many times the limits are read completely, so that they get a 414 or 431 response. */
const readShare = 2;

/** The largest frame that is sent, in bytes: other streams wait for it. */
const mostFrameBytes = 64 * 1024;

/** Maximum number of settings in one frame; there are seven. */
const mostSettings = 32;

/**
 * At this many bytes that the client has not taken, no frame of it is processed: each may need an answer. More than the content that
 * waits at most, so that a large response alone does not hold back what its client sends.
 */
const unsentLimitBytes = 512 * 1024;

/** Hits up to this size are put when their request is read, while no more than this waits for the client. In bytes. */
const smallHitBytes = 16 * 1024;
const hitsAheadBytes = 64 * 1024;

/** After this many received bytes the connection is checked for a flood, besides the periodic check. */
const floodCheckBytes = 256 * 1024;

/** After the end, this much of what the client still sends is dropped before the connection is closed. In bytes. */
const mostDroppedBytes = 1024 * 1024;

/** The most streams that are remembered after they were reset, because frames for them may be under way. */
const mostReset = 1_000;

/** The most gaps in the numbers of streams that are remembered. */
const mostGaps = 100;

const noBytes = Buffer.alloc(0);

/** The server of a connection, as the connection uses it. */
export interface Http2Requests {
  /** Limits of responses: total time and minimum rate. */
  readonly pace: RateLimits;
  /** Minimum rate of request bodies. */
  readonly uploadPace: RateLimits;
  readonly writeBuffer: WriteBuffer;
  /** What the connections may keep of content that is not read. */
  readonly unread: UnreadContent;
  take(exchange: Http2Exchange, request: ProxyRequest): void;
  /** Counts a stream of a client that ended before its response. Returns whether all connections of the client have too many. */
  noteReset(address: string): boolean;
  /** Answers an exchange whose request is refused. */
  refuse(exchange: Http2Exchange, error: ProxyError): void;
}

interface Progress {
  readonly value: number;
  readonly at: number;
}

/** A field section that further CONTINUATION frames belong to (RFC 9113 §6.10). */
interface OpenSection {
  readonly stream: number;
  readonly flags: number;
  readonly parts: Buffer[];
  readonly beganAt: number;
  sizeBytes: number;
}

/** A connection error (RFC 9113 §5.4.1). */
class ConnectionFault extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** One HTTP/2 connection. The server calls `look` periodically; it checks the time limits. */
export class Http2Connection implements ExchangeOwner, PlainSource {
  readonly scheme: 'http' | 'https';
  readonly peer: Peer;
  readonly takesMovable = false;
  known: object | undefined;
  readonly #socket: Socket;
  readonly #options: ProtocolOptions;
  readonly #requests: Http2Requests;
  readonly #flood: FloodMeter;
  readonly #decoder = new HpackDecoder();
  readonly #output: Http2Output;
  /** Received bytes that are not a whole frame yet. */
  #rest: Buffer = noBytes;
  #awaits: 'preface' | 'settings' | 'frames' = 'preface';
  #section: OpenSection | undefined;
  /** Whether received frames are being processed; what they cause is written after the last one. */
  #isReading = false;
  #isPaused = false;
  /** The streams that at least one side has not ended. */
  readonly #streams = new ShortLivedMap<number, Http2Exchange>();
  /** The exchanges that are not over. */
  readonly #running = new ShortLivedSet<Http2Exchange>();
  /** Exchanges with content that may be sent, in the order of their turns. */
  readonly #turns: Http2Exchange[] = [];
  #lastStream = 0;
  /** The streams that GOAWAY has announced to be taken; undefined before it. */
  #lastTaken: number | undefined;
  /** Streams that were reset before the client had ended them. Frames for them are ignored (RFC 9113 §5.1). */
  readonly #resetStreams = new Set<number>();
  /** Numbers that the client has passed over, as ranges: the streams are closed, and must not be opened (RFC 9113 §5.1.1). */
  readonly #gaps: (readonly [first: number, last: number])[] = [];
  /** What the client may be sent on all streams together, what it grants each new stream, and its largest frame. In bytes. */
  #windowBytes = initialWindowBytes;
  #clientWindowBytes = initialWindowBytes;
  #clientFrameBytes = leastMaxFrameBytes;
  /** The header table that the client keeps for us, in bytes, and whether it has become smaller since the last field section. */
  #clientTableBytes = initialTableBytes;
  #isTableSmaller = false;
  /** What the client may send on all streams together, and the bytes read since it was told so. */
  #ownWindowBytes = firstWindowBytes;
  #mostWindowBytes = firstWindowBytes;
  #readBytes = 0;
  /** Request bodies of which something is kept, or may come. The window of the connection is charged to the client meanwhile. */
  #openBodies = 0;
  /** SETTINGS frames that the client has not acknowledged. */
  #openSettings = 1;
  #uncheckedBytes = 0;
  #stage: 'open' | 'draining' | 'finishing' | 'ended' = 'open';
  /** When the last stream was opened, the last exchange ended, or the connection began. In epoch milliseconds. */
  #since: number;
  /** While lingering: the number of bytes taken, and when it last changed. */
  #leaving: Progress | undefined;
  #hadRequest = false;

  constructor(socket: Socket, peer: Peer, options: ProtocolOptions, requests: Http2Requests) {
    this.#socket = socket;
    this.scheme = options.scheme;
    this.peer = peer;
    this.#options = options;
    this.#requests = requests;
    this.#since = options.now();
    this.#flood = new FloodMeter(options.limits.streamsPerConnection, this.#since);
    this.#output = new Http2Output({
      socket,
      buffer: requests.writeBuffer,
      now: options.now,
      onRoom: () => this.#makeRoom(),
    });
    this.#putSettings();
    this.#output.flush();
    socket.on('data', (bytes: Buffer) => this.#receive(bytes));
    // HTTP/2 has no half-closed connections: a client that ends its side is gone.
    socket.once('end', () => this.cut());
    socket.once('close', () => this.#close());
    socket.resume();
  }

  get uploadPace(): RateLimits {
    return this.#requests.uploadPace;
  }

  /** Whether an exchange is running. */
  get isBusy(): boolean {
    return this.#running.size > 0;
  }

  /**
   * Ends the connection after the running exchanges. Waits one turn of the event loop before GOAWAY, to read requests that have
   * already arrived. Streams after the last one that GOAWAY names may be sent again (RFC 9113 §6.8).
   */
  drain(): void {
    if (this.#stage !== 'open') return;
    this.#stage = 'draining';
    setImmediate(() => setImmediate(() => this.#finish()));
  }

  /** Ends the connection at once. */
  cut(): void {
    this.#stage = 'ended';
    this.#socket.destroy();
    this.#close();
  }

  putHeaders(stream: number, section: string, endsStream: boolean): void {
    const text = this.#isTableSmaller ? this.#emptyTableBefore(section) : section;
    this.#output.put(formatHeaders(stream, text, endsStream, this.#clientFrameBytes));
  }

  putPiece(piece: string | Uint8Array): void {
    this.#output.put(piece);
  }

  note(exchange: Http2Exchange, sizeBytes: number): void {
    this.#output.note(exchange, sizeBytes);
  }

  schedule(exchange: Http2Exchange): void {
    this.#giveTurn(exchange);
    this.#pump();
  }

  reset(stream: number, code: number): void {
    const exchange = this.#streams.get(stream);
    if (exchange === undefined || this.#stage === 'ended') return;
    this.#streams.delete(stream);
    exchange.dropContent();
    if (!exchange.isRequestEnded) this.#rememberReset(stream);
    this.#output.put(formatReset(stream, code));
    this.#pump();
  }

  noteEnded(exchange: Http2Exchange): void {
    if (exchange.isMalformed) {
      this.#streams.delete(exchange.stream);
      if (!exchange.isRequestEnded) this.#rememberReset(exchange.stream);
      this.#output.put(formatReset(exchange.stream, errorCode.protocol));
    } else if (exchange.isRequestEnded) this.#streams.delete(exchange.stream);
  }

  noteRead(exchange: Http2Exchange, sizeBytes: number): void {
    exchange.readBytes += sizeBytes;
    if (exchange.readBytes >= exchange.mostWindowBytes * updateShare && !exchange.isRequestEnded) {
      const grantBytes = exchange.readBytes + streamWindowBytes - exchange.mostWindowBytes;
      this.#output.put(formatWindowUpdate(exchange.stream, grantBytes));
      exchange.mostWindowBytes = streamWindowBytes;
      exchange.ownWindowBytes += grantBytes;
      exchange.readBytes = 0;
    }
    this.noteDropped(sizeBytes);
  }

  noteDropped(sizeBytes: number): void {
    this.#readBytes += sizeBytes;
    // Content that is not read holds some of the window: the rest of it must not wait until half of all was read.
    const isDue = this.#readBytes >= Math.min(this.#mostWindowBytes * updateShare, this.#ownWindowBytes);
    if (isDue && this.#readBytes > 0) {
      const grantBytes = this.#readBytes + this.#widen();
      this.#output.put(formatWindowUpdate(0, grantBytes));
      this.#ownWindowBytes += grantBytes;
      this.#readBytes = 0;
    }
    this.#pump();
  }

  /** Widens the window of the connection where its client may have it. Returns by how much, in bytes. */
  #widen(): number {
    const moreBytes = connectionWindowBytes - this.#mostWindowBytes;
    if (moreBytes === 0 || this.#openBodies === 0) return 0;
    if (!this.#requests.unread.take(this.peer.address, moreBytes, wideShare)) return 0;
    this.#mostWindowBytes = connectionWindowBytes;
    return moreBytes;
  }

  /** Counts a request body. Returns false where the client may not have one more. */
  #openBody(): boolean {
    const isCharged = this.#openBodies > 0 || this.#requests.unread.take(this.peer.address, this.#mostWindowBytes, 1);
    if (isCharged) this.#openBodies += 1;
    return isCharged;
  }

  noteBodyClosed(): void {
    this.#openBodies -= 1;
    if (this.#openBodies === 0) this.#requests.unread.giveBack(this.peer.address, this.#mostWindowBytes);
  }

  settle(exchange: Http2Exchange): void {
    if (exchange.place !== undefined) this.#running.delete(exchange.place);
    if (exchange.isScheduled) this.#forgetTurn(exchange);
    const now = this.#options.now();
    // Body bytes that the client sends before it sees the end of the stream must not count as a flood.
    if (exchange.isReceiving) this.#flood.noteUse(exchange.mostWindowBytes);
    this.#since = now;
    if (this.#stage === 'ended') return;
    if (!exchange.isWhole && !exchange.isBroken && this.#isResetFlood(now)) this.#calm('too many streams were reset');
    else this.#endIfDone();
  }

  /** Checks the time limits and the flood limits, and ends what exceeds them. */
  look(now: number): void {
    if (this.#stage === 'ended' || (this.#stage === 'finishing' && !this.isBusy)) {
      this.#linger(takenBytes({ socket: this.#socket }), now);
      return;
    }
    if (this.#isFlooded(now)) this.#calm('too many bytes without content or a request');
    else if (this.#isSectionLate(now)) this.#fail(errorCode.calm, 'a field section took too long');
    else if (this.#stage === 'open' && this.#isUnused(now)) this.drain();
    for (const exchange of this.#running.all) exchange.look(now, this.#options.limits);
  }

  #putSettings(): void {
    const { targetBytes, fieldsBytes, maxFieldCount, streamsPerConnection } = this.#options.limits;
    const mostFields = readShare * maxFieldCount + 4;
    this.#output.put(
      formatSettings([
        [setting.enablePush, 0],
        [setting.maxConcurrentStreams, streamsPerConnection],
        [setting.maxHeaderListSize, readShare * (targetBytes + fieldsBytes) + listOverheadBytes * mostFields],
      ]) + formatWindowUpdate(0, firstWindowBytes - initialWindowBytes),
    );
  }

  #receive(chunk: Buffer): void {
    this.#uncheckedBytes += chunk.length;
    if (this.#stage === 'ended') {
      if (this.#uncheckedBytes > mostDroppedBytes) this.#socket.destroy();
      return;
    }
    if (this.#uncheckedBytes >= floodCheckBytes && this.#isFlooded(this.#options.now())) {
      this.#calm('too many bytes without content or a request');
      return;
    }
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let wasFull: boolean;
    do {
      const bytes = this.#rest;
      this.#rest = noBytes;
      this.#isReading = true;
      try {
        const readBytes = this.#readFrames(bytes);
        if (readBytes < bytes.length) this.#rest = bytes.subarray(readBytes);
      } catch (error) {
        this.#failBy(error);
      } finally {
        this.#isReading = false;
      }
      wasFull = this.#output.unsentBytes > unsentLimitBytes;
      this.#pump();
      // Where the kernel has taken it, the frames after it are processed.
    } while (wasFull && this.#output.unsentBytes <= unsentLimitBytes && this.#isOpen);
    if (wasFull && this.#isOpen) {
      this.#isPaused = true;
      this.#socket.pause();
    }
  }

  #failBy(error: unknown): void {
    if (error instanceof ConnectionFault) this.#fail(error.code, error.message);
    else if (error instanceof HpackFault) this.#fail(errorCode.compression, error.message);
    else throw error;
  }

  get #isOpen(): boolean {
    return this.#stage !== 'ended';
  }

  /**
   * Processes the whole frames in `bytes`, while the output is not full. Returns how many bytes they have. Throws
   * `ConnectionFault` and `HpackFault`.
   */
  #readFrames(bytes: Buffer): number {
    let at = this.#awaits === 'preface' ? this.#readPreface(bytes) : 0;
    if (this.#awaits === 'preface') return at;
    while (bytes.length - at >= frameHeadBytes && this.#output.unsentBytes <= unsentLimitBytes) {
      const sizeBytes = ((bytes[at] as number) << 16) | ((bytes[at + 1] as number) << 8) | (bytes[at + 2] as number);
      if (sizeBytes > leastMaxFrameBytes) throw new ConnectionFault(errorCode.frameSize, 'a frame is too large');
      const start = at + frameHeadBytes;
      const end = start + sizeBytes;
      if (end > bytes.length) break;
      this.#readFrame(bytes[at + 3] as number, bytes[at + 4] as number, readNumber(bytes, at + 5), bytes, start, end);
      if (!this.#isOpen) return bytes.length;
      at = end;
    }
    return at;
  }

  /** RFC 9113 §3.4. Returns how many bytes belong to the preface. */
  #readPreface(bytes: Buffer): number {
    const sizeBytes = Math.min(bytes.length, clientPreface.length);
    if (!bytes.subarray(0, sizeBytes).equals(clientPreface.subarray(0, sizeBytes))) {
      throw new ConnectionFault(errorCode.protocol, 'the preface is invalid');
    }
    if (sizeBytes < clientPreface.length) return 0;
    this.#awaits = 'settings';
    return sizeBytes;
  }

  #readFrame(type: number, flags: number, stream: number, bytes: Buffer, start: number, end: number): void {
    if (this.#section !== undefined && (type !== frameType.continuation || stream !== this.#section.stream)) {
      throw new ConnectionFault(errorCode.protocol, 'a frame within a field section');
    }
    if (this.#awaits === 'settings') {
      if (type !== frameType.settings || (flags & frameFlag.ack) !== 0) {
        throw new ConnectionFault(errorCode.protocol, 'the first frame is not SETTINGS');
      }
      this.#awaits = 'frames';
    }
    switch (type) {
      case frameType.data:
        this.#readData(flags, stream, bytes, start, end);
        break;
      case frameType.headers:
        this.#readHeaders(flags, stream, bytes, start, end);
        break;
      case frameType.continuation:
        this.#readContinuation(flags, bytes.subarray(start, end));
        break;
      case frameType.priority:
        checkFrame(stream !== 0, end - start === 5);
        break;
      case frameType.reset:
        this.#readReset(stream, end - start);
        break;
      case frameType.settings:
        this.#readSettings(flags, stream, bytes.subarray(start, end));
        break;
      case frameType.pushPromise:
        throw new ConnectionFault(errorCode.protocol, 'clients cannot push');
      case frameType.ping:
        checkFrame(stream === 0, end - start === 8);
        if ((flags & frameFlag.ack) === 0) this.#output.put(formatPingAck(bytes.toString('latin1', start, end)));
        break;
      case frameType.goAway:
        checkFrame(stream === 0, end - start >= 8);
        // The client will open no further stream.
        this.drain();
        break;
      case frameType.windowUpdate:
        this.#readWindowUpdate(stream, bytes, start, end);
        break;
      // Frames of unknown types are ignored (RFC 9113 §4.1).
    }
  }

  #readData(flags: number, stream: number, bytes: Buffer, start: number, end: number): void {
    checkFrame(stream !== 0, true);
    const [from, to] = withoutPadding(flags, bytes, start, end);
    const frameBytes = end - start;
    this.#ownWindowBytes -= frameBytes;
    if (this.#ownWindowBytes < 0) throw new ConnectionFault(errorCode.flowControl, 'content beyond the window');
    const exchange = this.#streams.get(stream);
    if (exchange === undefined) {
      this.#checkClosed(stream, 'DATA', (flags & frameFlag.endStream) !== 0);
      this.noteDropped(frameBytes);
      return;
    }
    if (exchange.isRequestEnded) throw new ConnectionFault(errorCode.streamClosed, 'DATA after the end of its stream');
    exchange.ownWindowBytes -= frameBytes;
    if (exchange.ownWindowBytes < 0) throw new ConnectionFault(errorCode.flowControl, 'content beyond the window');
    this.#flood.noteUse(to - from);
    const paddingBytes = frameBytes - (to - from);
    if (paddingBytes > 0) this.noteRead(exchange, paddingBytes);
    const endsStream = (flags & frameFlag.endStream) !== 0;
    const isRight = exchange.receiveContent(bytes.subarray(from, to)) && (!endsStream || exchange.receiveEnd());
    if (!isRight) this.#refuseStream(exchange);
    else if (endsStream && exchange.isEndPut) this.#streams.delete(stream);
    if (endsStream) this.#resetStreams.delete(stream);
  }

  #readHeaders(flags: number, stream: number, bytes: Buffer, start: number, end: number): void {
    checkFrame(stream % 2 === 1, true);
    let [from, to] = withoutPadding(flags, bytes, start, end);
    // The deprecated priority (RFC 9113 §5.3.2) is ignored.
    if ((flags & frameFlag.priority) !== 0) from += 5;
    if (from > to) throw new ConnectionFault(errorCode.frameSize, 'HEADERS without its priority');
    if ((flags & frameFlag.endHeaders) !== 0) this.#readSection(flags, stream, bytes, from, to);
    else {
      const beganAt = this.#options.now();
      const part = bytes.subarray(from, to);
      this.#section = { stream, flags, parts: [part], beganAt, sizeBytes: part.length };
    }
  }

  #readContinuation(flags: number, part: Buffer): void {
    const section = this.#section;
    if (section === undefined) throw new ConnectionFault(errorCode.protocol, 'CONTINUATION without HEADERS');
    section.parts.push(part);
    section.sizeBytes += part.length;
    // Many parts of few bytes each cost more than their bytes (CONTINUATION flood, CVE-2024-27316).
    const isTooLarge = section.sizeBytes > this.#sectionLimitBytes || section.parts.length > mostParts;
    if (isTooLarge) throw new ConnectionFault(errorCode.calm, 'a field section is too large');
    if ((flags & frameFlag.endHeaders) === 0) return;
    this.#section = undefined;
    this.#readSection(section.flags, section.stream, Buffer.concat(section.parts), 0, section.sizeBytes);
  }

  get #sectionLimitBytes(): number {
    const { targetBytes, fieldsBytes, maxFieldCount } = this.#options.limits;
    return readShare * (targetBytes + fieldsBytes) + listOverheadBytes * (readShare * maxFieldCount + 4);
  }

  /** Decodes a whole field section, which the next ones depend on, and finds out what it belongs to. */
  #readSection(flags: number, stream: number, bytes: Buffer, start: number, end: number): void {
    const section = this.#decoder.decode(bytes, start, end, this.#sectionLimitBytes);
    const endsStream = (flags & frameFlag.endStream) !== 0;
    const exchange = this.#streams.get(stream);
    if (exchange !== undefined) this.#readTrailers(exchange, section, endsStream);
    else if (stream > this.#lastStream) this.#openStream(stream, section, endsStream);
    else this.#checkClosed(stream, 'HEADERS', endsStream);
  }

  /**
   * Checks that frames for a stream that is not open may still arrive: it was reset before the client had ended it (RFC 9113 §5.1).
   */
  #checkClosed(stream: number, frame: string, endsStream: boolean): void {
    if (stream > this.#lastStream) throw new ConnectionFault(errorCode.protocol, `${frame} on an idle stream`);
    if (!this.#resetStreams.has(stream)) {
      const isGap = this.#gaps.some(([first, last]) => first <= stream && stream <= last);
      if (isGap) throw new ConnectionFault(errorCode.protocol, 'a stream below an earlier one');
      throw new ConnectionFault(errorCode.streamClosed, `${frame} on a closed stream`);
    }
    if (endsStream) this.#resetStreams.delete(stream);
  }

  /** Checks the trailer section of a request, whose fields are dropped (RFC 9110 §6.5.1). */
  #readTrailers(exchange: Http2Exchange, section: FieldSection, endsStream: boolean): void {
    if (exchange.isRequestEnded)
      throw new ConnectionFault(errorCode.streamClosed, 'HEADERS after the end of its stream');
    const isRight = endsStream && trailersFault(section) === undefined && exchange.receiveEnd();
    if (!isRight) this.#refuseStream(exchange);
    else if (exchange.isEndPut) this.#streams.delete(exchange.stream);
    if (endsStream) this.#resetStreams.delete(exchange.stream);
  }

  #openStream(stream: number, section: FieldSection, endsStream: boolean): void {
    const now = this.#options.now();
    if (stream > this.#lastStream + 2) this.#rememberGap(this.#lastStream + 1, stream - 1);
    this.#lastStream = stream;
    // GOAWAY has told the client that this stream is not taken.
    if (this.#lastTaken !== undefined) {
      if (!endsStream) this.#rememberReset(stream);
      return;
    }
    this.#hadRequest = true;
    this.#since = now;
    let sizeBytes = 0;
    for (const text of section.list) sizeBytes += text.length;
    this.#flood.noteUse(sizeBytes);
    if (this.#streams.size >= this.#options.limits.streamsPerConnection) {
      if (!endsStream) this.#rememberReset(stream);
      this.#output.put(formatReset(stream, errorCode.refusedStream));
      if (this.#isResetFlood(now)) this.#calm('too many streams were refused');
      return;
    }
    if (endsStream && this.#writeHit(stream, section, now)) return;
    this.#beginExchange(stream, section, endsStream, now);
  }

  #createExchange(stream: number, method: string, isRequestEnded: boolean, startedAt: number): Http2Exchange {
    const exchange = new Http2Exchange({
      owner: this,
      stream,
      method,
      isRequestEnded,
      startedAt,
      windowBytes: this.#clientWindowBytes,
    });
    this.#streams.set(stream, exchange);
    exchange.place = this.#running.add(exchange);
    return exchange;
  }

  #beginExchange(stream: number, section: FieldSection, isRequestEnded: boolean, startedAt: number): void {
    const { limits } = this.#options;
    const reception = receiveHttp2Head(section, {
      scheme: this.scheme,
      peer: this.peer,
      receivedAt: startedAt,
      limits,
    });
    const exchange = this.#createExchange(stream, methodOf(section), isRequestEnded, startedAt);
    if (reception.kind === 'refused') {
      exchange.isMalformed = reception.error.code === 'malformed_request';
      this.#refuse(exchange, reception.error);
      return;
    }
    const { head, framing } = reception;
    const hasBody = !isRequestEnded && !(framing.kind === 'length' && framing.sizeBytes === 0);
    if (hasBody && !this.#openBody()) {
      const detail = 'too much content of requests is not read';
      this.#refuse(exchange, new ProxyError('too_many_requests', { detail, fields: [retryAfter(1000)] }));
      return;
    }
    const request = exchange.receive(head, framing);
    // A request without content must not promise any (RFC 9113 §8.1.1).
    if (isRequestEnded && !exchange.receiveEnd()) this.#refuseStream(exchange);
    else this.#requests.take(exchange, request);
  }

  #refuse(exchange: Http2Exchange, error: ProxyError): void {
    this.#reportRefusal(error);
    this.#requests.refuse(exchange, error);
  }

  /** Answers a plain head from memory, where possible. */
  #writeHit(stream: number, section: FieldSection, receivedAt: number): boolean {
    const { handler, limits, now } = this.#options;
    if (handler.hit === undefined || section.fault !== undefined || section.isTooLarge) return false;
    if (this.#output.unsentBytes > hitsAheadBytes) return false;
    const head = readPlainHttp2Head(section.list, { scheme: this.scheme, limits });
    const hit = head && handler.hit(head, this, receivedAt);
    const fields = hit && formatHitHead(hit, receivedAt);
    if (hit === undefined || head === undefined || fields === undefined) return false;
    if (!this.#putHit(stream, hit, fields)) {
      const exchange = this.#createExchange(stream, head.method, true, receivedAt);
      exchange.writeHit(hit, fields, this.#requests.pace, now);
    }
    return true;
  }

  /** Puts a hit as a whole into the next write. Returns false where it is too large for the windows. */
  #putHit(stream: number, hit: Hit, fields: string): boolean {
    const { chunks } = hit;
    const sizeBytes = chunks.length === 0 ? 0 : (hit.sizeBytes ?? 0);
    const mostBytes = Math.min(smallHitBytes, this.#windowBytes, this.#clientWindowBytes, this.#clientFrameBytes);
    if (sizeBytes > mostBytes) return false;
    const section = this.#isTableSmaller ? this.#emptyTableBefore(fields) : fields;
    const head = formatHeaders(stream, section, sizeBytes === 0, this.#clientFrameBytes);
    this.#output.put(sizeBytes === 0 ? head : head + formatDataFrameHead(stream, sizeBytes, true));
    if (sizeBytes > 0) for (const chunk of chunks) this.#output.put(chunk);
    this.#windowBytes -= sizeBytes;
    this.#output.note(new WrittenHit(hit, this.#options.now), sizeBytes);
    return true;
  }

  /** Tells the client that our header table is empty, which it has to hear before the next field (RFC 9113 §4.3.1). */
  #emptyTableBefore(section: string): string {
    this.#isTableSmaller = false;
    return emptyTable + section;
  }

  #readReset(stream: number, sizeBytes: number): void {
    checkFrame(stream !== 0, sizeBytes === 4);
    if (stream > this.#lastStream) throw new ConnectionFault(errorCode.protocol, 'RST_STREAM on an idle stream');
    this.#resetStreams.delete(stream);
    const exchange = this.#streams.get(stream);
    if (exchange === undefined) return;
    this.#streams.delete(stream);
    exchange.noteReset();
  }

  #readSettings(flags: number, stream: number, payload: Buffer): void {
    if ((flags & frameFlag.ack) !== 0) {
      checkFrame(stream === 0, payload.length === 0);
      this.#openSettings -= 1;
      if (this.#openSettings < 0) throw new ConnectionFault(errorCode.protocol, 'SETTINGS acknowledged twice');
      return;
    }
    checkFrame(stream === 0, payload.length % 6 === 0);
    if (payload.length > 6 * mostSettings) throw new ConnectionFault(errorCode.calm, 'too many settings in one frame');
    for (let at = 0; at < payload.length; at += 6) this.#apply(payload.readUInt16BE(at), readUnsigned(payload, at + 2));
    this.#output.put(settingsAck);
  }

  /** Applies one setting of the client (RFC 9113 §6.5.2). Those that do not concern us are ignored. */
  #apply(identifier: number, value: number): void {
    if (identifier === setting.enablePush && value > 1) {
      throw new ConnectionFault(errorCode.protocol, 'SETTINGS_ENABLE_PUSH is neither 0 nor 1');
    }
    if (identifier === setting.maxFrameSize) {
      if (value < leastMaxFrameBytes || value > mostMaxFrameBytes) {
        throw new ConnectionFault(errorCode.protocol, 'SETTINGS_MAX_FRAME_SIZE is invalid');
      }
      this.#clientFrameBytes = Math.min(value, mostFrameBytes);
    }
    if (identifier === setting.initialWindowSize) this.#changeWindows(value);
    if (identifier === setting.headerTableSize) {
      if (value < this.#clientTableBytes) this.#isTableSmaller = true;
      this.#clientTableBytes = value;
    }
  }

  /** RFC 9113 §6.9.2. */
  #changeWindows(windowBytes: number): void {
    if (windowBytes > largestWindowBytes) {
      throw new ConnectionFault(errorCode.flowControl, 'SETTINGS_INITIAL_WINDOW_SIZE is invalid');
    }
    const changeBytes = windowBytes - this.#clientWindowBytes;
    this.#clientWindowBytes = windowBytes;
    for (const exchange of this.#streams.values) {
      exchange.windowBytes += changeBytes;
      if (exchange.windowBytes > largestWindowBytes) {
        throw new ConnectionFault(errorCode.flowControl, 'the window of a stream is too large');
      }
      this.#giveTurn(exchange);
    }
  }

  #readWindowUpdate(stream: number, bytes: Buffer, start: number, end: number): void {
    checkFrame(true, end - start === 4);
    const increment = readNumber(bytes, start);
    if (stream === 0) {
      if (increment === 0) throw new ConnectionFault(errorCode.protocol, 'WINDOW_UPDATE of 0');
      this.#windowBytes += increment;
      if (this.#windowBytes > largestWindowBytes) {
        throw new ConnectionFault(errorCode.flowControl, 'the window of the connection is too large');
      }
      return;
    }
    if (stream > this.#lastStream) throw new ConnectionFault(errorCode.protocol, 'WINDOW_UPDATE on an idle stream');
    const exchange = this.#streams.get(stream);
    if (exchange === undefined) return;
    exchange.windowBytes += increment;
    if (increment === 0) this.#refuseStream(exchange);
    else if (exchange.windowBytes > largestWindowBytes) this.#refuseStream(exchange, errorCode.flowControl);
    else this.#giveTurn(exchange);
  }

  /** A stream error (RFC 9113 §5.4.2): the client has violated the protocol on this stream. */
  #refuseStream(exchange: Http2Exchange, code: number = errorCode.protocol): void {
    this.reset(exchange.stream, code);
    exchange.noteReset();
  }

  #giveTurn(exchange: Http2Exchange): void {
    if (exchange.isScheduled || !exchange.isReady) return;
    exchange.isScheduled = true;
    this.#turns.push(exchange);
  }

  /** Forgets the turn of an exchange that is over: it may wait for as long as the client grants no window. */
  #forgetTurn(exchange: Http2Exchange): void {
    exchange.isScheduled = false;
    const at = this.#turns.indexOf(exchange);
    if (at !== -1) this.#turns.splice(at, 1);
  }

  /** Puts content of the exchanges into frames, a frame of each in turn, and writes it. */
  #pump(): void {
    do {
      this.#putTurns();
      if (this.#isReading) return;
      this.#output.flush();
      // Where the kernel has taken everything at once, there is room again.
    } while (this.#turns.length > 0 && this.#windowBytes > 0 && this.#output.hasRoom);
  }

  #putTurns(): void {
    while (this.#turns.length > 0 && this.#windowBytes > 0 && this.#output.hasRoom) {
      const exchange = this.#turns.shift() as Http2Exchange;
      exchange.isScheduled = false;
      if (!exchange.isReady) continue;
      this.#windowBytes -= exchange.putContent(Math.min(this.#windowBytes, this.#clientFrameBytes));
      this.#giveTurn(exchange);
    }
  }

  /** A write has left the process. */
  #makeRoom(): void {
    if (!this.#isOpen) return;
    this.#pump();
    if (!this.#isPaused || this.#output.unsentBytes > unsentLimitBytes) return;
    this.#isPaused = false;
    this.#receive(noBytes);
    if (!this.#isPaused) this.#socket.resume();
  }

  #rememberReset(stream: number): void {
    this.#resetStreams.add(stream);
    if (this.#resetStreams.size <= mostReset) return;
    const [oldest] = this.#resetStreams;
    if (oldest !== undefined) this.#resetStreams.delete(oldest);
  }

  #rememberGap(first: number, last: number): void {
    this.#gaps.push([first, last]);
    if (this.#gaps.length > mostGaps) this.#gaps.shift();
  }

  #isFlooded(now: number): boolean {
    this.#uncheckedBytes = 0;
    const sentBytes = takenBytes({ socket: this.#socket });
    return this.#flood.isFlooded({ receivedBytes: this.#socket.bytesRead, sentBytes }, now);
  }

  /** Counts a stream that ended before its response, for the connection and for its client, which may open others. */
  #isResetFlood(now: number): boolean {
    const isClientFlooding = this.#requests.noteReset(this.peer.address);
    return this.#flood.noteReset(now) || isClientFlooding;
  }

  /** Whether a field section has not ended in the time for a request head. */
  #isSectionLate(now: number): boolean {
    const { headersTimeoutMs } = this.#options.limits;
    return this.#section !== undefined && headersTimeoutMs > 0 && now - this.#section.beganAt >= headersTimeoutMs;
  }

  /** Whether the connection has exceeded its time limit without a request. */
  #isUnused(now: number): boolean {
    if (this.isBusy) return false;
    const { headersTimeoutMs, keepAliveTimeoutMs, idleTimeoutMs } = this.#options.limits;
    const patienceMs = this.#hadRequest ? keepAliveTimeoutMs || idleTimeoutMs : headersTimeoutMs;
    return patienceMs > 0 && now - this.#since >= patienceMs;
  }

  /** Gives the client time to take the remaining bytes and to end its side, then destroys the socket. */
  #linger(sentBytes: number, now: number): void {
    if (this.#leaving?.value !== sentBytes) this.#leaving = { value: sentBytes, at: now };
    else if (now - this.#leaving.at >= lingerMs || now - this.#since >= longestLingerMs) this.#socket.destroy();
  }

  /** Takes no further stream. The connection ends after the running ones. */
  #finish(): void {
    if (this.#stage !== 'draining') return;
    this.#stage = 'finishing';
    this.#lastTaken = this.#lastStream;
    this.#output.put(formatGoAway(this.#lastTaken, errorCode.none));
    this.#pump();
    this.#endIfDone();
  }

  #endIfDone(): void {
    if (this.#stage !== 'finishing' || this.isBusy) return;
    this.#since = this.#options.now();
    this.#endSocket();
  }

  /** Ends our side, after everything that was written. What the client still sends is read and dropped. */
  #endSocket(): void {
    this.#stage = 'ended';
    this.#output.flush();
    this.#socket.end();
    this.#socket.resume();
  }

  /** Ends the connection of a flooding client with ENHANCE_YOUR_CALM. */
  #calm(detail: string): void {
    this.#end(errorCode.calm, new ProxyError('rate_limited', { detail }));
  }

  /** Handles a connection error (RFC 9113 §5.4.1). */
  #fail(code: number, detail: string): void {
    this.#end(code, new ProxyError('malformed_request', { detail }));
  }

  #end(code: number, error: ProxyError): void {
    if (!this.#isOpen) return;
    this.#reportRefusal(error);
    this.#output.put(formatGoAway(this.#lastTaken ?? this.#lastStream, code));
    this.#since = this.#options.now();
    this.#endSocket();
    this.#endExchanges();
  }

  /** The socket is closed, or about to be. */
  #close(): void {
    this.#stage = 'ended';
    this.#output.close();
    this.#endExchanges();
  }

  #endExchanges(): void {
    for (const exchange of this.#running.all) exchange.noteLost();
  }

  #reportRefusal(error: ProxyError): void {
    const { code, detail, status } = error;
    this.#options.emit({ kind: 'refusal', peer: this.peer.address, status, error: code, detail });
  }
}

/** A hit whose response was put as a whole when its request was read. */
class WrittenHit implements ContentOwner {
  readonly #hit: Hit;
  readonly #now: () => number;

  constructor(hit: Hit, now: () => number) {
    this.#hit = hit;
    this.#now = now;
  }

  noteWaiting(): void {
    this.#hit.begin();
  }

  noteTaken(sizeBytes: number): void {
    this.#hit.giveBack();
    this.#hit.onDelivered({ bytesSent: sizeBytes, complete: true }, this.#now());
  }

  noteLost(): void {
    this.#hit.onDelivered({ bytesSent: 0, complete: false, error: new ProxyError('client_gone') }, this.#now());
  }
}

/** The most CONTINUATION frames of one field section. */
const mostParts = 64;

/** Checks the stream and the size of a frame. Throws `ConnectionFault`. */
function checkFrame(isRightStream: boolean, isRightSize: boolean): void {
  if (!isRightStream) throw new ConnectionFault(errorCode.protocol, 'a frame on the wrong stream');
  if (!isRightSize) throw new ConnectionFault(errorCode.frameSize, 'a frame of the wrong size');
}

/** Returns where the payload of a DATA or HEADERS frame begins and ends, without its padding (RFC 9113 §6.1). */
function withoutPadding(flags: number, bytes: Buffer, start: number, end: number): [from: number, to: number] {
  if ((flags & frameFlag.padded) === 0) return [start, end];
  const from = start + 1;
  const to = end - (bytes[start] as number);
  if (start === end || from > to) throw new ConnectionFault(errorCode.protocol, 'more padding than payload');
  return [from, to];
}

/**
 * Allowed resets: a burst per permitted concurrent stream, and a number per second. A browser cancels all pictures of a page at each
 * reload: 60 twice a second are no flood. A flood is thousands a second.
 */
const resetsPerStream = 4;
const resetsPerSecond = 200;

/** Allowed bytes without content or a request: a burst, and a number per second. */
const idleBytes = 1024 * 1024;
const idleBytesPerSecond = 16 * 1024;

/** Share of the sent bytes that a client may send back as WINDOW_UPDATE and similar frames. */
const answerShare = 1 / 32;

/** Maximum credit for later bytes without content or a request, in bytes. */
const mostCredit = 4 * 1024 * 1024;

/** Bytes that a connection has received and sent so far. */
interface Traffic {
  readonly receivedBytes: number;
  readonly sentBytes: number;
}

/**
 * Detects floods on one connection. Counts streams that end before their response, unless the proxy ended them: reset by the client
 * (rapid reset, CVE-2023-44487), or by us because of the client (CVE-2025-8671). Also counts bytes without content or a request:
 * control frames, empty frames, padding, refused header lists.
 */
class FloodMeter {
  readonly #mostResets: number;
  #resets = 0;
  #resetAt = 0;
  #idle = 0;
  #idleAt: number;
  #usefulBytes = 0;
  #counted: Traffic = { receivedBytes: 0, sentBytes: 0 };

  constructor(streamsPerConnection: number, now: number) {
    this.#mostResets = resetsPerStream * streamsPerConnection;
    this.#idleAt = now;
  }

  /** Counts a stream that has ended before its response. Returns whether the limit is exceeded. */
  noteReset(now: number): boolean {
    const forgiven = ((now - this.#resetAt) / 1000) * resetsPerSecond;
    this.#resets = Math.max(0, this.#resets - forgiven) + 1;
    this.#resetAt = now;
    return this.#resets > this.#mostResets;
  }

  /** Counts useful bytes: of a request head or body. */
  noteUse(sizeBytes: number): void {
    this.#usefulBytes += sizeBytes;
  }

  /** Counts the traffic since the last call. Returns whether the limit of useless bytes is exceeded. */
  isFlooded(traffic: Traffic, now: number): boolean {
    const received = traffic.receivedBytes - this.#counted.receivedBytes;
    const sent = traffic.sentBytes - this.#counted.sentBytes;
    const forgiven = ((now - this.#idleAt) / 1000) * idleBytesPerSecond;
    const idle = this.#idle + received - this.#usefulBytes - sent * answerShare - forgiven;
    this.#idle = Math.max(-mostCredit, idle);
    this.#idleAt = now;
    this.#counted = traffic;
    this.#usefulBytes = 0;
    return this.#idle > idleBytes;
  }
}
