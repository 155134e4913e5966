/** Content of an HTTP/2 stream on its way to the client, in pieces small enough to see how fast the client takes it. */

import type { ServerHttp2Stream } from 'node:http2';

/** Pieces that Node is given before it has sent earlier ones, so that the connection does not run dry. */
const piecesAhead = 2;

/** The size of a piece, in bytes: what is first, and its bounds. */
const firstPieceBytes = 16 * 1024;
const leastPieceBytes = 4 * 1024;
const mostPieceBytes = 64 * 1024;

/** A client that takes a piece within the first time gets larger ones, and one that takes more than the second smaller ones. */
const soonMs = 250;
const lateMs = 1_000;

/**
 * Node tells only when the whole of a write has left, which takes a slow client long for a large one. Small content goes out
 * at once; the rest follows the client's flow control (RFC 9113 §5.2), piece by piece.
 */
export class Http2Writer {
  readonly #stream: ServerHttp2Stream;
  readonly #now: () => number;
  readonly #chunks: Uint8Array[] = [];
  #pieceBytes = firstPieceBytes;
  #piecesOut = 0;
  #takenBytes = 0;
  #isEnding = false;
  #onRoom: (() => void) | undefined;

  constructor(stream: ServerHttp2Stream, now: () => number) {
    this.#stream = stream;
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
    this.#chunks.push(...chunks);
    if (this.#piecesOut === 0 && sizeOf(this.#chunks) <= firstPieceBytes) this.#finishAtOnce();
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

  get #hasRoom(): boolean {
    return this.#chunks.length === 0 && this.#piecesOut < piecesAhead;
  }

  /** Node puts what is written while it is corked into the frames of one write. */
  #finishAtOnce(): void {
    this.#stream.cork();
    for (const chunk of this.#chunks) this.#stream.write(chunk);
    this.#chunks.length = 0;
    this.#stream.end();
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
    if (elapsedMs <= soonMs) this.#pieceBytes = Math.min(mostPieceBytes, 2 * this.#pieceBytes);
    else if (elapsedMs > lateMs) this.#pieceBytes = Math.max(leastPieceBytes, this.#pieceBytes / 4);
    if (this.#stream.destroyed) return;
    this.#feed();
    if (this.#hasRoom) this.release();
  }

  #nextPiece(): Uint8Array | undefined {
    const chunk = this.#chunks[0];
    if (chunk === undefined || chunk.length <= this.#pieceBytes) return this.#chunks.shift();
    this.#chunks[0] = chunk.subarray(this.#pieceBytes);
    return chunk.subarray(0, this.#pieceBytes);
  }
}

function sizeOf(chunks: readonly Uint8Array[]): number {
  return chunks.reduce((sum, chunk) => sum + chunk.length, 0);
}
