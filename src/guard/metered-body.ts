/** The body of an exchange whose bytes are charged to a client, and that ends where that client owes too much and no client reads it. */

import type { BodyStream, Taken } from '../http/message.ts';
import type { ProxyError } from '../http/proxy-error.ts';
import type { Errand, OriginResponse } from '../origin/origin.ts';
import type { OriginShare } from './origin-share.ts';

/** What a body is counted with. */
export interface MeteredBodyOptions {
  readonly errand: Errand;
  /** Undefined where bytes are not counted. */
  readonly share: OriginShare | undefined;
  /** Called when the body has ended, in whatever way; more than once. */
  readonly onOver: () => void;
}

/**
 * What is on its way already when a body is closed before its end, and comes though nobody reads it: what buffers and
 * connections hold. A client that asks for large bodies and closes them at once would have that for nothing.
 */
const UNREAD_BYTES = 256 * 1024;

/** Read once; iterating throws `ProxyError` `origin_share_spent` besides what the body throws. */
export class MeteredBody implements BodyStream, AsyncIterator<Uint8Array, undefined> {
  readonly trailers: BodyStream['trailers'];
  readonly #body: BodyStream;
  readonly #options: MeteredBodyOptions;
  #chunks: AsyncIterator<Uint8Array> | undefined;
  #isBegun = false;
  /** Bytes that have yet to come, as far as that is known. */
  #missingBytes: number;
  #isOver = false;

  constructor({ body, sizeBytes }: Pick<OriginResponse, 'body' | 'sizeBytes'>, options: MeteredBodyOptions) {
    this.#body = body;
    this.#options = options;
    this.#missingBytes = sizeBytes ?? Number.POSITIVE_INFINITY;
    this.trailers = body.trailers;
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array, undefined> {
    return this;
  }

  take(): Taken {
    // The reason is thrown where it can be, by the next step of the iteration.
    if (this.#refusal() !== undefined) return 'later';
    const taken = this.#body.take?.() ?? 'later';
    if (taken === 'end') this.#end();
    else if (taken !== 'later') this.#count(taken);
    return taken;
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    const refusal = this.#refusal();
    if (refusal !== undefined) {
      this.close();
      throw refusal;
    }
    try {
      this.#chunks ??= this.#body[Symbol.asyncIterator]();
      const { done, value } = await this.#chunks.next();
      if (done === true) {
        this.#end();
        return { done: true, value: undefined };
      }
      this.#count(value);
      return { done: false, value };
    } catch (thrown) {
      this.#end();
      throw thrown;
    }
  }

  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.close();
    return { done: true, value: undefined };
  }

  close(): void {
    const { errand, share } = this.#options;
    if (!this.#isOver) share?.charge(errand.client, Math.min(UNREAD_BYTES, this.#missingBytes));
    this.#body.close();
    this.#end();
  }

  /** Before the first chunk, those who want it are just coming; the end alone of a body that has come brings no bytes. */
  #refusal(): ProxyError | undefined {
    const { errand, share } = this.#options;
    if (!this.#isBegun || share === undefined || this.#isOver || this.#missingBytes <= 0) return undefined;
    const refusal = share.whyNotUnread(errand.client);
    return refusal !== undefined && errand.wanters?.().length === 0 ? refusal : undefined;
  }

  #count({ length }: Uint8Array): void {
    const { errand, share } = this.#options;
    this.#isBegun = true;
    this.#missingBytes -= length;
    share?.charge(errand.client, length);
  }

  #end(): void {
    this.#isOver = true;
    this.#options.onOver();
  }
}
