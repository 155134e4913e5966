/** Cuts spans out of a body on its way. */

import type { Span } from '../bytes/span.ts';
import type { BodyStream } from './message.ts';
import { ProxyError } from './proxy-error.ts';

/** Returns one span of a body that is read from its start. The body is closed at the end of the span. */
export function cutSpan(body: BodyStream, span: Span): BodyStream {
  return cutPieces(body, [span]);
}

/**
 * Returns spans of a body that is read from its start, in the order of their offsets, with texts between them. The body is closed at the
 * end of the last span.
 */
export function cutPieces(body: BodyStream, pieces: readonly (Span | Uint8Array)[]): BodyStream {
  return { close: () => body.close(), [Symbol.asyncIterator]: () => chunksOf(body, pieces) };
}

async function* chunksOf(body: BodyStream, pieces: readonly (Span | Uint8Array)[]): AsyncGenerator<Uint8Array, void> {
  let offset = 0;
  let next = 0;
  try {
    for await (const chunk of body) {
      const end = offset + chunk.length;
      for (let piece = pieces[next]; piece !== undefined; next += 1, piece = pieces[next]) {
        if (piece instanceof Uint8Array) {
          yield piece;
          continue;
        }
        const from = Math.max(0, piece.start - offset);
        const to = Math.min(chunk.length, piece.end - offset);
        if (from < to) yield chunk.subarray(from, to);
        if (end < piece.end) break;
      }
      if (next === pieces.length) return;
      offset = end;
    }
  } finally {
    body.close();
  }
  throw new ProxyError('origin_body_short');
}
