/** Bodies put together from pieces: spans of a representation, and the text between the parts of a multipart. */

import { type Span, spanSize } from '../bytes/span.ts';
import type { ByteReader, Representation } from '../cache/representation.ts';
import type { Body, BodyStream, ProxyRequest } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';

/** A piece of a body. A span may end at infinity: at the end of a representation whose length is not known. */
export type Piece =
  | { readonly kind: 'text'; readonly bytes: Uint8Array }
  | { readonly kind: 'span'; readonly span: Span };

/** Bodies up to this size are handed over at once when all of their blocks are in memory, in bytes. */
const AT_ONCE_BYTES = 1024 * 1024;

/** The length of a body of these pieces; undefined when it is not known. */
export function sizeOfPieces(pieces: readonly Piece[]): number | undefined {
  const size = pieces.reduce((sum, piece) => sum + sizeOfPiece(piece), 0);
  return Number.isFinite(size) ? size : undefined;
}

/**
 * The body, in the same tick when it is small and in memory; the signal is asked for only when it is not. Rejects with
 * `ProxyError`, or the signal's reason.
 */
export function bodyOfPieces(
  representation: Representation,
  pieces: readonly Piece[],
  request: Pick<ProxyRequest, 'signal'>,
): Body | Promise<Body> {
  const sizeBytes = sizeOfPieces(pieces);
  if (sizeBytes !== undefined && sizeBytes <= AT_ONCE_BYTES) {
    const chunks = chunksInMemory(representation, pieces);
    if (chunks !== undefined) return { kind: 'bytes', sizeBytes, chunks };
  }
  return openBody(representation, pieces, sizeBytes, request.signal);
}

/** A body of which only the length is told, for HEAD. */
export function unreadBody(sizeBytes: number | undefined): Body {
  return { kind: 'stream', sizeBytes, stream: { close: () => {}, async *[Symbol.asyncIterator]() {} } };
}

async function openBody(
  representation: Representation,
  pieces: readonly Piece[],
  sizeBytes: number | undefined,
  signal: AbortSignal,
): Promise<Body> {
  const spans = pieces.flatMap((piece) => (piece.kind === 'span' ? [piece.span] : []));
  const reader = await representation.open(spans, signal);
  return { kind: 'stream', sizeBytes, stream: createPieceStream(reader, pieces) };
}

function createPieceStream(reader: ByteReader, pieces: readonly Piece[]): BodyStream {
  return {
    close: () => reader.close(),
    async *[Symbol.asyncIterator]() {
      try {
        for (const piece of pieces) {
          if (piece.kind === 'text') yield piece.bytes;
          else yield* readSpan(reader, piece.span);
        }
      } finally {
        reader.close();
      }
    },
  };
}

async function* readSpan(reader: ByteReader, span: Span): AsyncGenerator<Uint8Array> {
  for (let offset = span.start; offset < span.end; ) {
    const chunk = reader.peek(offset, span.end) ?? (await reader.read(offset, span.end));
    if (chunk === undefined) {
      if (span.end === Number.POSITIVE_INFINITY) return;
      throw new ProxyError('bytes_gone', { detail: `the representation ends at ${offset}, before ${span.end}` });
    }
    yield chunk;
    offset += chunk.length;
  }
}

function chunksInMemory(representation: Representation, pieces: readonly Piece[]): Uint8Array[] | undefined {
  const chunks: Uint8Array[] = [];
  for (const piece of pieces) {
    if (piece.kind === 'text') {
      chunks.push(piece.bytes);
      continue;
    }
    for (let offset = piece.span.start; offset < piece.span.end; ) {
      const chunk = representation.peek(offset, piece.span.end);
      if (chunk === undefined) return undefined;
      chunks.push(chunk);
      offset += chunk.length;
    }
  }
  return chunks;
}

function sizeOfPiece(piece: Piece): number {
  return piece.kind === 'text' ? piece.bytes.length : spanSize(piece.span);
}
