/**
 * Writes responses in HTTP/1.1: heads as text (RFC 9112 §4 and §5), small bodies joined with their heads in one write, large
 * ones by reference or moved by the system (sendfile). A response that is not first in the pipeline waits for its turn.
 */

import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { errorResponse } from '../../delivery/problem.ts';
import { type Fields, wireFieldName } from '../../http/fields.ts';
import type { BodyStream } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import { formatHttpDate } from '../../semantics/http-date.ts';
import { isFramingField, reasonPhrase, requiredUpgrade } from '../respond.ts';

/** So much of a response is kept that has to wait for those before it, until it is held back. In bytes. */
const waitingLimitBytes = 64 * 1024;

type Piece = string | Uint8Array;

const noBytes = new Uint8Array();

/** Where responses are written. */
interface ResponsePlace {
  readonly socket: Socket;
  readonly context: { readonly writeBuffer: WriteBuffer };
  /** Bytes that the system has put into the socket by itself. */
  movedBytes: number;
  /** All of it was written, though perhaps nobody has taken it yet: the next one has its turn. */
  passTurn(): void;
}

/**
 * The head waits for content to travel with. What is written in one turn of the event loop leaves together. Text has one
 * character per byte.
 */
export class ResponseWriter {
  readonly #place: ResponsePlace;
  readonly #onTaken: (isWhole: boolean) => void;
  #hasTurn = false;
  #isChunked = false;
  #isEnded = false;
  #isCorked = false;
  /** Whether the last content was moved, so that what is written next waits for room. */
  #hasMoved = false;
  /** What was made, and was not written yet. */
  #head: string | undefined;
  /** Interim responses, and then pieces of the final one, that wait for their turn. */
  #early = '';
  #waiting: Piece[] | undefined;
  #waitingBytes = 0;
  #onRoom: (() => void) | undefined;

  /** `onTaken` is called once, when the kernel has taken all of it or will not take the rest; not where the socket closes before. */
  constructor(place: ResponsePlace, onTaken: (isWhole: boolean) => void) {
    this.#place = place;
    this.#onTaken = onTaken;
  }

  /** Whether the client has yet to take something, which it can only where nothing is due before. */
  get isBehind(): boolean {
    return this.#hasTurn && (this.#onRoom !== undefined || this.#place.socket.writableLength > 0);
  }

  /** As `ResponseOutlet.unsentBytes`. */
  get unsentBytes(): number {
    const { socket } = this.#place;
    const isKnown = this.#hasTurn && this.#head === undefined && socket.errored === null && !socket.destroyed;
    return isKnown ? socket.writableLength : Number.POSITIVE_INFINITY;
  }

  /** Whether all of it is there. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Bytes that wait for their turn. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Whether all of it was given to the socket. */
  get isWritten(): boolean {
    return this.#isEnded && this.#hasTurn;
  }

