/** Makes responses that the code of others may keep: without lent memory, which is used again for other responses. */

import type { BodyStream, ProxyResponse } from '../http/message.ts';

/**
 * Returns the response with chunks that are garbage-collected. A middleware in front of Node's response, such as one that
 * compresses, may hold chunks longer than Node states.
 */
export function withOwnedMemory(response: ProxyResponse): ProxyResponse {
  const { body } = response;
  if (body.kind === 'bytes' && body.giveBack !== undefined) {
    return { ...response, body: { kind: 'bytes', sizeBytes: body.sizeBytes, chunks: body.chunks } };
  }
  if (body.kind === 'stream' && body.stream.giveBack !== undefined) {
    return { ...response, body: { ...body, stream: new OwnedBody(body.stream) } };
  }
  return response;
}

/** A body whose chunks are not given back. */
class OwnedBody implements BodyStream {
  readonly take: BodyStream['take'];
  readonly begun: BodyStream['begun'];
  readonly trailers: BodyStream['trailers'];
  readonly #body: BodyStream;

  constructor(body: BodyStream) {
    this.#body = body;
    this.take = body.take?.bind(body);
    this.begun = body.begun?.bind(body);
    this.trailers = body.trailers?.bind(body);
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    return this.#body[Symbol.asyncIterator]();
  }

  close(): void {
    this.#body.close();
  }
}
