/** Answers a request as a listener does: plain requests take the fast path of a hit first, then the full path. */

import type { Handler, Hit, PlainHead, ProxyRequest, ProxyResponse } from '../../../src/http/message.ts';
import { readPlainList } from '../../../src/listener/request-head.ts';

/** Returns the response of the fast path, or else of the full path. `now` returns epoch milliseconds. */
export function answerHitFirst(
  handler: Handler,
  request: ProxyRequest,
  now: () => number,
): ProxyResponse | Promise<ProxyResponse> {
  const hit = hitOf(handler, request);
  if (hit === undefined) return handler(request);
  hit.begin();
  return responseOf(hit, now);
}

/** Returns the hit of the fast path; undefined where the request is not plain or the fast path has no answer. */
export function hitOf(handler: Handler, request: ProxyRequest): Hit | undefined {
  const head = plainHead(request);
  const { scheme, peer, takesMovable = false, receivedAt } = request;
  return head && handler.hit?.(head, { scheme, peer, takesMovable }, receivedAt);
}

/** Returns the head of a request, or undefined where it is not plain. */
function plainHead({ method, target, version, body, fields }: ProxyRequest): PlainHead | undefined {
  if ((method !== 'GET' && method !== 'HEAD') || body !== undefined) return undefined;
  const unsplit = { list: fields.flat(), start: 0, authority: '', split: () => fields };
  return readPlainList({ method, target, version }, unsplit, { fieldsBytes: 65_536, maxFieldCount: 1_000 });
}

/** Converts a hit to the response that a handler would return. */
export function responseOf(hit: Hit, now: () => number): ProxyResponse {
  const { status, ageSeconds, cacheStatus, contentRange, more, sizeBytes, chunks } = hit;
  return {
    status,
    fields: [
      ...hit.fields.lines(),
      ['age', String(ageSeconds)],
      ['cache-status', cacheStatus],
      ...more,
      ...(contentRange === undefined ? [] : [['content-range', contentRange] as const]),
    ],
    body: sizeBytes === undefined ? { kind: 'none' } : { kind: 'bytes', sizeBytes, chunks },
    onDelivered: (delivery) => hit.onDelivered(delivery, now()),
  };
}
