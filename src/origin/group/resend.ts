/**
 * Decides which requests are sent again after which failures (RFC 9110 §9.2.2), and how many: a share of the recent requests, so that
 * an origin in trouble does not get ever more of them. `ReusableBody` keeps the body of a request for another attempt, while none of it
 * was read.
 */

import type { BodyStream } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import { isIdempotentMethod } from '../../semantics/method.ts';
import type { OriginRequest, OriginResponse } from '../origin.ts';
import { OriginError } from '../origin-error.ts';

/** The outcome of sending a request. */
export type Attempt =
  | { readonly kind: 'response'; readonly response: OriginResponse }
  | { readonly kind: 'failed'; readonly error: unknown };

/** The state of a request after an attempt. */
interface Situation {
  readonly request: Pick<OriginRequest, 'method' | 'body' | 'signal'>;
  /** Whether an interim response was passed on. */
  readonly isAnswered: boolean;
  /** Whether some of the request's body was read. */
  readonly isBodyTouched: boolean;
  /** Whether there is another origin that may be asked, and was not yet. */
  readonly hasOther: boolean;
}

/** Statuses by which an origin, or a gateway before it, reports a failure that another origin may not have. */
const unwellStatuses: ReadonlySet<number> = new Set([502, 503, 504]);

/** Checks whether a response counts as a failure of the origin. */
export function isFailureResponse({ status }: Pick<OriginResponse, 'status'>): boolean {
  return unwellStatuses.has(status);
}

/** Checks whether an error is a fault of the origin, not of the client or the request. */
export function isOriginFault(error: unknown): boolean {
  return error instanceof ProxyError && error.source === 'origin';
}

/**
 * Checks whether a request may be sent again (RFC 9110 §9.2.2, RFC 9112 §9.3.1, RFC 9113 §8.7). Never after the client has received
 * something, or has left.
 *
 * A request on which the origin certainly has not acted may be sent again with any method, unless some of its body was read: to
 * another origin; or also to the same one, where the connection was reset or the origin refused the request. Where the connection
 * broke off before a response, only idempotent methods without a body. After a timeout, or a 502, 503 or 504, only GET and HEAD
 * without a body, and only to another origin.
 */
export function mayResend(attempt: Attempt, { request, isAnswered, isBodyTouched, hasOther }: Situation): boolean {
  if (isAnswered || request.signal.aborted) return false;
  const onlyReads = (request.method === 'GET' || request.method === 'HEAD') && request.body === undefined;
  if (attempt.kind === 'response') return isFailureResponse(attempt.response) && onlyReads && hasOther;

  const { error } = attempt;
  if (!(error instanceof ProxyError)) return false;
  if (error instanceof OriginError && error.isUnsent) {
    return !isBodyTouched && (hasOther || error.code === 'origin_reset');
  }
  if (error.code === 'origin_timeout') return onlyReads && hasOther;
  return error.code === 'origin_reset' && request.body === undefined && isIdempotentMethod(request.method);
}

/** The length of a window, in milliseconds. */
const windowMs = 10_000;

/** The number of requests that may be sent again in a window beside the share, so that a quiet route has some too. */
const freeResends = 10;

interface Count {
  requests: number;
  resends: number;
}

/** The budget of resends. It counts the present window, and the part of the previous one that lies within the last `windowMs`. */
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

  /** Notes a request. */
  note(): void {
    this.#move();
    this.#present.requests += 1;
  }

  /** Takes one resend from the budget; false where it is spent. */
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

/** A request's body that stays usable when an attempt to send it fails before any of it was read. */
export class ReusableBody implements BodyStream, AsyncIterator<Uint8Array> {
  readonly #body: BodyStream;
  #chunks: AsyncIterator<Uint8Array> | undefined;
  /** The first step, where `begun` has read it ahead; undefined again once it was returned. */
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
    // An earlier attempt may have closed the body.
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

  /** Reads the first step ahead. It is kept for the attempt that sends it, so it does not touch the body. */
  async begun(): Promise<void> {
    if (this.#isTouched) return;
    this.#first ??= this.#iterator.next();
    await this.#first;
  }

  /** Has no effect while another attempt may send the body. */
  close(): void {
    this.#isUnwanted = true;
    if (this.#isTouched || !this.#isKept) this.#body.close();
  }

  /** Called when there will be no other attempt. `isOver` closes the body. */
  release(isOver: boolean): void {
    this.#isKept = false;
    if (isOver || this.#isUnwanted) this.#body.close();
  }

  get #iterator(): AsyncIterator<Uint8Array> {
    this.#chunks ??= this.#body[Symbol.asyncIterator]();
    return this.#chunks;
  }
}
