/** Max-Forwards: how far an OPTIONS request may still go (RFC 9110 §7.6.2). */

import { type Fields, fieldValue, withField } from '../http/fields.ts';
import type { ProxyRequest, ProxyResponse } from '../http/message.ts';

/** The methods that are passed on to origins; TRACE and CONNECT are refused before. */
const passedMethods = 'GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE';

/** The answer to an OPTIONS request that may go no further than here; undefined for every other request. */
export function answerAsLast(request: Pick<ProxyRequest, 'method' | 'fields'>): ProxyResponse | undefined {
  if (forwardsLeft(request.method, request.fields) !== 0) return undefined;
  return { status: 204, fields: [['allow', passedMethods]], body: { kind: 'none' } };
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
