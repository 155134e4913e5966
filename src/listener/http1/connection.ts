/**
 * One HTTP/1 connection. Reads requests, writes hits at once, sends the responses of other exchanges in the order of their
 * requests (pipelining, RFC 9112 §9.3.2), and decides when the connection ends.
 */

import type { Socket } from 'node:net';
import { ownText } from '../../bytes/own-memory.ts';
import { type ClientConnection, endOwners } from '../../http/client-connection.ts';
import { memoizeByText } from '../../http/collections.ts';
import type { CachedFields, Handler, Hit, Peer, PlainHead, PlainSource } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import { isSafeMethod } from '../../semantics/method.ts';
import type { Emit } from '../../telemetry/events.ts';
import { type HeadLimits, type ParsedHead, toParsedHead } from '../request-head.ts';
import {
  type After,
  type ClientProgress,
  type ConnectionPhase,
  ConnectionWatch,
  type RateLimits,
  type Timeouts,
  takenBytes,
} from '../timeouts.ts';
import type { WriteBuffer } from '../write-buffer.ts';
import { type HeadParser, PartialHead } from './head-parser.ts';
import type { RequestBody } from './request-body.ts';
import {
  type DateLine,
  formatFieldLines,
  formatLastProblem,
  formatLine,
  formatStatusLine,
  takesMovable,
} from './response-writer.ts';

/** The parts that read requests and write responses, shared by all connections of a server. */
interface ConnectionContext {
  readonly emit: Emit;
  /** Returns the time in epoch milliseconds. */
  readonly now: () => number;
  readonly after: After;
  readonly limits: HeadLimits;
  readonly timeouts: Timeouts;
  /** Minimum rate of request bodies. */
  readonly uploadPace: RateLimits;
  readonly writeBuffer: WriteBuffer;
  readonly dateLine: DateLine;
  /** The lines of Connection and Keep-Alive for a persistent connection. */
  readonly keepAlive: string;
  readonly scheme: 'http' | 'https';
  readonly handler: Handler;
  readonly pace: RateLimits;
  /** Parses heads that arrive in one read; others get a `PartialHead`. */
  readonly parser: HeadParser;
}

/** Maximum number of unanswered requests on a connection. The connection ends after them. */
const pipelinedRequests = 100;

/** The server of a connection, as the connection uses it. */
export interface ConnectionOwner extends ConnectionContext {
  /** Takes a request whose head is complete. `rest` is the bytes received after the head. */
  take(connection: Connection, parsed: ParsedHead, rest: Buffer): void;
  /** Sends a hit from its file (sendfile). */
  sendFile(connection: Connection, head: PlainHead, hit: Hit, file: NonNullable<Hit['file']>): void;
  forget(connection: Connection): void;
}

const noBytes = Buffer.alloc(0);

/** One HTTP/1 connection. `#stage`: `draining` takes one further request; `finishing` takes none and ends after the running ones. */
export class Connection implements SocketUser, PlainSource, ClientConnection {
  readonly socket: Socket;
  readonly scheme: 'http' | 'https';
  readonly peer: Peer;
  readonly takesMovable: boolean;
  known: object | undefined;
  owners: ClientConnection['owners'];
  readonly context: ConnectionOwner;
  movedBytes = 0;
  readonly #pipeline: Pipeline;
  #stage: 'open' | 'draining' | 'finishing' | 'tunnel' | 'ended' = 'open';
  #isRetired = false;
  /** The error of a refused request, to be sent after the running exchanges. */
  #refusal: ProxyError | undefined;
  /** The received part of an incomplete head. */
  #held: PartialHead | undefined;
  /** The request body that is being received. Its exchange may already be over. */
  #body: RequestBody | undefined;
  /** Number of requests that have begun. */
  #requests = 0;
  #watch: ConnectionWatch | undefined;

  constructor(socket: Socket, peer: Peer, context: ConnectionOwner) {
    this.socket = socket;
    this.scheme = context.scheme;
    this.peer = peer;
    this.takesMovable = takesMovable(socket);
    this.context = context;
    this.#pipeline = new Pipeline(socket);
    useSocket(socket, this);
  }

  /** Whether a further request may be taken. */
  get isOpen(): boolean {
    return this.#stage === 'open' || this.#stage === 'draining';
  }

  /** Whether the connection has no exchange, no tunnel, and no part of a request head. */
  get isIdle(): boolean {
    return this.isOpen && this.#pipeline.length === 0 && this.#held === undefined;
  }

