/**
 * One HTTP/1 connection. It reads requests, writes hits at once, runs the other exchanges in the order of their requests
 * (pipelining, RFC 9112 §9.3.2), and decides when the connection ends.
 */

import type { Socket } from 'node:net';
import type { Fields } from '../../http/fields.ts';
import type { Handler, Hit, Peer, PlainHead, PlainSource } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { Emit } from '../../telemetry/events.ts';
import { type HeadLimits, type ParsedHead, spellOut } from '../request-head.ts';
import { ConnectionWatch, type Pace, type Pacer, type Timeouts, takenBytes, type Waiting } from '../timeouts.ts';
import { type HeadParser, HeldHead } from './head-parser.ts';
import type { RequestBody } from './request-body.ts';
import {
  type DateLine,
  type FieldLines,
  formatFieldLines,
  formatLastProblem,
  formatLine,
  formatStatusLine,
  takesMovable,
  type WriteBuffer,
} from './response-writer.ts';

/** What requests are read with, and responses written. */
interface ConnectionContext {
  readonly emit: Emit;
  /** Tells the time in epoch milliseconds. */
  readonly now: () => number;
  readonly limits: HeadLimits;
  readonly timeouts: Timeouts;
  /** How fast bodies of requests must come. */
  readonly uploadPace: Pace;
  readonly writeBuffer: WriteBuffer;
  readonly dateLine: DateLine;
  /** What a connection that goes on says of itself. */
  readonly keepAlive: string;
  /** What clients speak. */
  readonly scheme: 'http' | 'https';
  readonly handler: Handler;
  readonly pace: Pace;
  /** Reads heads that come in one piece. */
  readonly parser: HeadParser;
}

/** How many requests a client may send ahead of their responses; the connection ends after so many. */
const pipelinedRequests = 100;

/** The server of a connection. */
export interface ConnectionOwner extends ConnectionContext {
  /** Takes a request whose head has come. `rest` is what has come after it. */
  take(connection: Connection, parsed: ParsedHead, rest: Buffer): void;
  /** Has the system send a hit from its file. */
  sendFile(connection: Connection, head: PlainHead, hit: Hit, file: NonNullable<Hit['file']>): void;
  forget(connection: Connection): void;
}

const noBytes = Buffer.alloc(0);

/** Reads requests, has them taken one after the other, and ends when that is due. */
export class Connection implements SocketUser, PlainSource {
  readonly socket: Socket;
  readonly scheme: 'http' | 'https';
  readonly peer: Peer;
  readonly takesMovable: boolean;
  known: object | undefined;
  readonly context: ConnectionOwner;
  movedBytes = 0;
  readonly #pipeline: Pipeline;
  #stage: 'open' | 'draining' | 'finishing' | 'tunnel' | 'ended' = 'open';
  #isRetired = false;
  /** To be answered after the running exchanges. */
  #refusal: ProxyError | undefined;
  /** What has come of a head. */
  #held: HeldHead | undefined;
  /** The body that is being received; its exchange may be over. */
  #body: RequestBody | undefined;
  /** How many requests have begun. */
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

  /** Whether it has nothing to do: no exchange, no tunnel, and no part of a request that will be one. */
  get isIdle(): boolean {
    return this.isOpen && this.#pipeline.length === 0 && this.#held === undefined;
  }

  get isEnded(): boolean {
    return this.#stage === 'ended';
  }

  /** Whether it will be kept, and no response is due on it: only then may it become a tunnel. */
  get isFree(): boolean {
    return this.#stage === 'open' && this.#pipeline.length === 0;
  }

  receive(chunk: Buffer): void {
    let bytes = chunk;
    while (bytes.length > 0 && this.#stage !== 'ended' && this.#stage !== 'tunnel') {
      bytes = this.#body === undefined ? this.#readHead(bytes) : this.#readBody(bytes, this.#body);
    }
  }

  /** A body begins with the bytes that come next. */
  receiveBody(body: RequestBody): void {
    this.#body = body;
  }

