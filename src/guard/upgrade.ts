/** Requests for a tunnel: where they go and with which fields, or why not. */

import type { Fields } from '../http/fields.ts';
import type { ProxyRequest } from '../http/message.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import { routeRequest } from '../routing/inquiry.ts';
import type { Route } from '../routing/route.ts';
import { originTarget, type Router } from '../routing/router.ts';
import { isLoop } from '../semantics/via.ts';
import { type ForwardedRequest, forwardedRequestFields } from './forwarding.ts';

/** The origin of a tunnel, and what it is asked. */
export interface UpgradeRoute {
  /** Scheme and authority of the origin. */
  readonly url: string;
  /** Origin-form. */
  readonly target: string;
  /** End-to-end fields; who tunnels adds those of the upgrade. */
  readonly fields: Fields;
  readonly tls: Route['tls'];
}

/** Routes a request for an upgrade as any other (RFC 9110 §7.8). */
export function routeUpgrade(
  request: ForwardedRequest & Pick<ProxyRequest, 'target'>,
  router: Router,
  pseudonym: string,
): UpgradeRoute | ProxyError {
  if (isLoop(request.fields, pseudonym)) return new ProxyError('loop_detected');
  try {
    const { route, target } = routeRequest(request, router);
    return {
      url: route.originUrl.origin,
      target: originTarget(route, target.path, target.query),
      fields: forwardedRequestFields(request, route, pseudonym),
      tls: route.tls,
    };
  } catch (thrown) {
    return toProxyError(thrown);
  }
}
