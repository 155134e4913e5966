/**
 * Which requests are sent again, after which failures (RFC 9110 §9.2.2), and how many: a share of the recent ones, so that an
 * origin in trouble does not get ever more requests. `LentBody` keeps the body of a request for another attempt as long as nothing of
 * it was read; `WatchedBody` reports the chunks and the end of a response's body.
 */

import type { BodyStream, Taken } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import { isIdempotentMethod } from '../../semantics/method.ts';
import type { OriginRequest, OriginResponse } from '../origin.ts';
import { OriginError } from '../origin-error.ts';

/** What came of sending a request. */
export type Attempt =
  | { readonly kind: 'response'; readonly response: OriginResponse }
  | { readonly kind: 'failed'; readonly error: unknown };

/** What is known of the request by now. */
interface Situation {
  readonly request: Pick<OriginRequest, 'method' | 'body' | 'signal'>;
  /** Whether an interim response was passed on. */
  readonly isAnswered: boolean;
  /** Whether some of the request's body was read. */
  readonly isBodyTouched: boolean;
  /** Whether there is another origin that may be asked, and was not yet. */
  readonly hasOther: boolean;
}

/** Statuses by which an origin, or what stands before it, says that somebody else may do better. */
const unwellStatuses: ReadonlySet<number> = new Set([502, 503, 504]);

/** Whether an answer counts as a failure of the origin. */
export function isUnwell({ status }: Pick<OriginResponse, 'status'>): boolean {
  return unwellStatuses.has(status);
}

/** Whether an error is the origin's: not that of the client, or of the request. */
export function isOriginFault(error: unknown): boolean {
  return error instanceof ProxyError && error.source === 'origin';
}

/**
 * Whether a request may be sent again (RFC 9110 §9.2.2, RFC 9112 §9.3.1, RFC 9113 §8.7).
 *
 * What certainly did nothing may be repeated whatever its method, unless its body is gone: where no connection was made, to
 * another origin; where the origin says that it did not look at it, to the same one too. Where the connection broke off before
 * a response came, requests that are idempotent and have no body are repeated. Where nothing came in time, or a gateway's
 * error did, those that only read are, and by another origin. Nothing is once the client has got something.
 */
export function mayResend(attempt: Attempt, { request, isAnswered, isBodyTouched, hasOther }: Situation): boolean {
  if (isAnswered || request.signal.aborted) return false;
  const onlyReads = (request.method === 'GET' || request.method === 'HEAD') && request.body === undefined;
  if (attempt.kind === 'response') return isUnwell(attempt.response) && onlyReads && hasOther;

  const { error } = attempt;
  if (!(error instanceof ProxyError)) return false;
  if (error instanceof OriginError && error.isUnsent) {
    return !isBodyTouched && (hasOther || error.code === 'origin_reset');
  }
  if (error.code === 'origin_timeout') return onlyReads && hasOther;
  return error.code === 'origin_reset' && request.body === undefined && isIdempotentMethod(request.method);
}

/** The time that counts as of late, in milliseconds. */
const windowMs = 10_000;

/** So many in that time may be sent again besides, so that a quiet route is not left without. */
const freeResends = 10;

interface Count {
  requests: number;
  resends: number;
}

/** Counts in windows: the present one, and as much of the one before as lies within the time that counts. */
export class ResendBudget {
  readonly #percent: number;
  readonly #now: () => number;
  #windowAt: number;
  #present: Count = { requests: 0, resends: 0 };
  #before: Count = { requests: 0, resends: 0 };

  constructor(percent: number, now: () => number) {
    this.#percent = percent;
    this.#now = now;
    this.#windowAt = now();
  }

  /** A request came. */
  note(): void {
    this.#move();
    this.#present.requests += 1;
  }

  /** Takes one resend out of the budget; false when it is spent. */
  take(): boolean {
    this.#move();
    const share = 1 - (this.#now() - this.#windowAt) / windowMs;
    const requests = this.#present.requests + share * this.#before.requests;
    const resends = this.#present.resends + share * this.#before.resends;
    if (resends + 1 > freeResends + (this.#percent / 100) * requests) return false;
    this.#present.resends += 1;
    return true;
  }

  #move(): void {
    const passed = this.#now() - this.#windowAt;
    if (passed >= 0 && passed < windowMs) return;
    this.#before = passed >= 0 && passed < 2 * windowMs ? this.#present : { requests: 0, resends: 0 };
    this.#present = { requests: 0, resends: 0 };
    this.#windowAt = passed >= 0 && passed < 2 * windowMs ? this.#windowAt + windowMs : this.#now();
  }
}

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
type BodyEnd = 'whole' | 'broken' | 'closed';

/** Who watches a body. */
interface BodyWatch {
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
      this.#tell(isOriginFault(thrown) ? 'broken' : 'closed', thrown);
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
