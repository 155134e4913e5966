/**
 * Decides which requests are sent again after which failures (RFC 9110 §9.2.2), and how many: a share of the recent requests, so that
 * an origin in trouble does not get ever more of them. `ReusableBody` keeps the beginning of a request's body for another attempt.
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
  /** Whether the request has no body, or its body can be sent from its first byte again. */
  readonly isBodyKept: boolean;
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
 * Never where more of the body was read than is kept. A request on which the origin certainly has not acted may be sent again with any
 * method: to another origin; or also to the same one, where the connection was reset or the origin refused the request. Where the
 * connection broke off before a response, only idempotent methods. After a timeout, or a 502, 503 or 504, only GET and HEAD without a
 * body, and only to another origin.
 */
export function mayResend(attempt: Attempt, { request, isAnswered, isBodyKept, hasOther }: Situation): boolean {
  if (isAnswered || !isBodyKept || request.signal.aborted) return false;
  const onlyReads = (request.method === 'GET' || request.method === 'HEAD') && request.body === undefined;
  if (attempt.kind === 'response') return isFailureResponse(attempt.response) && onlyReads && hasOther;

  const { error } = attempt;
  if (!(error instanceof ProxyError)) return false;
  if (error instanceof OriginError && error.isUnsent) {
    return hasOther || error.code === 'origin_reset';
  }
  if (error.code === 'origin_timeout') return onlyReads && hasOther;
  return error.code === 'origin_reset' && isIdempotentMethod(request.method);
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

/** So much of a body is kept until the response begins, in bytes. */
const keptBytes = 64 * 1024;

/**
 * A request's body of which the beginning is kept, so that another attempt can send it. One attempt reads at a time; what an earlier one
 * still waits for goes to the next.
 */
export class ReusableBody implements BodyStream {
  readonly #body: BodyStream;
  #chunks: AsyncIterator<Uint8Array> | undefined;
  /** The steps so far; undefined once they were more than is kept. */
  #steps: Promise<IteratorResult<Uint8Array>>[] | undefined = [];
  #sizeBytes = 0;
  /** The number of attempts that have begun to read. */
  #attempts = 0;
  /** Whether there may be another attempt. */
  #isOpen = true;
  #isUnwanted = false;

  constructor(body: BodyStream) {
    this.#body = body;
  }

  /** Whether another attempt can send it from its first byte. */
  get isKept(): boolean {
    return this.#steps !== undefined;
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    this.#attempts += 1;
    // An earlier attempt may have closed the body.
    this.#isUnwanted = false;
    return new BodyAttempt(this, this.#attempts);
  }

  /** Returns a step of an attempt, counted from 0; the end where a later attempt reads. */
  step(attempt: number, at: number): Promise<IteratorResult<Uint8Array>> {
    if (attempt !== this.#attempts) return Promise.resolve({ done: true, value: undefined });
    const known = this.#steps?.[at];
    if (known !== undefined) return known;
    this.#chunks ??= this.#body[Symbol.asyncIterator]();
    const step = this.#chunks.next();
    if (!this.#mayServeAgain) return step;
    this.#steps?.push(step);
    return step.then((result) => this.#count(result));
  }

  /** An attempt reads no more. */
  async leave(attempt: number): Promise<void> {
    if (attempt === this.#attempts && !this.#mayServeAgain) await this.#chunks?.return?.();
  }

  /** Reads the first step ahead. It is kept for the attempt that sends it. */
  async begun(): Promise<void> {
    if (this.#attempts === 0) await this.step(0, 0);
  }

  /** Has no effect while another attempt may send the body. */
  close(): void {
    this.#isUnwanted = true;
    if (!this.#mayServeAgain) this.#body.close();
  }

  /** Called when there will be no other attempt. `isOver` closes the body. */
  release(isOver: boolean): void {
    this.#isOpen = false;
    if (isOver || this.#isUnwanted) this.#body.close();
  }

  get #mayServeAgain(): boolean {
    return this.#isOpen && this.#steps !== undefined;
  }

  #count(result: IteratorResult<Uint8Array>): IteratorResult<Uint8Array> {
    this.#sizeBytes += result.done === true ? 0 : result.value.length;
    if (this.#sizeBytes > keptBytes) this.#steps = undefined;
    return result;
  }
}

/** The body as one attempt reads it. */
class BodyAttempt implements AsyncIterator<Uint8Array> {
  readonly #body: ReusableBody;
  readonly #attempt: number;
  #at = 0;

  constructor(body: ReusableBody, attempt: number) {
    this.#body = body;
    this.#attempt = attempt;
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    this.#at += 1;
    return this.#body.step(this.#attempt, this.#at - 1);
  }

  async return(): Promise<IteratorResult<Uint8Array>> {
    await this.#body.leave(this.#attempt);
    return { done: true, value: undefined };
  }
}
