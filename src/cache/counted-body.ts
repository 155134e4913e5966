/** A body that counts what is read of it. */

import type { BodyStream } from '../http/message.ts';

/** A body and how many bytes of it have been read; closing and failing stay as they are. */
export class CountedBody implements BodyStream {
  readonly trailers: BodyStream['trailers'];
  readonly #body: BodyStream;
  #bytesRead = 0;

  constructor(body: BodyStream) {
    this.#body = body;
    this.trailers = body.trailers;
  }

  get bytesRead(): number {
    return this.#bytesRead;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    for await (const chunk of this.#body) {
      this.#bytesRead += chunk.length;
      yield chunk;
    }
  }

  close(): void {
    this.#body.close();
  }
}
