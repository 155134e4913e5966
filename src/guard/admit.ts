/**
 * Admits a request that a listener received, and makes the inquiry for the cache. For a request that opens a tunnel (upgrade),
 * selects the origin of the tunnel. Read this file first, then `gate.ts`.
 */

import type { Inquiry } from '../cache/inquiry.ts';
import type { Journey } from '../delivery/journey.ts';
import { presentProblem } from '../delivery/problem.ts';
import type { Fields } from '../http/fields.ts';
import type { Delivery, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { Hold } from '../origin/group/origin-group.ts';
import { createInquiry, routeRequest } from '../routing/inquiry.ts';
import { originTarget, type Route, type Router, referenceRules } from '../routing/router.ts';
import { ownerOf } from '../semantics/connection-auth.ts';
import { isLoop } from '../semantics/message-forwarding.ts';
import { clientReferences, withHost } from '../semantics/references.ts';
import { type Client, type ForwardingTrust, identify } from './client.ts';
import {
  answerUnforwarded,
  forwardedRequestFields,
  forwardedResponseFields,
  tunnelRequestFields,
} from './fields/forwarding.ts';
import type { Admission, Gate, GateNotes } from './gate.ts';
import type { RequestedPurge } from './purge.ts';

/** The parts that requests are admitted with. */
export interface AdmissionContext {
  readonly router: Router;
  readonly gateOf: (route: Route) => Gate;
  /** Our name in Via and CDN-Loop. */
  readonly pseudonym: string;
  readonly trust: ForwardingTrust;
}

/** The inquiry of an admitted request, its purge, or its answer. */
export type Admitted =
  | { readonly kind: 'passed'; readonly route: Route; readonly inquiry: Inquiry }
  /** The request is for the store, and goes to no origin. */
  | { readonly kind: 'purge'; readonly purge: RequestedPurge }
  | { readonly kind: 'answered'; readonly response: ProxyResponse };

/**
 * Admits a request, and makes its inquiry, with the fields that the origin gets. Returns in the same tick, unless credentials
 * take longer. Throws, or rejects with, `ProxyError`: `loop_detected`, and the errors of `identify`, `routeRequest` and the gate.
 */
export function admit(
  received: ProxyRequest,
  context: AdmissionContext,
  journey: Journey,
): Admitted | Promise<Admitted> {
  const { request, client } = identify(received, context.trust);
  journey.client = client.address;
  const last = answerUnforwarded(request);
  if (last !== undefined) return { kind: 'answered', response: last };
  if (isLoop(request.fields, context.pseudonym)) throw new ProxyError('loop_detected');
  const routed = routeRequest(request, context.router);
  const gate = context.gateOf(routed.route);
  journey.enter(routed.route.name, gate, request);
  const proceed = (admission: Admission): Admitted => {
    if (admission.kind === 'answered') return admission;
    const purge = gate.selectPurge?.(admission.request, client, admission.routed);
    if (purge !== undefined) return { kind: 'purge', purge };
    const passed = inquire(admission, client, context);
    journey.key = passed.inquiry.key;
    return passed;
  };
  const admission = gate.admit(request, client, routed, journey);
  return admission instanceof Promise ? admission.then(proceed) : proceed(admission);
}

/**
 * Takes the same steps for a request that is only explained: it counts against no limit. Rejects as `admit` does, and with
 * `method_refused` for a purge.
 */
export async function examine(
  received: ProxyRequest,
  context: AdmissionContext,
): Promise<Extract<Admitted, { kind: 'passed' | 'answered' }>> {
  const { request, client } = identify(received, context.trust);
  const last = answerUnforwarded(request);
  if (last !== undefined) return { kind: 'answered', response: last };
  if (isLoop(request.fields, context.pseudonym)) throw new ProxyError('loop_detected');
  const routed = routeRequest(request, context.router);
  const gate = context.gateOf(routed.route);
  const admission = await gate.examine(request, client, routed);
  if (admission.kind === 'answered') return admission;
  if (gate.selectPurge?.(admission.request, client, admission.routed) === undefined) {
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

/** The origin of a tunnel, and the request that it gets. */
interface UpgradeRoute {
  /** The URL of the origin; `target` includes its path. */
  readonly url: string;
  /** Origin-form. */
  readonly target: string;
  /** End-to-end fields. The listener adds Connection and Upgrade. */
  readonly fields: Fields;
  readonly tls: Route['tls'];
  readonly timeouts: Route['timeouts'];
  /** How long the tunnel may be silent in both directions, in milliseconds; 0 is no limit. */
  readonly idleTimeoutMs: number;
  /** The name of the client. */
  readonly client: string;
  /** The member of the origin group that is held for the tunnel; undefined where the route has one origin. */
  readonly hold: Hold | undefined;
}

/** A request for a tunnel: the head alone. */
type UpgradeRequest = Omit<ProxyRequest, 'body' | 'bodySizeBytes' | 'signal' | 'sendInterim'>;

/** A request for a tunnel under way. */
interface Upgrade {
  /** Admits the request, and returns its origin. Throws, or rejects with, `ProxyError`, as `admit` does. Called once. */
  route(): UpgradeRoute | Promise<UpgradeRoute>;
  /** Returns a response of the origin, or of our own, as the client gets it. */
  present(response: ProxyResponse): ProxyResponse;
  /** Called when the request is over, with or without a tunnel. */
  leave(delivery: Delivery): void;
}

/** Admits an upgrade (RFC 9110 §7.8) by the rules of any other request. */
export function admitUpgrade(head: UpgradeRequest, context: AdmissionContext): Upgrade {
  const notes: GateNotes = { user: undefined, allowance: undefined };
  let present = (response: ProxyResponse): ProxyResponse => presentProblem(head, response);
  let mapped = (fields: Fields): Fields => fields;
  return {
    async route() {
      const { request, client } = identify(withoutBody(head), context.trust);
      if (isLoop(request.fields, context.pseudonym)) throw new ProxyError('loop_detected');
      const routed = routeRequest(request, context.router);
      const gate = context.gateOf(routed.route);
      present = (response) => gate.present(request, notes.allowance?.present(response) ?? response);
      const admission = await gate.admit(request, client, routed, notes);
      // A gate answers only preflight requests, which are OPTIONS. A handshake is a GET.
      if (admission.kind === 'answered') throw new ProxyError('method_refused');
      const { route, target } = admission.routed;
      const { idleTimeoutMs } = admission.allowance.openTunnel();
      const hold = route.holdOrigin?.(ownerOf(request.fields, request.connection, admission.allowance.client));
      const forwarded = tunnelRequestFields(admission.request, client, route, context.pseudonym);
      const fields = hold?.host === undefined ? forwarded : withHost(forwarded, hold.host);
      const asked = { target: originTarget(route, target.path, target.query), fields };
      mapped = (received) => clientReferences(received, referenceRules(route), asked);
      return {
        url: (hold?.url ?? route.originUrl).href,
        ...asked,
        tls: route.tls,
        timeouts: route.timeouts,
        idleTimeoutMs,
        client: admission.allowance.client,
        hold,
      };
    },
    present: (response) => present({ ...response, fields: mapped(response.fields) }),
    leave: (delivery) => notes.allowance?.leave(delivery),
  };
}

function withoutBody(head: UpgradeRequest): ProxyRequest {
  const gone = new AbortController();
  return { ...head, body: undefined, bodySizeBytes: undefined, signal: gone.signal, sendInterim: () => {} };
}
