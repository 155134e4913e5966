/**
 * Writes HTTP/1.1 responses: heads as text (RFC 9112 §4, §5), small bodies joined with their heads in one write, large bodies by
 * reference or with sendfile. A response that is not first in the pipeline waits for its turn.
 */

import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { errorResponse } from '../../delivery/problem.ts';
import { type Fields, wireFieldName } from '../../http/fields.ts';
import type { BodyStream } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import { formatHttpDate } from '../../semantics/http-date.ts';
import { isFramingField, reasonPhrase, requiredUpgrade } from '../respond.ts';
import { hasTaken, joinedBytes, type WriteBuffer } from '../write-buffer.ts';

/** Maximum bytes that a response buffers while it waits for its turn, before its writer is held back. */
const waitingLimitBytes = 64 * 1024;

type Piece = string | Uint8Array;

const noBytes = new Uint8Array();

/** A connection, as a writer uses it. */
interface ResponsePlace {
  readonly socket: Socket;
  readonly context: { readonly writeBuffer: WriteBuffer };
  /** Bytes that sendfile has put into the socket. */
  movedBytes: number;
  /** Gives the next response its turn. This one is written, though the kernel may not have taken it yet. */
  passTurn(): void;
}

/**
 * Writes one response. The head waits for the first content, so that both leave together, as do all writes in one turn of the event
 * loop. Text has one character per byte.
 */
export class ResponseWriter {
  readonly #place: ResponsePlace;
  readonly #onTaken: (isWhole: boolean) => void;
  #hasTurn = false;
  #isChunked = false;
  #isEnded = false;
  #isCorked = false;
  /** Whether sendfile has moved the last content. Then the next write waits for room. */
  #hasMoved = false;
  /** The head, until it is written. */
  #head: string | undefined;
  /** Interim responses that wait for the turn. */
  #early = '';
  /** Pieces of the final response that wait for the turn. */
  #waiting: Piece[] | undefined;
  #waitingBytes = 0;
  #onRoom: (() => void) | undefined;

  /** `onTaken` is called at most once: when the kernel has taken the whole response, or a write fails. Not if the socket closes before. */
  constructor(place: ResponsePlace, onTaken: (isWhole: boolean) => void) {
    this.#place = place;
    this.#onTaken = onTaken;
  }

  /** Whether written bytes wait for the client. False before the turn: the client cannot take this response yet. */
  get isBehind(): boolean {
    return this.#hasTurn && (this.#onRoom !== undefined || this.#place.socket.writableLength > 0);
  }

  /** As `ResponseOutlet.unsentBytes`. */
  get unsentBytes(): number {
    const { socket } = this.#place;
    const isKnown = this.#hasTurn && this.#head === undefined && socket.errored === null && !socket.destroyed;
    return isKnown ? socket.writableLength : Number.POSITIVE_INFINITY;
  }

  /** Whether the response is complete, written or not. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Bytes that wait for the turn. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Whether the whole response was written to the socket. */
  get isWritten(): boolean {
    return this.#isEnded && this.#hasTurn;
  }

