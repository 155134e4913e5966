/** Answers a request as a listener does that finds it plain: by the road of a hit, and by the whole road where that gives nothing. */

import type { Handler, Hit, ProxyRequest, ProxyResponse } from '../../src/http/message.ts';
import { isNoted, NotedHead } from '../../src/listener/plain-head.ts';

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
  return head && handler.hit?.(head, request);
}

/** The head of a request, where it is plain. */
function plainHead({ method, target, version, body, fields }: ProxyRequest): NotedHead | undefined {
  if ((method !== 'GET' && method !== 'HEAD') || body !== undefined) return undefined;
  const head = new NotedHead({ method, target, version }, undefined, { split: () => fields });
  const isPlain = fields.every(([name, value]) => !isNoted(name.length, name.charCodeAt(0)) || head.note(name, value));
  return isPlain && head.hasAuthority ? head : undefined;
}

/** A hit as the handler would have said it. */
export function responseOf(hit: Hit, now: () => number): ProxyResponse {
  const { status, ageSeconds, cacheStatus, contentRange, sizeBytes, chunks } = hit;
  return {
    status,
    fields: [
      ...hit.fields,
      ['age', String(ageSeconds)],
      ['cache-status', cacheStatus],
      ...(contentRange === undefined ? [] : [['content-range', contentRange] as const]),
    ],
    body: sizeBytes === undefined ? { kind: 'none' } : { kind: 'bytes', sizeBytes, chunks },
    onDelivered: (delivery) => hit.onDelivered(delivery, now()),
  };
}
