/** The body of a request that may have a certain length at most. */

import type { BodyStream } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';

/** The body; iterating throws `ProxyError` `body_too_large` in place of the chunk that makes it too long. */
export function createLimitedBody(body: BodyStream, maxBytes: number): BodyStream {
  return {
    trailers: body.trailers,
    [Symbol.asyncIterator]: () => chunksOf(body, maxBytes),
    close: () => body.close(),
  };
}

async function* chunksOf(body: BodyStream, maxBytes: number): AsyncGenerator<Uint8Array, void> {
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new ProxyError('body_too_large', { detail: `more than ${maxBytes} bytes` });
    yield chunk;
  }
}
