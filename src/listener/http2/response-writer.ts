/** Writes content to an HTTP/2 stream, at each time as much as the client has shown that it takes. */

import type { ServerHttp2Stream } from 'node:http2';

/** Pieces that Node is given before it has sent earlier ones, so that the connection does not run dry. */
const piecesAhead = 2;

/** How much content a client has room for (RFC 9113 §6.9), as far as Node tells it. In bytes. */
export interface Http2Windows {
  /** The first window of each stream. What the client has added to it since is not told. */
  readonly stream: number;
  /** What is left of the window that all streams share. */
  readonly connection: number;
}

/**
 * Content that the client takes in one stride goes out at once; the rest follows the client's flow control (RFC 9113 §5.2),
 * piece by piece.
 *
 * nghttp2 sends no DATA frame into a window without room, not even the empty one that ends a stream, though it may be sent
 * (§6.9.1). So a piece that fills a window goes together with the end, and waits until it is known whether it is the last.
 */
export class Http2Writer {
  readonly #stream: ServerHttp2Stream;
  readonly #stride: Http2Stride;
  readonly #now: () => number;
  readonly #chunks: Uint8Array[] = [];
  readonly #client: { readonly windows: Http2Windows };
  #piecesOut = 0;
  #writtenBytes = 0;
  #takenBytes = 0;
  /** Whether the piece that is left fills a window, and waits for what follows it. */
  #isHolding = false;
  #isEnding = false;
  /** What went out at once, and when. */
  #lastBytes = 0;
  #lastAt = 0;
  #onRoom: (() => void) | undefined;

  constructor(
    stream: ServerHttp2Stream,
    client: { readonly windows: Http2Windows },
    stride: Http2Stride,
    now: () => number,
  ) {
    this.#stream = stream;
    this.#client = client;
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

  /** As `ResponseOutlet.unsentBytes`. */
  get unsentBytes(): number {
    return this.#stream.destroyed
      ? Number.POSITIVE_INFINITY
      : sizeOf(this.#chunks) + this.#writtenBytes - this.#takenBytes;
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

  /** Sends what waits for what follows it, because that does not come. */
  flush(): void {
    if (!this.#isHolding || this.#isEnding) return;
    const [piece] = this.#chunks.splice(0);
    this.#isHolding = false;
    if (piece !== undefined) this.#send(piece);
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
    return (this.#chunks.length === 0 || this.#isHolding) && this.#piecesOut < piecesAhead;
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
    } else if (first === undefined) this.#endAlone();
    else this.#stream.end(first);
    chunks.length = 0;
  }

  #feed(): void {
    while (this.#piecesOut < piecesAhead) {
      this.#isHolding = this.#isLastFilling;
      const piece = this.#isHolding ? undefined : this.#nextPiece();
      if (piece === undefined) break;
      this.#send(piece);
    }
    if (this.#isHolding && this.#isEnding && this.#piecesOut === 0) setImmediate(() => this.#endFull());
    if (this.#isEnding && this.#chunks.length === 0) this.#endAlone();
  }

  /**
   * Ends the content, perhaps with an empty DATA frame, for which nghttp2 waits where the client's window is used up. Node
   * would reset a stream that has nothing more to send before that frame is out, unless somebody reads or pauses its request.
   */
  #endAlone(): void {
    if (this.#stream.writableEnded) return;
    if (this.#stream.readableFlowing === null) this.#stream.pause();
    this.#stream.end();
  }

  #send(piece: Uint8Array): void {
    const sentAt = this.#now();
    this.#piecesOut += 1;
    this.#writtenBytes += piece.length;
    this.#stream.write(piece, () => this.#noteTaken(piece.length, this.#now() - sentAt));
  }

  /** Whether all that is left is a piece after which a window has no room. */
  get #isLastFilling(): boolean {
    const [chunk] = this.#chunks;
    if (chunk === undefined || this.#chunks.length > 1 || chunk.length > this.#stride.bytes) return false;
    const { stream, connection } = this.#client.windows;
    const outBytes = this.#writtenBytes - this.#takenBytes;
    // Of what is on its way, some may have its room already.
    const isConnectionFull = connection === chunk.length || connection === chunk.length + outBytes;
    return isConnectionFull || this.#writtenBytes + chunk.length === stream;
  }

  /**
   * Writes the last piece together with the end. Node puts both into one frame where nothing else is on its way, and where it
   * is not called back by a write.
   */
  #endFull(): void {
    if (this.#stream.destroyed || this.#stream.writableEnded) return;
    const [piece] = this.#chunks.splice(0);
    if (piece !== undefined) this.#send(piece);
    this.#stream.end();
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

/** The size of a piece, in bytes: what is first, and its bounds. */
const firstBytes = 16 * 1024;
const leastBytes = 4 * 1024;
const mostBytes = 64 * 1024;

/** A client that takes a piece within the first time gets larger ones, and one that takes more than the second smaller ones. */
const soonMs = 250;
const lateMs = 1_000;

/**
 * Node tells only when the whole of a write has left, which takes a slow client long for a large one. So content is written
 * in pieces, small enough to see how fast the client takes it, and for a fast one large enough to cost little.
 */
export class Http2Stride {
  #bytes = firstBytes;

  /** The size of the next piece, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** So many bytes have left in so many milliseconds. */
  note(sizeBytes: number, elapsedMs: number): void {
    if (elapsedMs > lateMs) this.#bytes = Math.max(leastBytes, this.#bytes / 4);
    else if (elapsedMs <= soonMs && sizeBytes >= this.#bytes) this.#bytes = Math.min(mostBytes, 2 * this.#bytes);
  }
}
