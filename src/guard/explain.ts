/** Explains to operators how a request would be answered: by the steps of a real request, up to the cache's decision. */

import type { Cache } from '../cache/cache.ts';
import type { Inquiry } from '../cache/inquiry.ts';
import { type Explanation, explainResponse } from '../delivery/explanation.ts';
import { createDeliveryContexts } from '../delivery/selection.ts';
import type { Clock } from '../http/clock.ts';
import type { ProxyRequest } from '../http/message.ts';
import { errorKinds, toProxyError } from '../http/proxy-error.ts';
import type { Route } from '../routing/router.ts';
import { type AdmissionContext, examine } from './admit.ts';

/** The parts of an explainer. */
export interface ExplainContext extends AdmissionContext {
  readonly cache: Pick<Cache, 'explain'>;
  readonly clock: Clock;
  /** Returns random bytes. */
  readonly random: (size: number) => Uint8Array;
  /** Returns the segments that a request would have prefetched; undefined where it would have none. */
  readonly nextSegments: (route: Route, inquiry: Inquiry) => readonly string[] | undefined;
}

/** The explanation of a request, or the response that it would get without the cache. */
export type ExplainReply =
  | { readonly kind: 'explained'; readonly explanation: Explanation }
  /** Rangeway would answer without the cache: with an error, such as 404 without a route, or a preflight request (CORS). */
  | { readonly kind: 'answered'; readonly status: number; readonly detail: string };

/**
 * Creates the function that explains a request. It sends nothing to the origin, counts nothing and logs nothing. The access rules
 * of the route apply as to a real request; the limits do not. It rejects for internal errors only, never for a faulty request.
 */
export function createExplainer(context: ExplainContext): (request: ProxyRequest) => Promise<ExplainReply> {
  const { cache, clock, random, nextSegments } = context;
  const deliveryOf = createDeliveryContexts({ forward: (fields) => fields, clock, random });
  return async (request) => {
    try {
      const examined = await examine(request, context);
      if (examined.kind === 'answered') {
        return { kind: 'answered', status: examined.response.status, detail: 'Rangeway answers it by itself.' };
      }
      const { route, inquiry } = examined;
      const explained = await cache.explain(inquiry);
      const explanation = explainResponse(inquiry.request, route.name, explained, deliveryOf(route));
      const prefetch = nextSegments(route, inquiry);
      return { kind: 'explained', explanation: prefetch === undefined ? explanation : { ...explanation, prefetch } };
    } catch (thrown) {
      const { code, status } = toProxyError(thrown);
      if (code === 'internal') throw thrown;
      return { kind: 'answered', status, detail: errorKinds[code].sentence };
    }
  };
}
