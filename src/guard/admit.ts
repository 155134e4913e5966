/** From what a listener received to a request that may pass, and to the question that the cache is asked. */

import type { Inquiry } from '../cache/inquiry.ts';
import type { Journey } from '../delivery/journey.ts';
import type { ProxyRequest, ProxyResponse } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { createInquiry, routeRequest } from '../routing/inquiry.ts';
import type { Route } from '../routing/route.ts';
import type { Router } from '../routing/router.ts';
import { isLoop } from '../semantics/via.ts';
import { type Client, type ForwardingTrust, identify } from './client.ts';
import { forwardedRequestFields, forwardedResponseFields } from './forwarding.ts';
import type { Admission, Gate } from './gate.ts';
import { answerAsLast } from './max-forwards.ts';
import type { RequestedPurge } from './purge.ts';

/** What decides who may pass. */
export interface AdmissionContext {
  readonly router: Router;
  readonly gateOf: (route: Route) => Gate;
  /** Our name in Via and CDN-Loop. */
  readonly pseudonym: string;
  readonly trust: ForwardingTrust;
}

/** A request under way, or its answer already. */
export type Admitted =
  | { readonly kind: 'passed'; readonly route: Route; readonly inquiry: Inquiry }
  /** It is about what is stored, and goes to no origin. */
  | { readonly kind: 'purge'; readonly purge: RequestedPurge }
  | { readonly kind: 'answered'; readonly response: ProxyResponse };

/**
 * Lets a request pass, with the fields that the origin gets of it; in the same tick, unless credentials take longer. Throws,
 * or rejects with, `ProxyError`: `loop_detected`, or as `routeRequest` and the route's gate do.
 */
export function admit(
  received: ProxyRequest,
  context: AdmissionContext,
  journey: Journey,
): Admitted | Promise<Admitted> {
  const { request, client } = identify(received, context.trust);
  journey.client = client.address;
  const last = answerAsLast(request);
  if (last !== undefined) return { kind: 'answered', response: last };
  if (isLoop(request.fields, context.pseudonym)) throw new ProxyError('loop_detected');
  const routed = routeRequest(request, context.router);
  const gate = context.gateOf(routed.route);
  journey.enter(routed.route.name, (response) => gate.present(request, response));
  const proceed = (admission: Admission): Admitted => {
    if (admission.kind === 'answered') return admission;
    const purge = gate.selectPurge(admission.request, client, admission.routed);
    return purge === undefined ? inquire(admission, client, context) : { kind: 'purge', purge };
  };
  const admission = gate.admit(request, client, routed, journey);
  return admission instanceof Promise ? admission.then(proceed) : proceed(admission);
}

/**
 * Takes the same steps for a request that is only to be explained: it enters no limit, and takes no place of one. Rejects as
 * `admit` does, and with `method_refused` for a purge.
 */
export async function examine(
  received: ProxyRequest,
  context: AdmissionContext,
): Promise<Extract<Admitted, { kind: 'passed' | 'answered' }>> {
  const { request, client } = identify(received, context.trust);
  const last = answerAsLast(request);
  if (last !== undefined) return { kind: 'answered', response: last };
  if (isLoop(request.fields, context.pseudonym)) throw new ProxyError('loop_detected');
  const routed = routeRequest(request, context.router);
  const gate = context.gateOf(routed.route);
  const admission = await gate.examine(request, client, routed);
  if (admission.kind === 'answered') return admission;
  if (gate.selectPurge(admission.request, client, admission.routed) === undefined) {
    return inquire(admission, client, context);
  }
  throw new ProxyError('method_refused', { detail: 'a purge is not explained' });
}

function inquire(
  { request, routed, allowance }: Extract<Admission, { kind: 'passed' }>,
  client: Client,
  { router, pseudonym, gateOf }: AdmissionContext,
): Extract<Admitted, { kind: 'passed' }> {
  const { route } = routed;
  const inquiry = createInquiry(request, routed, router, {
    origin: allowance.origin,
    client: allowance.client,
    originFields: () => forwardedRequestFields(request, client, route, pseudonym),
    onInterim: ({ status, fields }) => {
      const forwarded = forwardedResponseFields(fields, '1.1', pseudonym);
      request.sendInterim({ status, fields: gateOf(route).presentInterim(forwarded) });
    },
  });
  return { kind: 'passed', route, inquiry };
}
