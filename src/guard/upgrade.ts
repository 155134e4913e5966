/** Requests for a tunnel: where they go and with which fields, or why not. */

import type { Fields } from '../http/fields.ts';
import type { Delivery, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { routeRequest } from '../routing/inquiry.ts';
import type { Route } from '../routing/route.ts';
import { originTarget } from '../routing/router.ts';
import { isLoop } from '../semantics/via.ts';
import type { AdmissionContext } from './admit.ts';
import { identify } from './client.ts';
import { forwardedRequestFields } from './forwarding.ts';
import type { GateNotes } from './gate.ts';

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

/** What of a request for a tunnel there is besides its head: nothing. */
export type UpgradeRequest = Omit<ProxyRequest, 'body' | 'bodySizeBytes' | 'signal' | 'sendInterim'>;

/** What becomes of a request for a tunnel. */
export interface Upgrade {
  /** Where it leads. Throws, or rejects with, `ProxyError`, as `admit` does; called once. */
  route(): UpgradeRoute | Promise<UpgradeRoute>;
  /** A response of the origin, or of our own, as the client is to get it. */
  present(response: ProxyResponse): ProxyResponse;
  /** It is over, tunnel or not. */
  leave(delivery: Delivery): void;
}

/** Lets a request for an upgrade pass as any other (RFC 9110 §7.8). */
export function admitUpgrade(head: UpgradeRequest, context: AdmissionContext): Upgrade {
  const notes: GateNotes = { user: undefined, onOver: undefined };
  let present = (response: ProxyResponse): ProxyResponse => response;
  return {
    async route() {
      const { request, client } = identify(withoutBody(head), context.trust);
      if (isLoop(request.fields, context.pseudonym)) throw new ProxyError('loop_detected');
      const routed = routeRequest(request, context.router);
      const gate = context.gateOf(routed.route);
      present = (response) => gate.present(request, response);
      const admission = await gate.admit(request, client, routed, notes);
      // Preflight requests are OPTIONS, and a handshake is a GET.
      if (admission.kind === 'answered') throw new ProxyError('method_refused');
      const { route, target } = admission.routed;
      return {
        url: route.originUrl.origin,
        target: originTarget(route, target.path, target.query),
        fields: forwardedRequestFields(admission.request, client, route, context.pseudonym),
        tls: route.tls,
      };
    },
    present: (response) => present(response),
    leave: (delivery) => notes.onOver?.(delivery),
  };
}

function withoutBody(head: UpgradeRequest): ProxyRequest {
  const gone = new AbortController();
  return { ...head, body: undefined, bodySizeBytes: undefined, signal: gone.signal, sendInterim: () => {} };
}
