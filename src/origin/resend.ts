/** Which requests are sent again, and after what. */

import { ProxyError } from '../http/proxy-error.ts';
import { isIdempotentMethod } from '../semantics/method.ts';
import type { OriginRequest, OriginResponse } from './origin.ts';
import { OriginError } from './origin-error.ts';

/** What came of sending a request. */
export type Attempt =
  | { readonly kind: 'response'; readonly response: OriginResponse }
  | { readonly kind: 'failed'; readonly error: unknown };

/** What is known of the request by now. */
export interface Situation {
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
export function isOriginFailure(error: unknown): boolean {
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
