/** Requests for a tunnel: where they go and with which fields, or why not. */

import { presentProblem } from '../delivery/problem-form.ts';
import { type Fields, withField } from '../http/fields.ts';
import type { Delivery, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { Hold } from '../origin/origin-group.ts';
import { routeRequest } from '../routing/inquiry.ts';
import type { Route } from '../routing/route.ts';
import { originTarget } from '../routing/router.ts';
import { isLoop } from '../semantics/via.ts';
import type { AdmissionContext } from './admit.ts';
import { identify } from './client.ts';
import { tunnelRequestFields } from './forwarding.ts';
import type { GateNotes } from './gate.ts';

/** The origin of a tunnel, and what it is asked. */
export interface UpgradeRoute {
  /** Where the origin is; its path is in the target already. */
  readonly url: string;
  /** Origin-form. */
  readonly target: string;
  /** End-to-end fields; who tunnels adds those of the upgrade. */
  readonly fields: Fields;
  readonly tls: Route['tls'];
  readonly timeouts: Route['timeouts'];
  /** How long nothing may come through the tunnel, either way, in milliseconds; 0 is no limit. */
  readonly idleTimeoutMs: number;
  /** The origin's place among those of its route; undefined where it is the only one. */
  readonly hold: Hold | undefined;
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
  const notes: GateNotes = { user: undefined, allowance: undefined };
  let present = (response: ProxyResponse): ProxyResponse => presentProblem(head, response);
  return {
    async route() {
      const { request, client } = identify(withoutBody(head), context.trust);
      if (isLoop(request.fields, context.pseudonym)) throw new ProxyError('loop_detected');
      const routed = routeRequest(request, context.router);
      const gate = context.gateOf(routed.route);
      present = (response) => gate.present(request, notes.allowance?.present(response) ?? response);
      const admission = await gate.admit(request, client, routed, notes);
      // Preflight requests are OPTIONS, and a handshake is a GET.
      if (admission.kind === 'answered') throw new ProxyError('method_refused');
      const { route, target } = admission.routed;
      const { idleTimeoutMs } = admission.allowance.openTunnel();
      const fields = tunnelRequestFields(admission.request, client, route, context.pseudonym);
      const hold = route.holdOrigin?.();
      return {
        url: (hold?.url ?? route.originUrl).href,
        target: originTarget(route, target.path, target.query),
        fields: hold?.host === undefined ? fields : withField(fields, 'host', hold.host),
        tls: route.tls,
        timeouts: route.timeouts,
        idleTimeoutMs,
        hold,
      };
    },
    present: (response) => present(response),
    leave: (delivery) => notes.allowance?.leave(delivery),
  };
}

function withoutBody(head: UpgradeRequest): ProxyRequest {
  const gone = new AbortController();
  return { ...head, body: undefined, bodySizeBytes: undefined, signal: gone.signal, sendInterim: () => {} };
}
