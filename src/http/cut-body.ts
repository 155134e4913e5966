/** Cuts a span out of a body on its way. */

import type { Span } from '../bytes/span.ts';
import type { BodyStream } from './message.ts';
import { ProxyError } from './proxy-error.ts';

/** Returns one span of a body that is read from its start. The body is closed at the end of the span. */
export function cutSpan(body: BodyStream, span: Span): BodyStream {
  return { close: () => body.close(), [Symbol.asyncIterator]: () => chunksOf(body, span) };
}

async function* chunksOf(body: BodyStream, span: Span): AsyncGenerator<Uint8Array, void> {
  let offset = 0;
  try {
    for await (const chunk of body) {
      const from = Math.max(0, span.start - offset);
      const to = Math.min(chunk.length, span.end - offset);
      if (from < to) yield chunk.subarray(from, to);
      offset += chunk.length;
      if (offset >= span.end) return;
    }
  } finally {
    body.close();
  }
  throw new ProxyError('origin_body_short');
}
