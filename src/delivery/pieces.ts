/**
 * Makes bodies from pieces: spans of a representation, and the text between the parts of a multipart body. A body is returned
 * in the same tick where memory has it, is sent from a file by the system where that costs less, and is a stream otherwise.
 */

import { chunksOf, type Span, spanSize } from '../bytes/span.ts';
import type { ByteReader, Representation } from '../cache/answer.ts';
import type { Body, BodyStream, MovableBytes, NextChunk, ProxyRequest } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';

/** A piece of a body. The end of a span may be infinity: the end of a representation of unknown length. */
export type BodyPart =
  | { readonly kind: 'text'; readonly bytes: Uint8Array }
  | { readonly kind: 'span'; readonly span: Span };

/** Largest body that is returned at once when all of its blocks are in memory, in bytes. */
export const AT_ONCE_BYTES = 1024 * 1024;

/** Below this size, in bytes, copying costs less than the system calls that send a span from its file. */
export const SENT_FROM_FILE_BYTES = 32 * 1024;
/** Below this size, in bytes, a span that is in memory is sent from memory: that costs less than checking the file. */
export const SENT_FROM_MEMORY_BYTES = 128 * 1024;

/** Returns the length of a body of these pieces, in bytes; undefined when it is unknown. */
export function sizeOfParts(pieces: readonly BodyPart[]): number | undefined {
  const size = pieces.reduce((sum, piece) => sum + sizeOfPiece(piece), 0);
  return Number.isFinite(size) ? size : undefined;
}

/**
 * Returns the body, in the same tick when it is small and in memory. Reads the request's signal only when it is not. Rejects
 * with `ProxyError`, or with the signal's reason.
 */
export function bodyOfParts(
  representation: Representation,
  pieces: readonly BodyPart[],
  request: Pick<ProxyRequest, 'signal' | 'takesMovable'>,
): Body | Promise<Body> {
  const sizeBytes = sizeOfParts(pieces);
  if (sizeBytes !== undefined && sizeBytes <= AT_ONCE_BYTES) {
    const file = request.takesMovable === true ? fileBody(representation, pieces, sizeBytes, request) : undefined;
    if (file !== undefined) return file;
    const chunks = chunksInMemory(representation, pieces);
    if (chunks !== undefined) {
      const giveBack = representation.giveBack && (() => representation.giveBack?.(chunks));
      return { kind: 'bytes', sizeBytes, chunks, giveBack };
    }
  }
  return openBody(representation, pieces, sizeBytes, request.signal);
}

/**
 * The body of a single large span: from memory where that costs less, else from a file by the system; undefined where neither
 * is possible.
 */
function fileBody(
  representation: Representation,
  pieces: readonly BodyPart[],
  sizeBytes: number,
  request: Pick<ProxyRequest, 'signal'>,
): Body | undefined {
  const [piece, ...more] = pieces;
  if (sizeBytes < SENT_FROM_FILE_BYTES || representation.canMove === undefined) return undefined;
  if (piece?.kind !== 'span' || more.length > 0) return undefined;
  const { span } = piece;
  if (sizeBytes < SENT_FROM_MEMORY_BYTES) {
    const chunks = chunksOf(span, (offset, end) => representation.peekKept?.(offset, end));
    if (chunks !== undefined) return { kind: 'bytes', sizeBytes, chunks };
  }
  if (!representation.canMove(span)) return undefined;
  return { kind: 'file', sizeBytes, bytes: new MovableSpan(representation, span, request) };
}

/** A span of a stored file that the system can send. */
export class MovableSpan implements MovableBytes {
  readonly #representation: Representation;
  readonly #span: Span;
  readonly #request: Pick<ProxyRequest, 'signal'>;

  constructor(representation: Representation, span: Span, request: Pick<ProxyRequest, 'signal'>) {
    this.#representation = representation;
    this.#span = span;
    this.#request = request;
  }

  moveTo(socket: number, head: Uint8Array): number {
    return this.#representation.move?.(socket, head, this.#span) ?? 0;
  }

