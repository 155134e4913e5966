/**
 * What two workers tell each other: the request that one asks about, and the answer without its bytes. Each worker reads a
 * request by its own configuration.
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

/** What is told of a request. Plain data: nothing in it is looked at but as what it is. */
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
  /** Tells the rules of its route from others. */
  readonly rules: string;
  /** What it has been given a part of. */
  readonly given: Version | undefined;
}

/** A question taken up. */
export interface PeerInquiry {
  readonly inquiry: Inquiry;
  /** Takes note of bytes that the client is given. */
  onSent(bytes: number): void;
}

/** Where the one is who has asked. */
type PeerAsker = Pick<Inquiry, 'onInterim'> & Pick<ProxyRequest, 'signal'>;

/** Tells of a request. */
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
 * Takes a question up. Undefined where it is not the same one by the rules of this process: while processes change to
 * another configuration, one of them has done so and another one has not.
 */
export function takeUpQuestion(
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
  const told = { method, scheme, authority, target, version, fields, peer, receivedAt };
  // Interim responses go by the inquiry.
  return { ...told, body: undefined, bodySizeBytes: undefined, signal, sendInterim: () => {} };
}

const names = new WeakMap<CachePolicy, string>();

/** Another text for other rules; made once for each route. */
function nameRules(policy: CachePolicy): string {
  const known = names.get(policy);
  if (known !== undefined) return known;
  const name = createHash('sha256').update(JSON.stringify(policy)).digest('base64');
  names.set(policy, name);
  return name;
}

/** What an answer tells of how it came about; what it has cost is told with its bytes. */
type ToldFacts = Omit<AnswerFacts, 'originBytes'>;

/** A response that is passed on, without its body. */
export type ToldRelay = Omit<Relay, 'response'> & {
  readonly response: Omit<OriginResponse, 'body'>;
  readonly hasTrailers: boolean;
};

/** What is told of an answer. Plain data. */
export type ToldAnswer =
  /** Whoever asks is to ask for the lease again. */
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
        | { readonly kind: 'relay'; readonly facts: ToldFacts; readonly relay: ToldRelay }
      ));

/** Tells of an answer. */
export function describeAnswer(held: PeerAnswer | undefined): ToldAnswer {
  if (held === undefined) return { kind: 'none' };
  const { answer, ...learned } = held;
  if (answer === undefined) return { ...learned, kind: 'own-way' };
  const facts = factsOf(answer);
  if (answer.kind === 'relay') return { ...learned, kind: 'relay', facts, relay: describeRelay(answer.relay) };
  const { response, generation, sizeBytes } = answer.representation;
  return { ...learned, kind: 'representation', facts, isReuse: answer.isReuse, response, generation, sizeBytes };
}

function factsOf({ outcome, reason, apartBy, collapsed, status }: Answer): ToldFacts {
  return { outcome, reason, apartBy, collapsed, status };
}

function describeRelay({ response, requestAt, responseAt, evaluated, isStorable }: Relay): ToldRelay {
  const { status, fields, version, framing, sizeBytes, body } = response;
  const head = { status, fields, version, framing, sizeBytes };
  return { response: head, requestAt, responseAt, evaluated, isStorable, hasTrailers: body.trailers !== undefined };
}

/** A failure as it is told. Plain data. */
export interface ToldFailure {
  readonly code: string;
  readonly detail: string | undefined;
  readonly fields: Fields;
}

/** Tells of a failure. */
export function describeFailure({ code, detail, fields }: ProxyError): ToldFailure {
  return { code, detail, fields };
}

/** The failure again. */
export function reviveFailure({ code, detail, fields }: ToldFailure): ProxyError {
  const isKnown = Object.hasOwn(errorKinds, code);
  const options = { fields, ...(detail === undefined ? {} : { detail }) };
  return new ProxyError(isKnown ? (code as ErrorCode) : 'internal', options);
}