  get isEnded(): boolean {
    return this.#stage === 'ended';
  }

  /** Whether the connection may become a tunnel: no end is decided and no response is due. */
  get isFree(): boolean {
    return this.#stage === 'open' && this.#pipeline.length === 0;
  }

  receive(chunk: Buffer): void {
    let bytes = chunk;
    while (bytes.length > 0 && this.#stage !== 'ended' && this.#stage !== 'tunnel') {
      bytes = this.#body === undefined ? this.#readHead(bytes) : this.#readBody(bytes, this.#body);
    }
  }

  /** Reads the following bytes as this request body. */
  receiveBody(body: RequestBody): void {
    this.#body = body;
  }

  /**
   * Handles the client's FIN. A client may end its side when it has sent its requests, and still reads their responses (RFC 9112
   * §9.6). One that has closed the connection answers the next bytes with a reset, and counts as gone where none come for a while.
   */
  receiveEnd(): void {
    if (this.#held !== undefined || this.#body !== undefined) this.cut();
    else if (this.#pipeline.length > 0) {
      this.finish();
      this.#cutUnlessTaken();
    } else this.end();
  }

  /** Cuts the connection where nothing is sent to the client for a while (RFC 9293 §3.6). A client that is slow to read has its own limits. */
  #cutUnlessTaken(): void {
    const { after, timeouts } = this.context;
    const taken = takenBytes(this);
    after(timeouts.halfClosedMs, () => {
      if (this.#stage === 'ended') return;
      if (takenBytes(this) === taken && !this.#pipeline.isWaitingForClient) this.cut();
      else this.#cutUnlessTaken();
    });
  }

  makeRoom(): void {
    this.#pipeline.makeRoom();
  }

  close(): void {
    this.#stage = 'ended';
    this.#pipeline.connectionClosed();
    endOwners(this);
    this.context.forget(this);
  }

  /** Stops reading until `resume`. */
  pause(): void {
    if (this.#stage !== 'ended') this.socket.pause();
  }

  resume(): void {
    if (this.#stage !== 'tunnel') this.socket.resume();
  }

  /** Adds an exchange. On a closed connection the exchange ends at once. */
  begin(exchange: RunningExchange): void {
    if (this.socket.closed) {
      exchange.connectionClosed();
      return;
    }
    this.#pipeline.add(exchange);
    const isLast = this.#stage === 'draining' || this.#isRetired || this.#pipeline.length >= pipelinedRequests;
    if (isLast) this.finish();
    this.passTurn();
  }

  /** Gives the turn to the first exchange that has not written its whole response. */
  passTurn(): void {
    this.#pipeline.passTurn();
  }

  /** Removes an exchange that is over, complete or not. */
  settle(exchange: RunningExchange): void {
    this.#pipeline.remove(exchange);
    if (exchange.isLast) this.end();
    else if (this.#pipeline.first?.isBroken === true) this.cut();
    if (this.#pipeline.length > 0) return;
    if (this.#refusal !== undefined) this.#answerRefusal(this.#refusal);
    else if (this.#stage === 'draining' || this.#stage === 'finishing') this.end();
  }

  /** Whether no response follows that of this exchange. */
  isLast(exchange: RunningExchange): boolean {
    return !this.isOpen && this.#refusal === undefined && this.#pipeline.last === exchange;
  }

  /** Takes no further request. The connection ends after the running ones. */
  finish(): void {
    if (this.isOpen) this.#stage = 'finishing';
  }

  /** Takes one further request, and ends after it. */
  finishAfterNext(): void {
    if (this.#stage === 'open') this.#stage = 'draining';
  }

  /**
   * Takes one further request, whenever it comes, and ends after it. Keep-alive may have been promised to the client, and only a
   * response can state `Connection: close`.
   */
  retire(): void {
    this.#isRetired = true;
  }

  /** Ends after the running exchanges; without any, after one further request. */
  drain(): void {
    if (this.#pipeline.length > 0) this.finish();
    else this.finishAfterNext();
  }

  /** Checks the time limits, and ends what exceeds them. To be called periodically. */
  look(): void {
    if (this.#stage === 'tunnel') return;
    this.#watch ??= new ConnectionWatch(this.context.timeouts);
    const passed = this.#watch.look({
      waiting: this.#waiting,
      requests: this.#requests,
      progress: this.socket.bytesRead + takenBytes(this),
      isClientsTurn: this.#pipeline.length === 0 || this.#pipeline.isWaitingForClient,
    });
    if (passed === undefined) return;
    const canBeTold = this.isOpen || this.#pipeline.receiving !== undefined;
    if (this.isIdle) this.end();
    else if (passed === 'quiet' && (this.socket.writableLength > 0 || !canBeTold)) this.cut();
    else this.refuse(new ProxyError('request_timeout'));
  }

  /** Handles invalid or late input. It fails the request whose body it belongs to; otherwise an error response is sent. */
  refuse(error: ProxyError): void {
    const { receiving } = this.#pipeline;
    if (receiving === undefined && !this.isOpen) return;
    this.finish();
    this.#held = undefined;
    this.#body = undefined;
    if (receiving !== undefined) {
      receiving.breakBody(error);
      return;
    }
    this.reportRefusal(error);
    this.#refusal = error;
    if (this.#pipeline.length === 0) this.#answerRefusal(error);
  }

  reportRefusal(error: ProxyError): void {
    const { code, detail, status } = error;
    this.context.emit({ kind: 'refusal', peer: this.peer.address, status, error: code, detail });
  }

  /** Hands the socket over to a tunnel. */
  becomeTunnel(): void {
    this.#stage = 'tunnel';
    stopReading(this.socket);
    // The tunnel ends the socket with `destroySoon`. Node's own closes it before the client has read everything.
    this.socket.destroySoon = () => this.end();
  }

  /** Takes the socket back from a tunnel that did not open. The connection ends after one response, unless it goes on. */
  becomeAnswer(goesOn: boolean): void {
    if (this.#stage !== 'tunnel') return;
    this.#stage = goesOn ? 'open' : 'finishing';
    if (goesOn) readAgain(this.socket);
  }

  /** Ends the connection, with time for the client to read what was sent. */
  end(): void {
    if (this.#stage === 'ended') return;
    this.#stage = 'ended';
    this.#held = undefined;
    this.#body = undefined;
    endSlowly(this.socket, this.context.after);
  }

  /** Ends the connection at once, with a reset where an incomplete response could look complete otherwise. */
  cut(): void {
    this.#stage = 'ended';
    if (this.#pipeline.isCloseDelimited) this.socket.resetAndDestroy();
    else this.socket.destroy();
  }

  /** Cuts the connection because this exchange's response broke off, but not before the responses ahead of it are sent. */
  cutAt(exchange: RunningExchange): void {
    if (this.#pipeline.first === exchange) this.cut();
    else this.finish();
  }

  get #waiting(): ConnectionPhase {
    if (this.#held !== undefined) return 'head';
    if (this.#pipeline.length > 0) return this.#body === undefined ? 'nothing' : 'body';
    if (!this.isOpen) return 'nothing';
    return this.#requests === 0 ? 'first' : 'next';
  }

  /** Reads a request head. Returns the bytes after it. */
  #readHead(bytes: Buffer): Buffer {
    const { parser } = this.context;
    const isBusy = this.#stage !== 'open' || this.#pipeline.running.length > 0;
    // Bytes after the last request (RFC 9112 §9.6) are not read while responses are due.
    if (isBusy && (!this.isOpen || (this.#held === undefined && this.#pipeline.isFull))) {
      this.#pipeline.holdBack(bytes);
      return noBytes;
    }
    if (this.#held === undefined) this.#requests += 1;
    const reading = this.#held === undefined ? parser.readFirst(bytes) : this.#held.read(bytes);
    if (reading.kind === 'plain') {
      const rest = reading.sizeBytes === bytes.length ? noBytes : bytes.subarray(reading.sizeBytes);
      if (isBusy || this.#isRetired || !this.#writeHit(reading.head))
        this.context.take(this, toParsedHead(reading.head), rest);
      return rest;
    }
    if (reading.kind === 'more') {
      this.#held ??= new PartialHead(this.context.limits, bytes);
      return noBytes;
    }
    const all = this.#held?.bytes ?? bytes;
    this.#held = undefined;
    if (reading.kind === 'fault') {
      this.refuse(new ProxyError(reading.code, { detail: reading.detail }));
      return noBytes;
    }
    return this.#take(reading.head, all, reading.sizeBytes);
  }

  /** Takes a request, but one with an unsafe method only when no other runs. Returns the bytes after its head. */
  #take(head: ParsedHead, bytes: Buffer, sizeBytes: number): Buffer {
    if (this.#pipeline.length > 0 && !isSafeMethod(head.method)) {
      // It is counted when it is read again.
      this.#requests -= 1;
      this.#pipeline.holdBackAll(bytes);
      return noBytes;
    }
    const rest = bytes.subarray(sizeBytes);
    this.context.take(this, head, rest);
    return rest;
  }

  /**
   * Answers a plain head from memory, where possible. Requires that no other response is due and that the connection persists. An
   * origin that knows the client by its connection may have another response for it, so all its requests go there.
   */
  #writeHit(head: PlainHead): boolean {
    const { handler, now } = this.context;
    if (handler.hit === undefined || this.owners !== undefined || this.socket.writableLength > 0) return false;
    const receivedAt = now();
    const hit = handler.hit(head, this, receivedAt);
    if (hit?.file === undefined) return hit !== undefined && writeHit(this, hit, receivedAt);
    this.context.sendFile(this, head, hit, hit.file);
    return true;
  }

  /** Passes bytes to a request body. Returns the bytes after it. */
  #readBody(bytes: Buffer, body: RequestBody): Buffer {
    const rest = body.receive(bytes);
    if (rest instanceof ProxyError) {
      this.refuse(rest);
      return noBytes;
    }
    if (body.isComplete) this.#body = undefined;
    return rest;
  }

  #answerRefusal(error: ProxyError): void {
    this.#refusal = undefined;
    if (this.socket.writable) this.socket.write(formatLastProblem(error, this.context.now()), 'latin1');
    this.end();
  }
}

/** At this many response bytes that the client has not taken, no further request is read. */
const untakenLimitBytes = 64 * 1024;

/** Shared by idle connections, to save memory. */
const none: readonly RunningExchange[] = [];

/** The running exchanges of a connection, in the order of their requests. */
export class Pipeline {
  readonly #socket: Socket;
  running: readonly RunningExchange[] = none;
  /** Whether received bytes were put back unread. */
  #isHeldBack = false;
  /** Whether the next request waits until all responses are over. */
  #isSerial = false;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  get length(): number {
    return this.running.length;
  }

  get first(): RunningExchange | undefined {
    return this.running[0];
  }

  get last(): RunningExchange | undefined {
    return this.running.at(-1);
  }

  /** The exchange whose request body is still being received. */
  get receiving(): RunningExchange | undefined {
    return this.running.find(({ isReceiving }) => isReceiving);
  }

  get isCloseDelimited(): boolean {
    return this.running.some(({ isCloseDelimited }) => isCloseDelimited);
  }

  get isWaitingForClient(): boolean {
    return this.running.some(({ isWaitingForClient }) => isWaitingForClient);
  }

  /**
   * Whether the next request is not read yet: the client has to take some bytes before, because a few bytes can request many
   * responses; or a request runs that runs alone.
   */
  get isFull(): boolean {
    if (this.running.length === 0) return false;
    if (this.#isSerial || this.last?.isUnsafe === true) return true;
    const waitingBytes = this.running.reduce((sum, exchange) => sum + exchange.waitingBytes, 0);
    return this.#socket.writableLength + waitingBytes >= untakenLimitBytes;
  }

  add(exchange: RunningExchange): void {
    this.running = [...this.running, exchange];
  }

  remove(exchange: RunningExchange): void {
    const others = this.running.filter((running) => running !== exchange);
    this.running = others.length === 0 ? none : others;
    this.#readOn();
  }

  /**
   * Gives the turn to the first exchange that has not written its whole response. Waits while the socket is full, because TLS
   * copies everything that is written then. No response follows one that has `Connection: close`.
   */
  passTurn(): void {
    if (this.#socket.writableNeedDrain) return;
    const next = this.running.find(({ isLast, isWritten }) => isLast || !isWritten);
    if (next?.isWritten === false) next.takeTurn();
  }

  /** Continues when the socket takes more bytes. */
  makeRoom(): void {
    this.passTurn();
    this.#readOn();
  }

  /** Puts received bytes back and stops reading, at least while the pipeline is full. */
  holdBack(bytes: Buffer): void {
    this.#isHeldBack = true;
    // Paused before `unshift`: a flowing socket would emit the bytes again.
    this.#socket.pause();
    this.#socket.unshift(bytes);
  }

  /** Puts a request with an unsafe method back until all responses are over: only safe ones may run together (RFC 9112 §9.3.2). */
  holdBackAll(bytes: Buffer): void {
    this.#isSerial = true;
    this.holdBack(bytes);
  }

  connectionClosed(): void {
    for (const exchange of this.running) exchange.connectionClosed();
  }

  #readOn(): void {
    if (!this.#isHeldBack || this.isFull) return;
    this.#isHeldBack = false;
    this.#isSerial = false;
    this.#socket.resume();
  }
}

/** How long a socket is still read after its end was sent (RFC 9112 §9.6), in milliseconds. */
const lingerMs = 2_000;

/** The receiver of a socket's events. */
interface SocketUser {
  receive(chunk: Buffer): void;
  /** The client has ended its side (FIN). */
  receiveEnd(): void;
  /** The socket takes more bytes. */
  makeRoom(): void;
  /** The socket is closed. */
  close(): void;
}

const user = Symbol('user');
type UsedSocket = Socket & { [user]?: SocketUser };

/** Sends the events of a socket to `newUser`, through shared listeners: a closure per connection would cost memory. */
function useSocket(socket: Socket, newUser: SocketUser): void {
  (socket as UsedSocket)[user] = newUser;
  socket.on('data', onData).on('end', onEnd).on('drain', onDrain).on('close', onClose);
}

/** Restores what `stopReading` has stopped. */
function readAgain(socket: Socket): void {
  socket.on('data', onData).on('end', onEnd).resume();
}

/** Stops the `data` and `end` events, so that a tunnel can read the socket. */
function stopReading(socket: Socket): void {
  socket.off('data', onData).off('end', onEnd).pause();
}

/**
 * Ends the server's side, then reads and drops bytes for `lingerMs`. Closing at once could reset the connection before the client
 * has read the last response (RFC 9112 §9.6).
 */
function endSlowly(socket: Socket, after: After): void {
  socket.end(() => {
    socket.once(
      'close',
      after(lingerMs, () => socket.destroy()),
    );
  });
  socket.resume();
}

function onData(this: UsedSocket, chunk: Buffer): void {
  this[user]?.receive(chunk);
}

function onEnd(this: UsedSocket): void {
  this[user]?.receiveEnd();
}

function onDrain(this: UsedSocket): void {
  this[user]?.makeRoom();
}

function onClose(this: UsedSocket): void {
  this[user]?.close();
}

/** An exchange, as its connection uses it. */
export interface RunningExchange {
  /** Whether its request body is still being received. */
  readonly isReceiving: boolean;
  /** Whether only the client can make progress, by sending or by reading. */
  readonly isWaitingForClient: boolean;
  /** Whether the end of the connection delimits its response. Then only a reset shows that the response broke off. */
  readonly isCloseDelimited: boolean;
  /** Whether its response has `Connection: close`. Then no later exchange gets a response. */
  readonly isLast: boolean;
  /** Whether its request may change something, so that no later one runs beside it. */
  readonly isUnsafe: boolean;
  /** Whether its response broke off. */
  readonly isBroken: boolean;
  /** Whether its whole response was written to the socket, so that the next one may follow. */
  readonly isWritten: boolean;
  /** Bytes of its response that wait for the responses before it. */
  readonly waitingBytes: number;
  /** Called when all earlier responses were written and the socket takes more bytes. May be called repeatedly. */
  takeTurn(): void;
  /** Fails its request body, which can no longer be complete. */
  breakBody(error: ProxyError): void;
  /** The connection is closed. */
  connectionClosed(): void;
}

/** A connection, as a hit uses it. */
interface HitPlace {
  readonly socket: Socket;
  readonly context: Pick<ConnectionContext, 'writeBuffer' | 'dateLine' | 'keepAlive' | 'pace' | 'now'>;
  readonly movedBytes: number;
  readonly takesMovable: boolean;
  begin(exchange: RunningExchange): void;
  cutAt(exchange: RunningExchange): void;
  settle(exchange: RunningExchange): void;
}

const statusLines = new Map([200, 206, 304].map((status) => [status, formatStatusLine(status)]));

/**
 * Writes a hit. If the kernel does not take all bytes at once, the hit becomes an exchange until it has. Returns false, without any
 * effect, where a field cannot be written. `now` in epoch milliseconds.
 */
function writeHit(connection: HitPlace, hit: Hit, now: number): boolean {
  const { status, fields, ageSeconds, cacheStatus, contentRange, more, sizeBytes, chunks } = hit;
  if (fields.text === undefined) keepText(fields);
  if (fields.text === false) return false;
  const { dateLine, keepAlive, writeBuffer, pace } = connection.context;
  let head = `${statusLines.get(status)}${fields.text}${fields.moreText}Age: ${ageSeconds}\r\nCache-Status: ${cacheStatus}\r\n`;
  if (contentRange !== undefined) head += `Content-Range: ${contentRange}\r\n`;
  for (const [name, value] of more) head += formatLine(name, value);
  if (!fields.hasDate) head += dateLine.at(now);
  if (sizeBytes !== undefined) head += `Content-Length: ${sizeBytes}\r\n`;
  head += `${keepAlive}\r\n`;
  if (!connection.takesMovable) {
    // Over TLS only the callback tells whether the bytes were taken.
    const written = new WrittenHit(connection, hit, pace);
    writeBuffer.write(connection.socket, head, chunks, (error) =>
      written.settle(error === null || error === undefined),
    );
  } else if (writeBuffer.write(connection.socket, head, chunks)) {
    hit.giveBack();
    hit.onDelivered({ bytesSent: chunks.length === 0 ? 0 : (sizeBytes ?? 0), complete: true }, now);
  } else {
    new WrittenHit(connection, hit, pace).waitForEnd();
  }
  return true;
}

/** The pace watches only larger hits. For smaller ones the idle timeout is enough: it ends a client that reads nothing. In bytes. */
const watchedBytes = 16 * 1024;

/** Formats the fields that hits of one stored response share; `text` becomes false where a field cannot be written. */
function keepText(fields: CachedFields): void {
  try {
    const { text, hasDate } = formatFieldLines(fields.lines());
    const { storedText } = fields;
    const isStored = storedText !== undefined && text.startsWith(storedText);
    // Flattens the string: V8 would keep all the parts that it was concatenated from.
    fields.text = isStored ? storedText : Buffer.from(text, 'latin1').toString('latin1');
    fields.moreText = isStored ? keptMoreText(text.slice(storedText.length)) : '';
    fields.hasDate = hasDate;
  } catch {
    fields.text = false;
  }
}

/** The lines that follow those of the stored response are the same for most responses, such as Via. */
const keptMoreText = memoizeByText(64, (text) => ownText(text));

/** A written hit that the kernel has not taken completely yet. */
class WrittenHit implements RunningExchange, ClientProgress {
  readonly isReceiving = false;
  readonly isWaitingForClient = true;
  readonly isCloseDelimited = false;
  readonly isLast = false;
  readonly isUnsafe = false;
  readonly isWritten = true;
  readonly waitingBytes = 0;
  readonly isBehind = true;
  readonly #connection: HitPlace;
  readonly #hit: Hit;
  readonly #endWatch: (() => void) | undefined;
  #error: ProxyError | undefined;
  #isSettled = false;

  constructor(connection: HitPlace, hit: Hit, pace: RateLimits) {
    this.#connection = connection;
    this.#hit = hit;
    const isWatched = (hit.sizeBytes ?? 0) > watchedBytes;
    this.#endWatch = isWatched ? pace.watch(this, (error) => this.#giveUp(error)) : undefined;
    hit.begin();
    connection.begin(this);
  }

  /** Waits until the kernel has taken what was written. */
  waitForEnd(): void {
    const { socket } = this.#connection;
    if (socket.writable) socket.write('', (error) => this.settle(error === null || error === undefined));
  }

  get isBroken(): boolean {
    return this.#error !== undefined;
  }

  get takenBytes(): number {
    return takenBytes(this.#connection);
  }

  takeTurn(): void {}

  breakBody(): void {}

  connectionClosed(): void {
    this.settle(false);
  }

  /** Ends the exchange: the kernel has taken everything, or will take no more. */
  settle(isWhole: boolean): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#endWatch?.();
    if (isWhole) this.#hit.giveBack();
    const { chunks, sizeBytes = 0 } = this.#hit;
    const error = isWhole ? undefined : (this.#error ?? new ProxyError('client_gone'));
    const delivery = { bytesSent: chunks.length === 0 ? 0 : sizeBytes, complete: isWhole, error };
    this.#hit.onDelivered(delivery, this.#connection.context.now());
    this.#connection.settle(this);
  }

  #giveUp(error: ProxyError): void {
    this.#error = error;
    this.#connection.cutAt(this);
  }
}
