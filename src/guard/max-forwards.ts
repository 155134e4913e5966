/** OPTIONS requests that go no further than here, and how far the others may still go (Max-Forwards, RFC 9110 §7.6.2). */

import { type Fields, fieldValue, withField } from '../http/fields.ts';
import type { ProxyRequest, ProxyResponse } from '../http/message.ts';
import { allowedMethods } from '../semantics/method.ts';

/**
 * The answer to an OPTIONS request that goes no further than here: one that may not, and one for `*`, which asks about the
 * server that it reaches and no resource of any origin (RFC 9110 §9.3.7). Undefined for every other request.
 */
export function answerAsLast(request: Pick<ProxyRequest, 'method' | 'target' | 'fields'>): ProxyResponse | undefined {
  if (request.target !== '*' && forwardsLeft(request.method, request.fields) !== 0) return undefined;
  return { status: 204, fields: [['allow', allowedMethods]], body: { kind: 'none' } };
}

/** The fields for the next recipient, which may forward once less often. */
export function withOneForwardLess(method: string, fields: Fields): Fields {
  const left = forwardsLeft(method, fields);
  return left === undefined ? fields : withField(fields, 'max-forwards', String(Math.max(0, left - 1)));
}

/** Undefined where the field is absent, malformed or of a method for which it means nothing: it may then be ignored. */
function forwardsLeft(method: string, fields: Fields): number | undefined {
  const value = method === 'OPTIONS' ? fieldValue(fields, 'max-forwards') : undefined;
  return value !== undefined && /^[0-9]{1,9}$/.test(value) ? Number(value) : undefined;
}
