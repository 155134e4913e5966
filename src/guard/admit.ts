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
import { selectExplained } from './explain.ts';
import { followersOf, type Service } from './followers.ts';
import { forwardedRequestFields, forwardedResponseFields } from './forwarding.ts';
import type { Admission, Gate } from './gate.ts';
import { answerAsLast } from './max-forwards.ts';
import type { PeerList } from './peers.ts';
import type { RequestedPurge } from './purge.ts';

/** What decides who may pass. */
export interface AdmissionContext {
  readonly router: Router;
  readonly gateOf: (route: Route) => Gate;
  /** Our name in Via and CDN-Loop. */
  readonly pseudonym: string;
  readonly trust: ForwardingTrust;
  /** Who is told what would become of a request. */
  readonly explainPeers: PeerList;
  /** Whether requests are still answered by this; always without it. */
  readonly service?: Service | undefined;
}

const alwaysServing: Service = { isServing: true };

/** A request under way, or its answer already. */
export type Admitted =
  | {
      readonly kind: 'passed';
      readonly route: Route;
      readonly inquiry: Inquiry;
      /** Whether it is to be explained instead of answered. */
      readonly isExplained: boolean;
    }
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
  const explained = selectExplained(received, context.explainPeers);
  const { request, client } = identify(explained ?? received, context.trust);
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
    if (purge === undefined) {
      const terms = { gate, isTrusted: context.trust.isTrusted, service: context.service ?? alwaysServing };
      const passed = inquire(admission, client, context, explained !== undefined);
      if (explained === undefined) journey.followers = followersOf(received, client, passed.inquiry.key, terms);
      return passed;
    }
    if (explained !== undefined) throw new ProxyError('method_refused', { detail: 'a purge is not explained' });
    return { kind: 'purge', purge };
  };
  const admission = gate.admit(request, client, routed, journey);
  return admission instanceof Promise ? admission.then(proceed) : proceed(admission);
}

function inquire(
  { request, routed, allowance }: Extract<Admission, { kind: 'passed' }>,
  client: Client,
  { router, pseudonym, gateOf }: AdmissionContext,
  isExplained: boolean,
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
  allowance.key = inquiry.key;
  return { kind: 'passed', route, inquiry, isExplained };
}
