/** Writes the pieces of one response to its connection, when its turn among the pipelined ones has come. */

import type { Socket } from 'node:net';
import type { BodyStream } from '../../http/message.ts';
import { descriptorOf } from '../descriptor.ts';
import { type Joint, joinedBytes } from './joint.ts';

/** So much of a response is kept that has to wait for those before it, until it is held back. In bytes. */
const waitingLimitBytes = 64 * 1024;

type Piece = string | Uint8Array;

const noBytes = new Uint8Array();

/** Where responses are written. */
export interface ResponsePlace {
  readonly socket: Socket;
  readonly ground: { readonly joint: Joint };
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
    const { socket, ground } = this.#place;
    return ground.joint.write(socket, head, [chunk]) || !socket.writableNeedDrain;
  }

  /** Writes the rest of the content, and the text behind it. `giveBack` is called when the kernel has taken all of it. */
  end(chunks: readonly Uint8Array[], last: string, giveBack?: () => void): void {
    const isAlone = this.#hasTurn && !this.#isCorked && !this.#isChunked && last === '';
    const head = this.#head ?? '';
    if (isAlone) {
      this.#head = undefined;
      this.#isEnded = true;
      this.#awaitEnd(this.#place.ground.joint.write(this.#place.socket, head, chunks), giveBack);
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