  /** Writes an interim response. The caller must not call it after `begin`. */
  interim(text: string): void {
    if (this.#hasTurn) this.#put(text);
    else this.#early += text;
  }

  begin(head: string, isChunked: boolean): void {
    this.#head = head;
    this.#isChunked = isChunked;
    // Interim responses that still wait are dropped: right before the final response they are of no use.
    this.#early = '';
  }

  flushHead(): void {
    if (this.#head === undefined) return;
    const head = this.#head;
    this.#head = undefined;
    this.#put(head);
  }

  /** As `ResponseOutlet.move`. */
  move(content: Pick<BodyStream, 'moveTo'>): number {
    if (content.moveTo === undefined || !this.#hasTurn || this.#isChunked || this.#isCorked) return 0;
    const descriptor = descriptorOf(this.#place.socket);
    if (descriptor === undefined) return 0;
    const head = this.#head === undefined ? noBytes : Buffer.from(this.#head, 'latin1');
    const takenBytes = content.moveTo(descriptor, head);
    if (takenBytes === 0) return 0;
    this.#head = undefined;
    this.#hasMoved = true;
    this.#place.movedBytes += takenBytes;
    if (takenBytes < head.length) this.#put(head.subarray(takenBytes));
    return Math.max(0, takenBytes - head.length);
  }

  /** Returns whether more may be written at once. */
  write(chunk: Uint8Array): boolean {
    if (this.#hasMoved) return this.#awaitRoom(chunk);
    if (chunk.length > joinedBytes && this.#hasTurn && !this.#isCorked && !this.#isChunked)
      return this.#writeNow(chunk);
    this.#cork();
    this.flushHead();
    if (!this.#isChunked) return this.#put(chunk);
    this.#put(`${chunk.length.toString(16)}\r\n`);
    this.#put(chunk);
    return this.#put('\r\n');
  }

  /** Writes a waiting head, and content that is large enough for a system call of its own. */
  #writeNow(chunk: Uint8Array): boolean {
    const head = this.#head ?? '';
    this.#head = undefined;
    const { socket, context } = this.#place;
    return context.writeBuffer.write(socket, head, [chunk]) || !socket.writableNeedDrain;
  }

  /** Writes the rest of the content, then the text `last`. `giveBack` is called when the kernel has taken the whole response. */
  end(chunks: readonly Uint8Array[], last: string, giveBack?: () => void): void {
    const isAlone = this.#hasTurn && !this.#isCorked && !this.#isChunked && last === '';
    const head = this.#head ?? '';
    if (isAlone) {
      this.#head = undefined;
      this.#isEnded = true;
      this.#awaitEnd(this.#place.context.writeBuffer.write(this.#place.socket, head, chunks), giveBack);
      return;
    }
    for (const chunk of chunks) if (chunk.length > 0) this.write(chunk);
    this.#cork();
    this.flushHead();
    if (last !== '') this.#put(last);
    this.#isEnded = true;
    if (this.#hasTurn) this.#awaitEnd(false, giveBack);
  }

  /** Called when the earlier responses were written and the socket takes more bytes. */
  takeTurn(): void {
    if (!this.#hasTurn) this.#writeWaiting();
    if (!this.#place.socket.writableNeedDrain) this.makeRoom();
  }

  /** Resolves when more may be written, or the response is over. */
  room(): Promise<void> {
    return new Promise((resolve) => {
      this.#onRoom = resolve;
    });
  }

  makeRoom(): void {
    const onRoom = this.#onRoom;
    this.#onRoom = undefined;
    onRoom?.();
  }

  /** Writes a chunk to a full socket; its callback reports room. Returns false: nothing more may be written until then. */
  #awaitRoom(chunk: Uint8Array): false {
    this.#hasMoved = false;
    const { socket } = this.#place;
    if (socket.writable) socket.write(chunk, () => this.makeRoom());
    return false;
  }

  #writeWaiting(): void {
    this.#hasTurn = true;
    const pieces = this.#waiting ?? [];
    // Most responses get their turn before they have any bytes.
    if (pieces.length === 0 && this.#early === '' && !this.#isEnded) return;
    this.#waiting = undefined;
    this.#waitingBytes = 0;
    this.#cork();
    if (this.#early !== '') this.#put(this.#early);
    for (const piece of pieces) this.#put(piece);
    if (this.#isEnded) this.#awaitEnd(false);
  }

  /** Waits until the kernel has taken the written response, and passes the turn on. */
  #awaitEnd(isTaken: boolean, giveBack?: () => void): void {
    const { socket } = this.#place;
    if (isTaken) this.#noteTaken(true, giveBack);
    else if (socket.writable) {
      socket.write('', (error) => this.#noteTaken(error === null || error === undefined, giveBack));
    }
    this.#place.passTurn();
  }

  #noteTaken(isWhole: boolean, giveBack?: () => void): void {
    if (isWhole) giveBack?.();
    this.#onTaken(isWhole);
  }

  #put(piece: Piece): boolean {
    const { socket } = this.#place;
    if (!this.#hasTurn) {
      this.#waiting ??= [];
      this.#waiting.push(piece);
      this.#waitingBytes += piece.length;
      return this.#waitingBytes < waitingLimitBytes;
    }
    // The connection has ended: the piece is dropped, and false stops the writer.
    if (!socket.writable) return false;
    return typeof piece === 'string' ? socket.write(piece, 'latin1') : socket.write(piece);
  }

  #cork(): void {
    if (this.#isCorked || !this.#hasTurn) return;
    this.#isCorked = true;
    this.#place.socket.cork();
    process.nextTick(ResponseWriter.#uncork, this);
  }

  static #uncork(writer: ResponseWriter): void {
    writer.#isCorked = false;
    writer.#place.socket.uncork();
  }
}

/** The libuv handle of a socket, with its file descriptor. */
interface Handle {
  readonly fd?: number;
}

/** Checks whether sendfile may be used on a socket: not over TLS. The system may still not support it. */
export function takesMovable(socket: Socket): boolean {
  return !(socket instanceof TLSSocket);
}

/**
 * Returns the file descriptor of a socket, valid in this tick. Undefined where written bytes still wait in the process, and over
 * TLS, where bytes are not sent as they are.
 */
function descriptorOf(socket: Socket): number | undefined {
  if (!takesMovable(socket) || !socket.writable || !hasTaken(socket)) return undefined;
  const handle = (socket as { readonly _handle?: Handle | null })._handle;
  const fd = handle?.fd ?? -1;
  return fd >= 0 ? fd : undefined;
}

const fieldName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** RFC 9110 §5.5, bytes above ASCII included. A line break would begin another field or another response. */
const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/;

const secondMs = 1000;

/** Formatted field lines, without framing fields. */
export interface FieldLines {
  readonly text: string;
  readonly hasDate: boolean;
}

/** Formats fields as lines, without framing fields. Throws `ProxyError` `internal` for an invalid name or value. */
export function formatFieldLines(fields: Fields): FieldLines {
  let text = '';
  let hasDate = false;
  for (const [name, value] of fields) {
    if (isFramingField(name)) continue;
    if (name === 'date') hasDate = true;
    text += formatLine(name, value);
  }
  return { text, hasDate };
}

/** Formats one field line. Throws `ProxyError` `internal` for a name that is not a token, or an invalid value. */
export function formatLine(name: string, value: string): string {
  if (!fieldName.test(name) || !fieldValue.test(value)) {
    throw new ProxyError('internal', { detail: `the field ${JSON.stringify(name)} cannot be written` });
  }
  return `${wireFieldName(name)}: ${value}\r\n`;
}

/** Formats the status line. The version is always HTTP/1.1, also for an HTTP/1.0 client (RFC 9110 §6.2). */
export function formatStatusLine(status: number): string {
  return `HTTP/1.1 ${status} ${reasonPhrase(status)}\r\n`;
}

/** Formats an interim response. Throws as `formatFieldLines` does. */
export function formatInterim(status: number, fields: Fields): string {
  return `${formatStatusLine(status)}${formatFieldLines(fields).text}\r\n`;
}

/** Adds Upgrade to the line(s) of Connection where the response needs it (RFC 9110 §7.8). Throws as `formatFieldLines` does. */
export function formatUpgrade(status: number, fields: Fields, connection: string): string {
  const upgrade = requiredUpgrade(status, fields);
  if (upgrade === undefined) return connection;
  return formatLine('upgrade', upgrade) + connection.replace('Connection: ', 'Connection: upgrade, ');
}

/** Formats the last chunk and the trailer section (RFC 9112 §7.1.2). */
export function formatLastChunk(trailers: Fields): string {
  let text = '0\r\n';
  for (const [name, value] of trailers) text += `${wireFieldName(name)}: ${value}\r\n`;
  return `${text}\r\n`;
}

/** Formats Connection and Keep-Alive of a persistent connection. The timeout is in whole seconds; 0 omits it. */
export function formatKeepAlive(keepAliveTimeoutMs: number): string {
  if (keepAliveTimeoutMs === 0) return 'Connection: keep-alive\r\n';
  return `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveTimeoutMs / secondMs)}\r\n`;
}

/** Formats a complete error response for a request that could not be read. It is the last one on its connection. */
export function formatLastProblem(error: ProxyError, now: number): string {
  const { status, fields, body } = errorResponse(error);
  const content = body.kind === 'bytes' ? Buffer.concat(body.chunks).toString('latin1') : '';
  return (
    `${formatStatusLine(status)}${formatFieldLines(fields).text}Date: ${formatHttpDate(now)}\r\n` +
    `Content-Length: ${content.length}\r\nConnection: close\r\n\r\n${content}`
  );
}

/** Formats the Date line of responses (RFC 9110 §6.6.1), once per second. */
export class DateLine {
  #second = Number.NaN;
  #text = '';

  /** Returns the line for a time in epoch milliseconds. */
  at(now: number): string {
    const second = Math.floor(now / secondMs);
    if (second !== this.#second) {
      this.#second = second;
      this.#text = `Date: ${formatHttpDate(now)}\r\n`;
    }
    return this.#text;
  }
}
