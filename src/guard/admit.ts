/**
 * From the request that a listener received to one that may pass, and to the inquiry of the cache; for requests that open a tunnel
 * (upgrade) to where it leads. Read this file first.
 */

import type { Inquiry } from '../cache/inquiry.ts';
import type { Journey } from '../delivery/journey.ts';
import { presentProblem } from '../delivery/problem.ts';
import { type Fields, withField } from '../http/fields.ts';
import type { Delivery, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { Hold } from '../origin/group/origin-group.ts';
import { createInquiry, routeRequest } from '../routing/inquiry.ts';
import { originTarget, type Route, type Router } from '../routing/router.ts';
import { isLoop } from '../semantics/message-forwarding.ts';
import { type Client, type ForwardingTrust, identify } from './client.ts';
import {
  answerAsLast,
  forwardedRequestFields,
  forwardedResponseFields,
  tunnelRequestFields,
} from './fields/forwarding.ts';
import type { Admission, Gate, GateNotes } from './gate.ts';
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

/** The origin of a tunnel, and what it is asked. */
interface UpgradeRoute {
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
type UpgradeRequest = Omit<ProxyRequest, 'body' | 'bodySizeBytes' | 'signal' | 'sendInterim'>;

/** What becomes of a request for a tunnel. */
interface Upgrade {
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