  rest(offset: number): Promise<BodyStream> {
    const span = { start: this.#span.start + offset, end: this.#span.end };
    return openPieces(this.#representation, [{ kind: 'span', span }], this.#request.signal);
  }
}

/** Returns a body for HEAD, which has a length but no bytes. */
export function unreadBody(sizeBytes: number | undefined): Body {
  return { kind: 'stream', sizeBytes, stream: { close: () => {}, async *[Symbol.asyncIterator]() {} } };
}

async function openBody(
  representation: Representation,
  pieces: readonly BodyPart[],
  sizeBytes: number | undefined,
  signal: AbortSignal,
): Promise<Body> {
  return { kind: 'stream', sizeBytes, stream: await openPieces(representation, pieces, signal) };
}

async function openPieces(
  representation: Representation,
  pieces: readonly BodyPart[],
  signal: AbortSignal,
): Promise<BodyStream> {
  const spans = pieces.flatMap((piece) => (piece.kind === 'span' ? [piece.span] : []));
  return new PieceStream(await representation.open(spans, signal), pieces);
}

/** Reads the pieces of an opened representation in order. Bytes in memory are returned without waiting. */
class PieceStream implements BodyStream, AsyncIterator<Uint8Array, undefined> {
  readonly #reader: ByteReader;
  readonly #pieces: readonly BodyPart[];
  /** Index of the next piece. */
  #next = 0;
  /** The span that is being read. */
  #span: Span | undefined;
  /** Offset of the next byte in the representation. */
  #offset = 0;

  constructor(reader: ByteReader, pieces: readonly BodyPart[]) {
    this.#reader = reader;
    this.#pieces = pieces;
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array, undefined> {
    return this;
  }

  moveTo(socket: number, head: Uint8Array): number {
    const span = this.#enterSpan();
    const takenBytes = (span && this.#reader.move?.(socket, head, this.#offset, span.end)) ?? 0;
    this.#offset += Math.max(0, takenBytes - head.length);
    return takenBytes;
  }

  take(wantedBytes = Number.POSITIVE_INFINITY): NextChunk {
    const span = this.#enterSpan();
    if (span === undefined) return this.#takeText();
    const chunk = this.#reader.peek(this.#offset, Math.min(span.end, this.#offset + wantedBytes));
    this.#offset += chunk?.length ?? 0;
    return chunk ?? 'later';
  }

  giveBack(chunk: Uint8Array): void {
    this.#reader.giveBack?.(chunk);
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    try {
      const taken = this.take();
      const chunk = taken === 'later' ? await this.#read() : taken;
      return chunk === 'end' ? { done: true, value: undefined } : { done: false, value: chunk };
    } catch (thrown) {
      this.close();
      throw thrown;
    }
  }

  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.close();
    return { done: true, value: undefined };
  }

  close(): void {
    this.#reader.close();
  }

  /** The span of the next bytes; undefined where the next piece is text, or there is none. */
  #enterSpan(): Span | undefined {
    while (this.#span === undefined || this.#offset >= this.#span.end) {
      const piece = this.#pieces[this.#next];
      if (piece?.kind !== 'span') return undefined;
      this.#next += 1;
      this.#span = piece.span;
      this.#offset = piece.span.start;
    }
    return this.#span;
  }

  #takeText(): NextChunk {
    const piece = this.#pieces[this.#next];
    this.#next += 1;
    if (piece?.kind === 'text') return piece.bytes;
    this.close();
    return 'end';
  }

  /** Waits for bytes of the span. A span without an end is over when the representation ends. */
  async #read(): Promise<Uint8Array | 'end'> {
    const end = this.#span?.end ?? this.#offset;
    const chunk = await this.#reader.read(this.#offset, end);
    if (chunk === undefined && end !== Number.POSITIVE_INFINITY) {
      throw new ProxyError('bytes_gone', { detail: `the representation ends at ${this.#offset}, before ${end}` });
    }
    this.#offset = chunk === undefined ? end : this.#offset + chunk.length;
    if (chunk !== undefined) return chunk;
    // A span without an end is always the last piece.
    this.close();
    return 'end';
  }
}

function chunksInMemory(representation: Representation, pieces: readonly BodyPart[]): Uint8Array[] | undefined {
  const chunks: Uint8Array[] = [];
  for (const piece of pieces) {
    if (piece.kind === 'text') {
      chunks.push(piece.bytes);
      continue;
    }
    const inMemory = chunksOf(piece.span, (offset, end) => representation.peek(offset, end));
    if (inMemory === undefined) return undefined;
    chunks.push(...inMemory);
  }
  return chunks;
}

function sizeOfPiece(piece: BodyPart): number {
  return piece.kind === 'text' ? piece.bytes.length : spanSize(piece.span);
}
