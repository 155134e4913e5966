/** Bodies that are lent: a request's, to one origin after another; a response's, to whoever reads it. */

import type { BodyStream, Taken } from '../http/message.ts';
import { isOriginFailure } from './resend.ts';

/** A request's body that is not given up when an attempt to send it fails before it was read. */
export class LentBody implements BodyStream, AsyncIterator<Uint8Array> {
  readonly #body: BodyStream;
  #chunks: AsyncIterator<Uint8Array> | undefined;
  /** The first step, once it was waited for; undefined again when it was given. */
  #first: Promise<IteratorResult<Uint8Array>> | undefined;
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
    return this;
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    const first = this.#first;
    this.#first = undefined;
    return first ?? this.#iterator.next();
  }

  async return(): Promise<IteratorResult<Uint8Array>> {
    await this.#iterator.return?.();
    return { done: true, value: undefined };
  }

  /** What comes is kept for the attempt that sends it, so that the body is not touched by it. */
  async begun(): Promise<void> {
    if (this.#isTouched) return;
    this.#first ??= this.#iterator.next();
    await this.#first;
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

  get #iterator(): AsyncIterator<Uint8Array> {
    this.#chunks ??= this.#body[Symbol.asyncIterator]();
    return this.#chunks;
  }
}

/** What became of a response's body: read to its end, broken off by the origin, or given up on our side. */
export type BodyEnd = 'whole' | 'broken' | 'closed';

/** Who watches a body. */
export interface BodyWatch {
  onChunk?(chunk: Uint8Array): void;
  /** Called once; `thrown` is what it broke off with, where it did. */
  onEnd(end: BodyEnd, thrown?: unknown): void;
}

/** A response's body that tells what comes, and its end. */
export class WatchedBody implements BodyStream, AsyncIterator<Uint8Array> {
  readonly #body: BodyStream;
  readonly trailers: BodyStream['trailers'];
  #chunks: AsyncIterator<Uint8Array> | undefined;
  readonly #watch: BodyWatch;
  #isOver = false;

  constructor(body: BodyStream, watch: BodyWatch) {
    this.#body = body;
    this.trailers = body.trailers;
    this.#watch = watch;
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    this.#chunks = this.#body[Symbol.asyncIterator]();
    return this;
  }

  take(): Taken {
    const taken = this.#body.take?.() ?? 'later';
    if (taken === 'end') this.#tell('whole');
    else if (taken !== 'later') this.#watch.onChunk?.(taken);
    return taken;
  }

  async next(): Promise<IteratorResult<Uint8Array>> {
    try {
      const next = (await this.#chunks?.next()) ?? { done: true, value: undefined };
      if (next.done === true) this.#tell('whole');
      else this.#watch.onChunk?.(next.value);
      return next;
    } catch (thrown) {
      this.#tell(isOriginFailure(thrown) ? 'broken' : 'closed', thrown);
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

  #tell(end: BodyEnd, thrown?: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#watch.onEnd(end, thrown);
  }
}
