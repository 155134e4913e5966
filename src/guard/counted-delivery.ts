/** The body of a response that tells how much of it was delivered while it is. */

import type { BodyStream, Taken } from '../http/message.ts';

/** Tells of a chunk when the next one is asked for, and of what was moved at once: the connection has taken it then. */
export function createCountedDelivery(body: BodyStream, onDelivered: (bytes: number) => void): BodyStream {
  return new CountedDelivery(body, onDelivered);
}

type Step = IteratorResult<Uint8Array, unknown>;

class CountedDelivery implements BodyStream, AsyncIterator<Uint8Array, unknown> {
  readonly take: BodyStream['take'];
  readonly moveTo: BodyStream['moveTo'];
  readonly giveBack: BodyStream['giveBack'];
  readonly trailers: BodyStream['trailers'];
  readonly #body: BodyStream;
  readonly #onDelivered: (bytes: number) => void;
  #chunks: AsyncIterator<Uint8Array, unknown> | undefined;
  /** The bytes of the chunk that was given last, and that nobody was told of. */
  #givenBytes = 0;

  constructor(body: BodyStream, onDelivered: (bytes: number) => void) {
    const { take, moveTo, giveBack, trailers } = body;
    this.#body = body;
    this.#onDelivered = onDelivered;
    this.take = take && ((wantedBytes) => this.#note(take.call(body, wantedBytes)));
    this.moveTo = moveTo && ((socket, head) => this.#noteMoved(moveTo.call(body, socket, head), head));
    this.giveBack = giveBack && ((chunk) => giveBack.call(body, chunk));
    this.trailers = trailers && (() => trailers.call(body));
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array, unknown> {
    return this;
  }

  next(): Promise<Step> {
    this.#tell();
    this.#chunks ??= this.#body[Symbol.asyncIterator]();
    const step = this.#chunks.next();
    // Beside the road of the chunk, which nothing is to delay.
    step.then(this.#noteStep, ignore);
    return step;
  }

  async return(): Promise<Step> {
    await this.#chunks?.return?.();
    return { done: true, value: undefined };
  }

  close(): void {
    this.#body.close();
  }

  readonly #noteStep = ({ done, value }: Step): void => {
    if (done !== true) this.#givenBytes = value.length;
  };

  #note(taken: Taken): Taken {
    this.#tell();
    if (typeof taken !== 'string') this.#givenBytes = taken.length;
    return taken;
  }

  #noteMoved(takenBytes: number, head: Uint8Array): number {
    this.#tell();
    if (takenBytes > head.length) this.#onDelivered(takenBytes - head.length);
    return takenBytes;
  }

  #tell(): void {
    if (this.#givenBytes > 0) this.#onDelivered(this.#givenBytes);
    this.#givenBytes = 0;
  }
}

function ignore(): void {}
