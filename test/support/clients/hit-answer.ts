/** Answers a request as a listener does that finds it plain: by the road of a hit, and by the whole road where that gives nothing. */

import type { Handler, Hit, PlainHead, ProxyRequest, ProxyResponse } from '../../../src/http/message.ts';
import { readPlainList } from '../../../src/listener/request-head.ts';

/** The response, from wherever it came. `now` tells epoch milliseconds. */
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

/** What the road of a hit gives; undefined where the request is not plain, or nothing is there for it. */
export function hitOf(handler: Handler, request: ProxyRequest): Hit | undefined {
  const head = plainHead(request);
  const { scheme, peer, takesMovable = false, receivedAt } = request;
  return head && handler.hit?.(head, { scheme, peer, takesMovable }, receivedAt);
}

/** The head of a request, where it is plain. */
function plainHead({ method, target, version, body, fields }: ProxyRequest): PlainHead | undefined {
  if ((method !== 'GET' && method !== 'HEAD') || body !== undefined) return undefined;
  const unsplit = { list: fields.flat(), start: 0, authority: '', split: () => fields };
  return readPlainList({ method, target, version }, unsplit, { fieldsBytes: 65_536, maxFieldCount: 1_000 });
}

/** A hit as the handler would have said it. */
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
