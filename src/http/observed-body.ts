/** One way to observe, count, limit and end a body on its way: a wrapper that any number of observers share. */

import type { Fields } from './fields.ts';
import type { BodyStream, NextChunk } from './message.ts';
import type { ProxyError } from './proxy-error.ts';

/** The callbacks of one observer. None of them throws. */
export interface BodyObserver {
  /** Called before bytes are read: all earlier ones have been used. An error that it returns ends the body, which is closed. */
  beforeRead?(): ProxyError | undefined;
  /** Called with each chunk that was read. An error that it returns ends the body in place of the chunk. */
  onChunk?(chunk: Uint8Array): ProxyError | undefined;
  /** Called with the number of bytes that the system has put into a socket (`BodyStream.moveTo`). */
  onMoved?(bytes: number): void;
  /** Called once, when the body is over: read to its end (`isWhole`), failed with `thrown`, or closed before its end. */
  onEnd?(isWhole: boolean, thrown: unknown): void;
  /** Returns the trailer fields to pass on. */
  changeTrailers?(fields: Fields): Fields;
}

type Step = IteratorResult<Uint8Array, undefined>;

/** A body with observers, which are called in the order in which they were added. */
export class ObservedBody implements BodyStream, AsyncIterator<Uint8Array, undefined> {
  readonly moveTo: BodyStream['moveTo'];
  readonly giveBack: BodyStream['giveBack'];
  readonly #body: BodyStream;
  readonly #observers: BodyObserver[];
  #chunks: AsyncIterator<Uint8Array> | undefined;
  #readBytes = 0;
  /** The error of an observer, once there is one. */
  #refusal: ProxyError | undefined;
  #isOver = false;

  private constructor(body: BodyStream, observers: BodyObserver[]) {
    const { moveTo, giveBack } = body;
    this.#body = body;
    this.#observers = observers;
    // Variables first: a function written in an assignment to a property is in the old generation at once (see docs/performance.md).
    const move: typeof moveTo =
      moveTo && ((socket, head) => this.#noteMoved(moveTo.call(body, socket, head), head.length));
    const release: typeof giveBack = giveBack && ((chunk) => giveBack.call(body, chunk));
    this.moveTo = move;
    this.giveBack = release;
  }

  /** Adds an observer to a body. Returns the body to read in its place: the same one where it is observed already. */
  static of(body: BodyStream, observer?: BodyObserver): ObservedBody {
    if (!(body instanceof ObservedBody)) return new ObservedBody(body, observer === undefined ? [] : [observer]);
    if (observer !== undefined) body.#observers.push(observer);
    return body;
  }

  /** Bytes that were read of it, and moved. */
  get readBytes(): number {
    return this.#readBytes;
  }

  get trailers(): BodyStream['trailers'] {
    const { trailers } = this.#body;
    if (trailers === undefined) return undefined;
    const change = (fields: Fields, observer: BodyObserver) => observer.changeTrailers?.(fields) ?? fields;
    return () => this.#observers.reduce(change, trailers.call(this.#body));
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array, undefined> {
    return this;
  }

  take(wantedBytes?: number): NextChunk {
    // `take` must not throw: the next step of the iteration throws the error.
    if (this.#isRefused()) return 'later';
    const taken = this.#body.take?.(wantedBytes) ?? 'later';
    if (taken === 'end') this.#end(true);
    else if (taken !== 'later' && this.#isRefusedWith(taken)) return 'later';
    return taken;
  }

  async next(): Promise<Step> {
    if (this.#isRefused()) return this.#throwRefusal();
    try {
      this.#chunks ??= this.#body[Symbol.asyncIterator]();
      const step = await this.#chunks.next();
      if (step.done !== true) return this.#isRefusedWith(step.value) ? this.#throwRefusal() : step;
      this.#end(true);
      return { done: true, value: undefined };
    } catch (thrown) {
      this.#end(false, thrown);
      throw thrown;
    }
  }

  return(): Promise<Step> {
    this.close();
    return Promise.resolve({ done: true, value: undefined });
  }

  close(): void {
    this.#body.close();
    this.#end(false);
  }

  #isRefused(): boolean {
    if (this.#refusal !== undefined || this.#isOver) return this.#refusal !== undefined;
    for (const observer of this.#observers) this.#refusal ??= observer.beforeRead?.();
    return this.#refusal !== undefined;
  }

  #isRefusedWith(chunk: Uint8Array): boolean {
    this.#readBytes += chunk.length;
    for (const observer of this.#observers) this.#refusal ??= observer.onChunk?.(chunk);
    return this.#refusal !== undefined;
  }

  #throwRefusal(): never {
    this.close();
    throw this.#refusal;
  }

  /** `takenBytes` include those of the head of this length. */
  #noteMoved(takenBytes: number, headBytes: number): number {
    const bytes = Math.max(0, takenBytes - headBytes);
    if (this.#isOver) return takenBytes;
    this.#readBytes += bytes;
    for (const observer of this.#observers) {
      observer.beforeRead?.();
      if (bytes > 0) observer.onMoved?.(bytes);
    }
    return takenBytes;
  }

  #end(isWhole: boolean, thrown?: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const observer of this.#observers) observer.onEnd?.(isWhole, thrown);
  }
}
