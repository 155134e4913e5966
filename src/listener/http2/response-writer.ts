/** Writes content to an HTTP/2 stream, in pieces whose size follows the client's speed. */

import type { ServerHttp2Stream } from 'node:http2';

/** Maximum number of pieces that Node has at a time: enough that the connection is never idle. */
const piecesAhead = 2;

/** Flow-control windows of a client (RFC 9113 §6.9), as far as Node exposes them. In bytes. */
export interface Http2Windows {
  /** The initial window of each stream. Node does not expose the client's later updates. */
  readonly stream: number;
  /** The remaining window of the connection, shared by all streams. */
  readonly connection: number;
}

/**
 * Writes the content of one response. Content up to the piece size is written at once; more is written piece by piece, following
 * the client's flow control (RFC 9113 §5.2).
 *
 * nghttp2 sends no DATA frame while a window has no room, not even the empty frame that ends a stream, though that would be
 * allowed (§6.9.1). So a piece that fills a window waits until it is known whether it is the last one, and is then sent together
 * with the end.
 */
export class Http2Writer {
  readonly #stream: ServerHttp2Stream;
  readonly #stride: PieceSizer;
  readonly #now: () => number;
  readonly #chunks: Uint8Array[] = [];
  readonly #client: { readonly windows: Http2Windows };
  #piecesOut = 0;
  #writtenBytes = 0;
  #takenBytes = 0;
  /** Whether the remaining piece fills a window, and waits for more content or the end. */
  #isHolding = false;
  #isEnding = false;
  /** Size and time of the final write (`#finishAtOnce`). */
  #lastBytes = 0;
  #lastAt = 0;
  #onRoom: (() => void) | undefined;

  constructor(
    stream: ServerHttp2Stream,
    client: { readonly windows: Http2Windows },
    stride: PieceSizer,
    now: () => number,
  ) {
    this.#stream = stream;
    this.#client = client;
    this.#stride = stride;
    this.#now = now;
  }

  /** Bytes of pieces that Node has sent. */
  get takenBytes(): number {
    return this.#takenBytes;
  }

  /** Whether all content was passed to Node. */
  get isEmpty(): boolean {
    return this.#chunks.length === 0;
  }

  /** Whether some written content has not been sent yet. */
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

  /** Sends a piece that waits for more content or the end, because neither comes. */
  flush(): void {
    if (!this.#isHolding || this.#isEnding) return;
    const [piece] = this.#chunks.splice(0);
    this.#isHolding = false;
    if (piece !== undefined) this.#send(piece);
  }

  /** Resolves when more may be written, or at `release`. */
  room(): Promise<void> {
    return new Promise((resolve) => {
      this.#onRoom = resolve;
      if (this.#hasRoom) this.release();
    });
  }

  /** Resolves a pending `room`. */
  release(): void {
    const onRoom = this.#onRoom;
    this.#onRoom = undefined;
    onRoom?.();
  }

  /** Called when the stream is closed and all content was sent. */
  noteWhole(now: number): void {
    if (this.#lastBytes > 0) this.#stride.note(this.#lastBytes, now - this.#lastAt);
  }

  get #hasRoom(): boolean {
    return (this.#chunks.length === 0 || this.#isHolding) && this.#piecesOut < piecesAhead;
  }

  /** Writes the rest and the end. Corked, Node puts all chunks into the frames of one write, and END_STREAM on the last frame. */
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
   * Ends the content, perhaps with an empty DATA frame. nghttp2 delays that frame while the client's window is used up. Meanwhile
   * Node would reset a stream that has nothing more to send, unless its request is read or paused.
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

  /** Whether the rest is one piece that exactly fills a window. */
  get #isLastFilling(): boolean {
    const [chunk] = this.#chunks;
    if (chunk === undefined || this.#chunks.length > 1 || chunk.length > this.#stride.bytes) return false;
    const { stream, connection } = this.#client.windows;
    const outBytes = this.#writtenBytes - this.#takenBytes;
    // Pieces in transit may or may not be deducted from the window already.
    const isConnectionFull = connection === chunk.length || connection === chunk.length + outBytes;
    return isConnectionFull || this.#writtenBytes + chunk.length === stream;
  }

  /**
   * Writes the last piece together with the end. Node puts both into one frame only when no other piece is in transit, and when this
   * is not called from the callback of a write.
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

/** Initial size of a piece and its bounds, in bytes. */
const firstBytes = 16 * 1024;
const leastBytes = 4 * 1024;
const mostBytes = 64 * 1024;

/** A piece sent within `soonMs` makes the next ones larger; one that takes longer than `lateMs` makes them smaller. */
const soonMs = 250;
const lateMs = 1_000;

/**
 * Adapts the piece size to the client. Node reports a write only when all of it was sent. Small pieces show how fast a slow client
 * is; large pieces cost less for a fast client.
 */
export class PieceSizer {
  #bytes = firstBytes;

  /** The size of the next piece, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Records that `sizeBytes` were sent in `elapsedMs` milliseconds. */
  note(sizeBytes: number, elapsedMs: number): void {
    if (elapsedMs > lateMs) this.#bytes = Math.max(leastBytes, this.#bytes / 4);
    else if (elapsedMs <= soonMs && sizeBytes >= this.#bytes) this.#bytes = Math.min(mostBytes, 2 * this.#bytes);
  }
}
