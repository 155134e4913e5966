/** A body that counts what is read of it. */

import type { BodyStream } from '../http/message.ts';

/** A body and how many bytes of it have been read. */
export interface CountedBody extends BodyStream {
  readonly bytesRead: number;
}

/** Wraps a body; closing and failing stay as they are. */
export function createCountedBody(body: BodyStream): CountedBody {
  let bytesRead = 0;
  return {
    get bytesRead() {
      return bytesRead;
    },
    async *[Symbol.asyncIterator]() {
      for await (const chunk of body) {
        bytesRead += chunk.length;
        yield chunk;
      }
    },
    trailers: body.trailers,
    close: () => body.close(),
  };
}
