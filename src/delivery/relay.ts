/** Responses that are passed on as they come; of a 200 a single range is cut out on its way. */

import { type Span, spanSize } from '../bytes/span.ts';
import type { Answer } from '../cache/answer.ts';
import { type Fields, fieldValue, withField, withoutFields } from '../http/fields.ts';
import type { Body, BodyStream, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { formatCacheStatus, withCacheStatus } from '../semantics/cache-status.ts';
import { formatContentRange } from '../semantics/content-range.ts';
import type { DeliveryContext } from './context.ts';
import { unreadBody } from './pieces.ts';
import { preconditionFailed, rangeNotSatisfiable } from './refusals.ts';
import { partialFields, selectNotModifiedFields } from './response-fields.ts';
import { type Selection, selectDelivery } from './selection.ts';

type RelayAnswer = Extract<Answer, { kind: 'relay' }>;

const conditions = new Set(['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since']);

/** Makes the response of a relayed one. The body is closed where it is not sent. */
export function deliverRelay(request: ProxyRequest, answer: RelayAnswer, context: DeliveryContext): ProxyResponse {
  const { response } = answer.relay;
  const passed = withCacheStatus(response.fields, formatCacheStatus(answer.status));
  const fields = givesRanges(request, answer) ? withField(passed, 'accept-ranges', 'bytes') : passed;
  const selection = selectRelay(request, answer, context);
  switch (selection.kind) {
    case 'not-modified':
      response.body.close();
      return { status: 304, fields: selectNotModifiedFields(fields), body: { kind: 'none' } };
    case 'precondition-failed':
      response.body.close();
      return preconditionFailed(answer);
    case 'unsatisfiable':
      response.body.close();
      return rangeNotSatisfiable(selection.sizeBytes, answer);
    case 'partial': {
      const [span, ...more] = selection.spans;
      if (span === undefined || more.length > 0) break;
      const contentRange = formatContentRange(span, selection.sizeBytes);
      const body: Body = { kind: 'stream', sizeBytes: spanSize(span), stream: cutSpan(response.body, span) };
      return { status: 206, fields: withField(partialFields(fields), 'content-range', contentRange), body };
    }
    case 'whole':
    case 'undecided':
      break;
  }
  return { status: response.status, fields, body: wholeBody(request, answer) };
}

/** What the origin has not evaluated yet is evaluated here; what it has, it has. Ranges count for a GET that got a 200. */
function selectRelay(request: ProxyRequest, { relay }: RelayAnswer, context: DeliveryContext): Selection {
  const { response, evaluated, responseAt } = relay;
  if (request.method !== 'GET' || response.status !== 200) return { kind: 'whole' };
  const asked = evaluated ? { method: 'GET', fields: withoutFields(request.fields, conditions) } : request;
  const selectable = { status: 200, fields: response.fields, responseAt };
  return selectDelivery(asked, selectable, response.sizeBytes, context.rules, context.clock.now());
}

/**
 * Whether a GET with a Range can get a 206: a range is cut out of a whole whose length is known, and of what is stored. Otherwise
 * the origin gets the Range, and its Accept-Ranges counts (RFC 9110 §14.3).
 */
function givesRanges({ method }: ProxyRequest, { relay }: RelayAnswer): boolean {
  const { response, isStorable = false } = relay;
  if (response.status !== 200) return false;
  if (method === 'HEAD') return isStorable || headLength(response.fields) !== undefined;
  return method === 'GET' && response.sizeBytes !== undefined;
}

/** The length that the response to a HEAD tells; undefined where it tells none. */
function headLength(fields: Fields): number | undefined {
  const length = fieldValue(fields, 'content-length');
  return length !== undefined && /^[0-9]{1,15}$/.test(length) ? Number(length) : undefined;
}

function wholeBody(request: ProxyRequest, { relay }: RelayAnswer): Body {
  const { response } = relay;
  if (request.method === 'HEAD') {
    response.body.close();
    return unreadBody(headLength(response.fields));
  }
  if (response.framing === 'none') {
    response.body.close();
    return { kind: 'none' };
  }
  return { kind: 'stream', sizeBytes: response.sizeBytes, stream: response.body };
}

/** The bytes of one span out of a body that is read from its start; the body is closed at the span's end. */
function cutSpan(body: BodyStream, span: Span): BodyStream {
  return { close: () => body.close(), [Symbol.asyncIterator]: () => chunksOf(body, span) };
}

async function* chunksOf(body: BodyStream, span: Span): AsyncGenerator<Uint8Array, void> {
  let offset = 0;
  try {
    for await (const chunk of body) {
      const from = Math.max(0, span.start - offset);
      const to = Math.min(chunk.length, span.end - offset);
      if (from < to) yield chunk.subarray(from, to);
      offset += chunk.length;
      if (offset >= span.end) return;
    }
  } finally {
    body.close();
  }
  throw new ProxyError('origin_body_short');
}
