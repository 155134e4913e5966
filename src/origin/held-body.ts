/** Bodies that are lent: a request's, to one origin after another; a response's, to whoever reads it. */

import type { BodyStream } from '../http/message.ts';
import { isOriginFailure } from './resend.ts';

/** A request's body that is not given up when an attempt to send it fails before it was read. */
export class LentBody implements BodyStream {
  readonly #body: BodyStream;
  #isTouched = false;
  #isKept = true;
  #isUnwanted = false;

  constructor(body: BodyStream) {
    this.#body = body;
  }

  /** Whether some of it was read. */
  get isTouched(): boolean {
    return this.#isTouched;
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    this.#isTouched = true;
    // An attempt before this one has given it up.
    this.#isUnwanted = false;
    return this.#body[Symbol.asyncIterator]();
  }

  /** Has no effect on a body that may yet be sent by another attempt. */
  close(): void {
    this.#isUnwanted = true;
    if (this.#isTouched || !this.#isKept) this.#body.close();
  }

  /** There will be no other attempt. */
  release(isOver: boolean): void {
    this.#isKept = false;
    if (isOver || this.#isUnwanted) this.#body.close();
  }
}

/** What became of a response's body: read to its end, broken off by the origin, or given up on our side. */
export type BodyEnd = 'whole' | 'broken' | 'closed';

/** A response's body that tells its end, once. */
export class WatchedBody implements BodyStream, AsyncIterator<Uint8Array> {
  readonly #body: BodyStream;
  readonly trailers: BodyStream['trailers'];
  #chunks: AsyncIterator<Uint8Array> | undefined;
  #onEnd: ((end: BodyEnd) => void) | undefined;

  constructor(body: BodyStream, onEnd: (end: BodyEnd) => void) {
    this.#body = body;
    this.trailers = body.trailers;
    this.#onEnd = onEnd;
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    this.#chunks = this.#body[Symbol.asyncIterator]();
    return this;
  }

  async next(): Promise<IteratorResult<Uint8Array>> {
    try {
      const next = (await this.#chunks?.next()) ?? { done: true, value: undefined };
      if (next.done === true) this.#tell('whole');
      return next;
    } catch (thrown) {
      this.#tell(isOriginFailure(thrown) ? 'broken' : 'closed');
      throw thrown;
    }
  }

  return(): Promise<IteratorResult<Uint8Array>> {
    this.close();
    return Promise.resolve({ done: true, value: undefined });
  }

  close(): void {
    this.#body.close();
    this.#tell('closed');
  }

  #tell(end: BodyEnd): void {
    this.#onEnd?.(end);
    this.#onEnd = undefined;
  }
}
