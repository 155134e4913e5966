/** Content of an HTTP/2 stream on its way to the client. */

import type { ServerHttp2Stream } from 'node:http2';
import type { Http2Stride } from './http2-stride.ts';

/** Pieces that Node is given before it has sent earlier ones, so that the connection does not run dry. */
const piecesAhead = 2;

/**
 * Content that the client takes in one stride goes out at once; the rest follows the client's flow control (RFC 9113 §5.2),
 * piece by piece.
 */
export class Http2Writer {
  readonly #stream: ServerHttp2Stream;
  readonly #stride: Http2Stride;
  readonly #now: () => number;
  readonly #chunks: Uint8Array[] = [];
  #piecesOut = 0;
  #takenBytes = 0;
  #isEnding = false;
  /** What went out at once, and when. */
  #lastBytes = 0;
  #lastAt = 0;
  #onRoom: (() => void) | undefined;

  constructor(stream: ServerHttp2Stream, stride: Http2Stride, now: () => number) {
    this.#stream = stream;
    this.#stride = stride;
    this.#now = now;
  }

  /** Bytes of pieces that have left. */
  get takenBytes(): number {
    return this.#takenBytes;
  }

  /** Whether Node was given all of it. */
  get isEmpty(): boolean {
    return this.#chunks.length === 0;
  }

  /** Whether something that was written has not left yet. */
  get isBehind(): boolean {
    const isEnding = this.#isEnding && !this.#stream.writableFinished;
    return isEnding || this.#piecesOut > 0 || this.#chunks.length > 0;
  }

  /** Returns whether more may be written at once. */
  write(chunk: Uint8Array): boolean {
    this.#chunks.push(chunk);
    this.#feed();
    return this.#hasRoom;
  }

  end(chunks: readonly Uint8Array[]): void {
    this.#isEnding = true;
    for (const chunk of chunks) this.#chunks.push(chunk);
    const sizeBytes = this.#piecesOut === 0 ? sizeOf(this.#chunks) : Number.POSITIVE_INFINITY;
    if (sizeBytes <= this.#stride.bytes) this.#finishAtOnce(sizeBytes);
    else this.#feed();
  }

  /** Resolves when more may be written, or `release` is called. */
  room(): Promise<void> {
    return new Promise((resolve) => {
      this.#onRoom = resolve;
      if (this.#hasRoom) this.release();
    });
  }

  /** Nothing more can be sent. */
  release(): void {
    const onRoom = this.#onRoom;
    this.#onRoom = undefined;
    onRoom?.();
  }

  /** The stream is closed, and all of it has left. */
  noteWhole(now: number): void {
    if (this.#lastBytes > 0) this.#stride.note(this.#lastBytes, now - this.#lastAt);
  }

  get #hasRoom(): boolean {
    return this.#chunks.length === 0 && this.#piecesOut < piecesAhead;
  }

  /** Node puts what is written while it is corked into the frames of one write, and the end of the stream into the last. */
  #finishAtOnce(sizeBytes: number): void {
    this.#lastBytes = sizeBytes;
    this.#lastAt = this.#now();
    const chunks = this.#chunks;
    const [first] = chunks;
    if (chunks.length > 1) {
      this.#stream.cork();
      for (const chunk of chunks) this.#stream.write(chunk);
      this.#stream.end();
    } else if (first === undefined) this.#stream.end();
    else this.#stream.end(first);
    chunks.length = 0;
  }

  #feed(): void {
    while (this.#piecesOut < piecesAhead) {
      const piece = this.#nextPiece();
      if (piece === undefined) break;
      const sentAt = this.#now();
      this.#piecesOut += 1;
      this.#stream.write(piece, () => this.#noteTaken(piece.length, this.#now() - sentAt));
    }
    if (this.#isEnding && this.#chunks.length === 0 && !this.#stream.writableEnded) this.#stream.end();
  }

  #noteTaken(sizeBytes: number, elapsedMs: number): void {
    this.#piecesOut -= 1;
    this.#takenBytes += sizeBytes;
    this.#stride.note(sizeBytes, elapsedMs);
    if (this.#stream.destroyed) return;
    this.#feed();
    if (this.#hasRoom) this.release();
  }

  #nextPiece(): Uint8Array | undefined {
    const chunk = this.#chunks[0];
    const pieceBytes = this.#stride.bytes;
    if (chunk === undefined || chunk.length <= pieceBytes) return this.#chunks.shift();
    this.#chunks[0] = chunk.subarray(pieceBytes);
    return chunk.subarray(0, pieceBytes);
  }
}

function sizeOf(chunks: readonly Uint8Array[]): number {
  let sizeBytes = 0;
  for (const { length } of chunks) sizeBytes += length;
  return sizeBytes;
}
