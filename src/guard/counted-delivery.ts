/** The body of a response that tells how much of it was delivered while it is. */

import type { BodyStream } from '../http/message.ts';

/** Tells of a chunk when the next one is asked for: the connection has taken it then. */
export function createCountedDelivery(body: BodyStream, onDelivered: (bytes: number) => void): BodyStream {
  return {
    trailers: body.trailers,
    [Symbol.asyncIterator]() {
      const chunks = body[Symbol.asyncIterator]();
      let givenBytes = 0;
      const tell = () => {
        if (givenBytes > 0) onDelivered(givenBytes);
        givenBytes = 0;
      };
      const note = ({ done, value }: IteratorResult<Uint8Array, unknown>) => {
        if (done !== true) givenBytes = value.length;
      };
      const ignore = () => {};
      return {
        next: () => {
          tell();
          const chunk = chunks.next();
          // Beside the road of the chunk, which nothing is to delay.
          chunk.then(note, ignore);
          return chunk;
        },
        return: async () => {
          await chunks.return?.();
          return { done: true, value: undefined };
        },
      };
    },
    close: () => body.close(),
  };
}
