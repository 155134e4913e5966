/** From a request that may pass to its route, and to the question that the cache is asked. */

import type { Inquiry } from '../cache/inquiry.ts';
import type { ProxyRequest } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { createInquiry, routeRequest } from '../routing/inquiry.ts';
import type { Route } from '../routing/route.ts';
import type { Router } from '../routing/router.ts';
import { isLoop } from '../semantics/via.ts';
import { forwardedRequestFields, forwardedResponseFields } from './forwarding.ts';

/** A request under way. */
export interface Admitted {
  readonly route: Route;
  readonly inquiry: Inquiry;
}

/** Lets a request pass, with the fields that the origin gets of it. Throws `ProxyError`: `loop_detected`, or as `routeRequest`. */
export function admit(request: ProxyRequest, router: Router, pseudonym: string): Admitted {
  if (isLoop(request.fields, pseudonym)) throw new ProxyError('loop_detected');
  const routed = routeRequest(request, router);
  const { route } = routed;
  const inquiry = createInquiry(request, routed, router, {
    originFields: forwardedRequestFields(request, route, pseudonym),
    onInterim: ({ status, fields }) =>
      request.sendInterim({ status, fields: forwardedResponseFields(fields, '1.1', pseudonym) }),
  });
  return { route, inquiry };
}