  /** Who ends its side before its responses are made has left. */
  receiveEnd(): void {
    const { isMade, isCloseDelimited, length } = this.#pipeline;
    if (this.#held !== undefined || this.#body !== undefined || (isCloseDelimited && !isMade)) this.cut();
    else if (isMade && length > 0) this.finish();
    else this.end();
  }

  makeRoom(): void {
    this.#pipeline.makeRoom();
  }

  close(): void {
    this.#stage = 'ended';
    this.#pipeline.connectionClosed();
    this.context.forget(this);
  }

  /** Receives nothing for now. */
  pause(): void {
    if (this.#stage !== 'ended') this.socket.pause();
  }

  resume(): void {
    if (this.#stage !== 'tunnel') this.socket.resume();
  }

  /** What begins when the connection is gone is over at once. */
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

  /** Lets the first exchange write that has not written all. */
  passTurn(): void {
    this.#pipeline.passTurn();
  }

  /** The exchange is over, whole or not. */
  settle(exchange: RunningExchange): void {
    this.#pipeline.remove(exchange);
    if (exchange.isLast) this.end();
    else if (this.#pipeline.first?.isBroken === true) this.cut();
    if (this.#pipeline.length > 0) return;
    if (this.#refusal !== undefined) this.#answerRefusal(this.#refusal);
    else if (this.#stage === 'draining' || this.#stage === 'finishing') this.end();
  }

  /** Whether nothing follows this exchange's response. */
  isLast(exchange: RunningExchange): boolean {
    return !this.isOpen && this.#refusal === undefined && this.#pipeline.last === exchange;
  }

  /** Takes no further request; the connection ends after those that run. */
  finish(): void {
    if (this.isOpen) this.#stage = 'finishing';
  }

  /** Takes one further request, the last one. */
  finishAfterNext(): void {
    if (this.#stage === 'open') this.#stage = 'draining';
  }

  /**
   * Takes one further request, whenever it comes: the client may have been told that it can send one, and only a response tells
   * it that this was the last.
   */
  retire(): void {
    this.#isRetired = true;
  }

  /** Ends after the running exchanges, or after the request that is on its way. */
  drain(): void {
    if (this.#pipeline.length > 0) this.finish();
    else this.finishAfterNext();
  }

  /** Looks whether the client takes too long. To be called at even intervals. */
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

  /** What the client sends is no request, or no rest of one. It is told so where no response tells it. */
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

  /** Gives the socket over to a tunnel. */
  becomeTunnel(): void {
    this.#stage = 'tunnel';
    stopReading(this.socket);
    // Who has the socket now ends it in this way; by itself it would be closed before the client has read all.
    this.socket.destroySoon = () => this.end();
  }

  /** There will be no tunnel: one response is due, and the connection ends after it. */
  becomeAnswer(): void {
    if (this.#stage === 'tunnel') this.#stage = 'finishing';
  }

  /** Ends it, but not before the client has had time to read what was sent. */
  end(): void {
    if (this.#stage === 'ended') return;
    this.#stage = 'ended';
    this.#held = undefined;
    this.#body = undefined;
    endSlowly(this.socket);
  }

  /** Ends it at once, so that what was broken off does not look whole. */
  cut(): void {
    this.#stage = 'ended';
    if (this.#pipeline.isCloseDelimited) this.socket.resetAndDestroy();
    else this.socket.destroy();
  }

  /** Cuts it because of an exchange whose response broke off, but not before the responses ahead of it are out. */
  cutAt(exchange: RunningExchange): void {
    if (this.#pipeline.first === exchange) this.cut();
    else this.finish();
  }

  get #waiting(): Waiting {
    if (this.#held !== undefined) return 'head';
    if (this.#pipeline.length > 0) return this.#body === undefined ? 'nothing' : 'body';
    if (!this.isOpen) return 'nothing';
    return this.#requests === 0 ? 'first' : 'next';
  }

  /** Returns what comes after the head. */
  #readHead(bytes: Buffer): Buffer {
    const { parser } = this.context;
    const isBusy = this.#stage !== 'open' || this.#pipeline.running.length > 0;
    // What comes after the last request (RFC 9112 §9.6) is not read while responses are due.
    if (isBusy && (!this.isOpen || (this.#held === undefined && this.#pipeline.isFull))) {
      this.#pipeline.holdBack(bytes);
      return noBytes;
    }
    if (this.#held === undefined) this.#requests += 1;
    const reading = this.#held === undefined ? parser.readFirst(bytes) : this.#held.read(bytes);
    if (reading.kind === 'plain') {
      const rest = reading.sizeBytes === bytes.length ? noBytes : bytes.subarray(reading.sizeBytes);
      if (isBusy || this.#isRetired || !this.#writeHit(reading.head))
        this.context.take(this, spellOut(reading.head), rest);
      return rest;
    }
    if (reading.kind === 'more') {
      this.#held ??= new HeldHead(this.context.limits, bytes);
      return noBytes;
    }
    const all = this.#held?.bytes ?? bytes;
    this.#held = undefined;
    if (reading.kind === 'fault') {
      this.refuse(new ProxyError(reading.code, { detail: reading.detail }));
      return noBytes;
    }
    const rest = all.subarray(reading.sizeBytes);
    this.context.take(this, reading.head, rest);
    return rest;
  }

  /** Answers a plain head from memory, where that can be: nothing else is due on the connection, which goes on after it. */
  #writeHit(head: PlainHead): boolean {
    const { handler, now } = this.context;
    if (handler.hit === undefined || this.socket.writableLength > 0) return false;
    const receivedAt = now();
    const hit = handler.hit(head, this, receivedAt);
    if (hit?.file === undefined) return hit !== undefined && writeHit(this, hit, receivedAt);
    this.context.sendFile(this, head, hit, hit.file);
    return true;
  }

  /** Returns what comes after the body. */
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

/** With so many bytes that a client has yet to take, no further request of it is read. */
const untakenLimitBytes = 64 * 1024;

/** Most connections have nothing to do most of the time. */
const none: readonly RunningExchange[] = [];

/** Exchanges begin and settle in order. */
export class Pipeline {
  readonly #socket: Socket;
  running: readonly RunningExchange[] = none;
  /** Whether there is something that is not read for now. */
  #isHeldBack = false;

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

  /** The one whose request's body is still coming. */
  get receiving(): RunningExchange | undefined {
    return this.running.find(({ isReceiving }) => isReceiving);
  }

  /** Whether all of every response is there. */
  get isMade(): boolean {
    return this.running.every(({ isMade }) => isMade);
  }

  get isCloseDelimited(): boolean {
    return this.running.some(({ isCloseDelimited }) => isCloseDelimited);
  }

  get isWaitingForClient(): boolean {
    return this.running.some(({ isWaitingForClient }) => isWaitingForClient);
  }

  /** Whether the client should take something before its next request is read: a few bytes can ask for many responses. */
  get isFull(): boolean {
    if (this.running.length === 0) return false;
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
   * Lets the first one write that has not written all, where the socket takes more: TLS copies the whole of what it is given
   * beyond that. After a response that says that it is the last one, none follows.
   */
  passTurn(): void {
    if (this.#socket.writableNeedDrain) return;
    const next = this.running.find(({ isLast, isWritten }) => isLast || !isWritten);
    if (next?.isWritten === false) next.takeTurn();
  }

  /** The socket takes more. */
  makeRoom(): void {
    this.passTurn();
    this.#readOn();
  }

  /** Leaves what has come unread, for as long as it is full at least. */
  holdBack(bytes: Buffer): void {
    this.#isHeldBack = true;
    // Paused before: what flows would come here again.
    this.#socket.pause();
    this.#socket.unshift(bytes);
  }

  connectionClosed(): void {
    for (const exchange of this.running) exchange.connectionClosed();
  }

  #readOn(): void {
    if (!this.#isHeldBack || this.isFull) return;
    this.#isHeldBack = false;
    this.#socket.resume();
  }
}

/** How long a socket that we have ended is still read from (RFC 9112 §9.6), in milliseconds. */
const lingerMs = 2_000;

/** Who uses a socket. */
interface SocketUser {
  /** Bytes have come. */
  receive(chunk: Buffer): void;
  /** The other side has ended its half. */
  receiveEnd(): void;
  /** The socket takes more. */
  makeRoom(): void;
  /** Nothing more comes and nothing more leaves. */
  close(): void;
}

const user = Symbol('user');
type UsedSocket = Socket & { [user]?: SocketUser };

/** From now on the user is told. */
function useSocket(socket: Socket, newUser: SocketUser): void {
  (socket as UsedSocket)[user] = newUser;
  socket.on('data', onData).on('end', onEnd).on('drain', onDrain).on('close', onClose);
}

/** From now on somebody else reads the socket. */
function stopReading(socket: Socket): void {
  socket.off('data', onData).off('end', onEnd).pause();
}

/**
 * Ends our side, then reads on for a while and drops what comes: closing at once could reset the connection before the
 * client has read the last response (RFC 9112 §9.6).
 */
function endSlowly(socket: Socket): void {
  socket.end(() => {
    const timer = setTimeout(() => socket.destroy(), lingerMs).unref();
    socket.once('close', () => clearTimeout(timer));
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

/** What a connection asks of the exchanges on it. */
export interface RunningExchange {
  /** Whether its request's body is still coming. */
  readonly isReceiving: boolean;
  /** Whether only the client can bring it forward, by sending or by reading. */
  readonly isWaitingForClient: boolean;
  /** Whether the end of its response is the end of the connection, so that only a reset tells a broken one from a whole one. */
  readonly isCloseDelimited: boolean;
  /** Whether its response says that it is the last one on the connection: then it is, whatever was begun after it. */
  readonly isLast: boolean;
  /** Whether its response broke off. */
  readonly isBroken: boolean;
  /** Whether all of its response is there, written or not. */
  readonly isMade: boolean;
  /** Whether all of its response was given to the socket, so that the next one may follow. */
  readonly isWritten: boolean;
  /** Bytes of its response that are there, and wait for those before it to be written. */
  readonly waitingBytes: number;
  /** All responses before its own were written, and the socket takes more. May be called again and again. */
  takeTurn(): void;
  /** Its request's body cannot come whole any more. */
  breakBody(error: ProxyError): void;
  /** Nothing more can be sent or received. */
  connectionClosed(): void;
}

/** The connection of a hit. */
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
 * Writes a hit. What the kernel does not take at once is watched over until the client has it. Returns whether its fields could be
 * written; nothing has happened otherwise. `now` in epoch milliseconds.
 */
function writeHit(connection: HitPlace, hit: Hit, now: number): boolean {
  const { status, fields, ageSeconds, cacheStatus, contentRange, more, sizeBytes, chunks } = hit;
  fields.text ??= formatKept(fields.lines());
  if (fields.text === false) return false;
  const { dateLine, keepAlive, writeBuffer, pace } = connection.context;
  let head = `${statusLines.get(status)}${fields.text.text}Age: ${ageSeconds}\r\nCache-Status: ${cacheStatus}\r\n`;
  if (contentRange !== undefined) head += `Content-Range: ${contentRange}\r\n`;
  for (const [name, value] of more) head += formatLine(name, value);
  if (!fields.text.hasDate) head += dateLine.at(now);
  if (sizeBytes !== undefined) head += `Content-Length: ${sizeBytes}\r\n`;
  head += `${keepAlive}\r\n`;
  if (!connection.takesMovable) {
    // Over TLS nothing is known when the call is back.
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

/** Less is hardly ever in the way of what follows; what a client does not take at all ends with its connection. In bytes. */
const watchedBytes = 16 * 1024;

/** False where a field cannot be written. */
function formatKept(lines: Fields): FieldLines | false {
  try {
    const { text, hasDate } = formatFieldLines(lines);
    // One flat text: what it was put together from would be kept with it.
    return { text: Buffer.from(text, 'latin1').toString('latin1'), hasDate };
  } catch {
    return false;
  }
}

/** A hit of which the socket has all, and the client not yet. */
class WrittenHit implements RunningExchange, Pacer {
  readonly isReceiving = false;
  readonly isWaitingForClient = true;
  readonly isCloseDelimited = false;
  readonly isLast = false;
  readonly isMade = true;
  readonly isWritten = true;
  readonly waitingBytes = 0;
  readonly isBehind = true;
  readonly #connection: HitPlace;
  readonly #hit: Hit;
  readonly #endWatch: (() => void) | undefined;
  #error: ProxyError | undefined;
  #isSettled = false;

  constructor(connection: HitPlace, hit: Hit, pace: Pace) {
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

  /** The client has all of it, or will not get more. */
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
