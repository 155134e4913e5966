/**
 * The messages between two workers: the request that one of them asks about, and the answer without its bytes. Each worker
 * interprets a request by its own configuration.
 */

import { createHash } from 'node:crypto';
import type { Answer, AnswerFacts, Relay } from '../cache/answer.ts';
import type { PeerAnswer, Version } from '../cache/fleet.ts';
import type { CachePolicy, Inquiry } from '../cache/inquiry.ts';
import type { AdmissionContext } from '../guard/admit.ts';
import type { Fields } from '../http/fields.ts';
import type { Peer, ProxyRequest } from '../http/message.ts';
import { type ErrorCode, errorKinds, ProxyError } from '../http/proxy-error.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import type { OriginResponse } from '../origin/origin.ts';
import { createInquiry, routeRequest } from '../routing/inquiry.ts';

/** A request as it is sent to another worker. Plain data. */
export interface PeerQuestion {
  readonly method: string;
  readonly scheme: 'http' | 'https';
  readonly authority: string;
  readonly target: string;
  readonly version: string;
  readonly fields: Fields;
  readonly peer: Peer;
  readonly receivedAt: number;
  readonly key: string;
  readonly client: string;
  readonly originTarget: string;
  readonly originFields: Fields;
  /** Identifies the rules of its route. */
  readonly rules: string;
  /** The version that the client has received a part of; undefined where it has received nothing. */
  readonly given: Version | undefined;
}

/** A question of another worker as an inquiry. */
export interface PeerInquiry {
  readonly inquiry: Inquiry;
  /** Notes bytes that were sent for the client: they repay what the inquiry takes (`Loan`). */
  onSent(bytes: number): void;
}

/** The connection to the worker that asks. */
type PeerAsker = Pick<Inquiry, 'onInterim'> & Pick<ProxyRequest, 'signal'>;

/** Returns the message about a request. */
export function describeInquiry(inquiry: Inquiry, given: Version | undefined): PeerQuestion {
  const { request, key, client, originTarget, originFields, policy } = inquiry;
  const { method, scheme, authority, target, version, fields, peer, receivedAt } = request;
  return {
    method,
    scheme,
    authority,
    target,
    version,
    fields,
    peer: { address: peer.address, port: peer.port },
    receivedAt,
    key,
    client,
    originTarget,
    originFields,
    rules: nameRules(policy),
    given,
  };
}

/**
 * Turns a question into an inquiry. Undefined where the rules of this process give another key, origin target or policy, or no
 * route: during a reload one process may use the next configuration before another does.
 */
export function createPeerInquiry(
  question: PeerQuestion,
  { router, gateOf }: Pick<AdmissionContext, 'router' | 'gateOf'>,
  asker: PeerAsker,
): PeerInquiry | undefined {
  const { key, client, originFields, originTarget, rules } = question;
  const request = createRequest(question, asker.signal);
  const routed = routeOf(request, router);
  if (routed === undefined) return undefined;
  const { origin, repay } = gateOf(routed.route).lend(routed, client);
  const { onInterim } = asker;
  const inquiry = createInquiry(request, routed, router, {
    origin,
    client,
    originFields: () => originFields,
    onInterim,
  });
  const isSame = inquiry.key === key && inquiry.originTarget === originTarget && nameRules(inquiry.policy) === rules;
  return isSame ? { inquiry, onSent: repay } : undefined;
}

function routeOf(request: ProxyRequest, router: AdmissionContext['router']) {
  try {
    return routeRequest(request, router);
  } catch (thrown) {
    if (thrown instanceof ProxyError) return undefined;
    throw thrown;
  }
}

function createRequest(question: PeerQuestion, signal: AbortSignal): ProxyRequest {
  const { method, scheme, authority, target, version, fields, peer, receivedAt } = question;
  const head = { method, scheme, authority, target, version, fields, peer, receivedAt };
  // Interim responses go through `Inquiry.onInterim`.
  return { ...head, body: undefined, bodySizeBytes: undefined, signal, sendInterim: () => {} };
}

const names = new WeakMap<CachePolicy, string>();

/** Returns a text that differs for different rules. Computed once for each route. */
function nameRules(policy: CachePolicy): string {
  const known = names.get(policy);
  if (known !== undefined) return known;
  const name = createHash('sha256').update(JSON.stringify(policy)).digest('base64');
  names.set(policy, name);
  return name;
}

/** How an answer came about. The bytes that it cost the origin are sent with the data frames. */
type ToldFacts = Omit<AnswerFacts, 'originBytes'>;

/** A relayed response, without its body. */
export type RelayMessage = Omit<Relay, 'response'> & {
  readonly response: Omit<OriginResponse, 'body'>;
  readonly hasTrailers: boolean;
};

/** An answer as it is sent to another worker. Plain data. */
export type PeerAnswerMessage =
  /** This worker does not hold the lease, or has other rules: the one that asks has to ask for the lease again. */
  | { readonly kind: 'none' }
  | (Omit<PeerAnswer, 'answer'> &
      (
        | { readonly kind: 'own-way' }
        | {
            readonly kind: 'representation';
            readonly facts: ToldFacts;
            readonly isReuse: boolean;
            readonly response: StoredResponse;
            readonly generation: string | undefined;
            readonly sizeBytes: number | undefined;
          }
        | { readonly kind: 'relay'; readonly facts: ToldFacts; readonly relay: RelayMessage }
      ));

/** Returns the message about an answer. */
export function describeAnswer(peerAnswer: PeerAnswer | undefined): PeerAnswerMessage {
  if (peerAnswer === undefined) return { kind: 'none' };
  const { answer, ...learned } = peerAnswer;
  if (answer === undefined) return { ...learned, kind: 'own-way' };
  const facts = factsOf(answer);
  if (answer.kind === 'relay') return { ...learned, kind: 'relay', facts, relay: describeRelay(answer.relay) };
  const { response, generation, sizeBytes } = answer.representation;
  return { ...learned, kind: 'representation', facts, isReuse: answer.isReuse, response, generation, sizeBytes };
}

function factsOf({ outcome, reason, apartBy, collapsed, status }: Answer): ToldFacts {
  return { outcome, reason, apartBy, collapsed, status };
}

function describeRelay({ response, requestAt, responseAt, evaluated, isStorable }: Relay): RelayMessage {
  const { status, fields, version, framing, sizeBytes, body } = response;
  const head = { status, fields, version, framing, sizeBytes };
  return { response: head, requestAt, responseAt, evaluated, isStorable, hasTrailers: body.trailers !== undefined };
}

/** A failure as it is sent to another worker. Plain data. */
export interface FailureMessage {
  readonly code: string;
  readonly detail: string | undefined;
  readonly fields: Fields;
}

/** Returns the message about a failure. */
export function describeFailure({ code, detail, fields }: ProxyError): FailureMessage {
  return { code, detail, fields };
}

/** Restores a failure. An unknown code becomes `internal`. */
export function reviveFailure({ code, detail, fields }: FailureMessage): ProxyError {
  const isKnown = Object.hasOwn(errorKinds, code);
  const options = { fields, ...(detail === undefined ? {} : { detail }) };
  return new ProxyError(isKnown ? (code as ErrorCode) : 'internal', options);
}
