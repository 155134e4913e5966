/** The body of an exchange whose bytes are counted, and that waits or ends when too much has come. */

import type { Clock } from '../http/clock.ts';
import type { BodyStream, Taken } from '../http/message.ts';
import type { Errand, OriginResponse } from '../origin/origin.ts';
import type { OriginShare } from './origin-share.ts';

/** What a body is counted with. */
export interface MeteredBodyOptions {
  readonly errand: Errand;
  /** Undefined where bytes are not counted. */
  readonly share: OriginShare | undefined;
  readonly clock: Pick<Clock, 'after'>;
  /** Called when the body has ended, in whatever way; more than once. */
  readonly onOver: () => void;
}

/**
 * What is on its way already when a body is closed before its end, and comes though nobody reads it: what buffers and
 * connections hold. Who asks for large bodies and closes them at once would have that for nothing.
 */
const UNREAD_BYTES = 256 * 1024;

/** Who reads at all pays something back within this time. */
const PATIENCE_MS = 30_000;

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
  /** Ends a pause. */
  #wake: () => void = () => {};

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
    if (!this.#mayTake()) return 'later';
    const taken = this.#body.take?.() ?? 'later';
    if (taken === 'end') this.#end();
    else if (taken !== 'later') this.#count(taken);
    return taken;
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    const { share } = this.#options;
    // For the first chunk that is decided already, and those who want it are just coming.
    if (this.#isBegun && share !== undefined) await this.#goOn(share);
    try {
      this.#isBegun = true;
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
    if (!this.#isOver) share?.charge(errand, Math.min(UNREAD_BYTES, this.#missingBytes));
    this.#body.close();
    this.#end();
    this.#wake();
  }

  /** Whether it goes on without waiting. What refuses it is thrown where it can be, by the next step of the iteration. */
  #mayTake(): boolean {
    const { share, errand } = this.#options;
    if (!this.#isBegun || share === undefined || this.#isOver || this.#missingBytes <= 0) return true;
    try {
      return share.goOn(errand) === 'go';
    } catch {
      return false;
    }
  }

  #count({ length }: Uint8Array): void {
    const { errand, share } = this.#options;
    this.#isBegun = true;
    this.#missingBytes -= length;
    share?.charge(errand, length);
  }

  /** Waits as long as it has to. The end alone of a body that has come brings no bytes, and is never refused. */
  async #goOn(share: OriginShare): Promise<void> {
    try {
      let isPaid = true;
      while (!this.#isOver && this.#missingBytes > 0) {
        if (share.goOn(this.#options.errand, isPaid) === 'go') return;
        isPaid = await this.#pause(share);
      }
    } catch (thrown) {
      this.close();
      throw thrown;
    }
  }

  /** Resolves with whether something was paid back in time, or the body was closed. */
  #pause(share: OriginShare): Promise<boolean> {
    const { errand, clock } = this.#options;
    return new Promise((resolve) => {
      const end = (isPaid: boolean) => {
        stopWatching();
        cancel();
        this.#wake = () => {};
        resolve(isPaid);
      };
      this.#wake = () => end(true);
      const stopWatching = share.whenRepaid(errand, this.#wake);
      const cancel = clock.after(PATIENCE_MS, () => end(false));
    });
  }

  #end(): void {
    this.#isOver = true;
    this.#options.onOver();
  }
}