  /** An interim response; nothing where the final one has begun. */
  interim(text: string): void {
    if (this.#hasTurn) this.#put(text);
    else this.#early += text;
  }

  begin(head: string, isChunked: boolean): void {
    this.#head = head;
    this.#isChunked = isChunked;
    // The client would not know any more what they are about.
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

  /** Writes the head, where it waits, and content that is worth a call of the system by itself. */
  #writeNow(chunk: Uint8Array): boolean {
    const head = this.#head ?? '';
    this.#head = undefined;
    const { socket, context } = this.#place;
    return context.writeBuffer.write(socket, head, [chunk]) || !socket.writableNeedDrain;
  }

  /** Writes the rest of the content, and the text behind it. `giveBack` is called when the kernel has taken all of it. */
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

  /** The responses before it were written, and the socket takes more. */
  takeTurn(): void {
    if (!this.#hasTurn) this.#writeWaiting();
    if (!this.#place.socket.writableNeedDrain) this.makeRoom();
  }

  /** Resolves when the client has taken enough for more to be written, or the response is over. */
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

  /** Writes what the socket has no room for at the moment. Returns that there is none until it is taken. */
  #awaitRoom(chunk: Uint8Array): false {
    this.#hasMoved = false;
    const { socket } = this.#place;
    if (socket.writable) socket.write(chunk, () => this.makeRoom());
    return false;
  }

  #writeWaiting(): void {
    this.#hasTurn = true;
    const pieces = this.#waiting ?? [];
    // Most responses have their turn before anything of them was made.
    if (pieces.length === 0 && this.#early === '' && !this.#isEnded) return;
    this.#waiting = undefined;
    this.#waitingBytes = 0;
    this.#cork();
    if (this.#early !== '') this.#put(this.#early);
    for (const piece of pieces) this.#put(piece);
    if (this.#isEnded) this.#awaitEnd(false);
  }

  /** Everything is with the socket now. */
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
    // What comes after the connection's end goes nowhere, and no more of it is wanted.
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

/** Up to so many bytes of head and body are joined; a copy of more costs more than two pieces do. */
export const joinedBytes = 8 * 1024;

const slabBytes = 64 * 1024;

/** Bytes to write into. What the kernel has taken is used again, so that next to nothing is allocated. */
export class WriteBuffer {
  #slab = Buffer.allocUnsafeSlow(slabBytes);
  #at = 0;

  /**
   * Writes a head, one byte per character, and all that comes after it. Returns whether the kernel has taken it at once. `onTaken` is
   * called when it has taken all of it or will not: for those who cannot know it at once, as over TLS.
   */
  write(
    socket: Socket,
    head: string,
    chunks: readonly Uint8Array[],
    onTaken?: (error?: Error | null) => void,
  ): boolean {
    if (!socket.writable) return false;
    let sizeBytes = head.length;
    for (const chunk of chunks) sizeBytes += chunk.length;
    if (sizeBytes === head.length) {
      if (head !== '') socket.write(head, 'latin1', onTaken);
      return hasTaken(socket);
    }
    if (sizeBytes <= joinedBytes) {
      const joined = this.join(head, chunks, sizeBytes);
      socket.write(joined, onTaken);
      const isTaken = hasTaken(socket);
      if (isTaken) this.takeBack(joined);
      return isTaken;
    }
    socket.cork();
    if (head !== '') socket.write(head, 'latin1');
    for (const [at, chunk] of chunks.entries()) socket.write(chunk, at + 1 === chunks.length ? onTaken : undefined);
    socket.uncork();
    return hasTaken(socket);
  }

  /** A head, one byte per character, and the body behind it. `sizeBytes` is the length of both, `joinedBytes` at most. */
  join(head: string, chunks: readonly Uint8Array[], sizeBytes: number): Buffer {
    if (this.#at + sizeBytes > slabBytes) {
      this.#slab = Buffer.allocUnsafeSlow(slabBytes);
      this.#at = 0;
    }
    const start = this.#at;
    let at = start + this.#slab.write(head, start, 'latin1');
    for (const chunk of chunks) {
      this.#slab.set(chunk, at);
      at += chunk.length;
    }
    this.#at = at;
    return this.#slab.subarray(start, at);
  }

  /** Has left: nobody reads it any more. Only what was joined last can be used again. */
  takeBack(joined: Buffer): void {
    if (joined.buffer === this.#slab.buffer && joined.byteOffset + joined.length === this.#at) {
      this.#at = joined.byteOffset;
    }
  }
}

/**
 * Whether what was written has left the process already. Node tries to write at once; whether that went well is known when the
 * call is back, long before a callback would tell it. Over TLS it never has.
 */
function hasTaken(socket: Socket): boolean {
  return socket.writableLength === 0 && socket.errored === null && !socket.destroyed;
}

/** What a socket is made of, as far as it tells which one it is for the system. */
interface Handle {
  readonly fd?: number;
}

/** Whether the system may put bytes into a socket, as far as that is known without asking it. */
export function takesMovable(socket: Socket): boolean {
  return !(socket instanceof TLSSocket);
}

/**
 * The descriptor, in this tick, where nothing that was written waits in the process; undefined of others, and of what is not
 * sent as it is written.
 */
function descriptorOf(socket: Socket): number | undefined {
  if (!takesMovable(socket) || !socket.writable || !hasTaken(socket)) return undefined;
  const handle = (socket as { readonly _handle?: Handle | null })._handle;
  const fd = handle?.fd ?? -1;
  return fd >= 0 ? fd : undefined;
}

const fieldName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** RFC 9110 §5.5, with what else a byte can be. A line break would begin another field, or another response. */
const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/;

const secondMs = 1000;

/** Fields as lines, without those that frame. */
export interface FieldLines {
  readonly text: string;
  readonly hasDate: boolean;
}

/** Throws a `ProxyError` for a field that would not be read as it is. */
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

/** One line. Throws a `ProxyError` for a name that is no token, or a value that no field can have. */
export function formatLine(name: string, value: string): string {
  if (!fieldName.test(name) || !fieldValue.test(value)) {
    throw new ProxyError('internal', { detail: `the field ${JSON.stringify(name)} cannot be written` });
  }
  return `${wireFieldName(name)}: ${value}\r\n`;
}

/** The first line of a response. The version is ours, whatever the client's is (RFC 9110 §6.2). */
export function formatStatusLine(status: number): string {
  return `HTTP/1.1 ${status} ${reasonPhrase(status)}\r\n`;
}

/** An interim response. Throws a `ProxyError` as `formatFieldLines` does. */
export function formatInterim(status: number, fields: Fields): string {
  return `${formatStatusLine(status)}${formatFieldLines(fields).text}\r\n`;
}

/** The line of Connection, with Upgrade before it where the response must have that (RFC 9110 §7.8). Throws as `formatFieldLines`. */
export function formatUpgrade(status: number, fields: Fields, connection: string): string {
  const upgrade = requiredUpgrade(status, fields);
  if (upgrade === undefined) return connection;
  return formatLine('upgrade', upgrade) + connection.replace('Connection: ', 'Connection: upgrade, ');
}

/** The last chunk and the trailer section (RFC 9112 §7.1.2). */
export function formatLastChunk(trailers: Fields): string {
  let text = '0\r\n';
  for (const [name, value] of trailers) text += `${wireFieldName(name)}: ${value}\r\n`;
  return `${text}\r\n`;
}

/** What a connection that goes on says of itself. The time is told in whole seconds; 0 tells none. */
export function formatKeepAlive(keepAliveTimeoutMs: number): string {
  if (keepAliveTimeoutMs === 0) return 'Connection: keep-alive\r\n';
  return `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveTimeoutMs / secondMs)}\r\n`;
}

/** A whole error response for a connection on which no request could be read. It is the last one there. */
export function formatLastProblem(error: ProxyError, now: number): string {
  const { status, fields, body } = errorResponse(error);
  const content = body.kind === 'bytes' ? Buffer.concat(body.chunks).toString('latin1') : '';
  return (
    `${formatStatusLine(status)}${formatFieldLines(fields).text}Date: ${formatHttpDate(now)}\r\n` +
    `Content-Length: ${content.length}\r\nConnection: close\r\n\r\n${content}`
  );
}

/** The line that dates a response (RFC 9110 §6.6.1), made once per second. */
export class DateLine {
  #second = Number.NaN;
  #text = '';

  /** For a time in epoch milliseconds. */
  at(now: number): string {
    const second = Math.floor(now / secondMs);
    if (second !== this.#second) {
      this.#second = second;
      this.#text = `Date: ${formatHttpDate(now)}\r\n`;
    }
    return this.#text;
  }
}
