/** What a request gets whose conditions or ranges do not fit the selected representation. */

import type { AnswerFacts } from '../cache/answer.ts';
import type { ProxyResponse } from '../http/message.ts';
import { formatCacheStatus } from '../semantics/cache-status.ts';
import { formatUnsatisfiedRange } from '../semantics/content-range.ts';
import { problemResponse } from './problem.ts';

/** 412 (RFC 9110 §15.5.13). */
export function preconditionFailed({ status }: Pick<AnswerFacts, 'status'>): ProxyResponse {
  return problemResponse(412, 'A condition of the request does not hold for the current representation.', [
    ['cache-status', formatCacheStatus(status)],
  ]);
}

/** 416 with the length of the whole, so that a client that resumes can tell that it has all (RFC 9110 §15.5.17). */
export function rangeNotSatisfiable(sizeBytes: number, { status }: Pick<AnswerFacts, 'status'>): ProxyResponse {
  return problemResponse(416, `No requested range lies within the ${sizeBytes} bytes of the representation.`, [
    ['content-range', formatUnsatisfiedRange(sizeBytes)],
    ['accept-ranges', 'bytes'],
    ['cache-status', formatCacheStatus(status)],
  ]);
}
