/** The credentials of one route: which a request shows, whether one of them is right, and what goes on without them. */

import { changedRequest } from '../http/changed-request.ts';
import { type Fields, fieldValue } from '../http/fields.ts';
import type { ProxyRequest } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { Routed } from '../routing/inquiry.ts';
import { splitTarget } from '../routing/target.ts';
import { type BasicCredentials, parseBasic, readAuthorization, singleLine } from './authorization.ts';
import type { BasicCheck } from './basic.ts';
import { credentialsRefusal, type Shown } from './challenge.ts';
import type { Client } from './client.ts';
import { readSignature, type SignatureCheck, type SignatureReading } from './signed-url.ts';
import type { TokenTable } from './tokens.ts';

/** A request that may pass. */
export interface Passed {
  /** Without the credentials that were for us, unless the origin is to get them. */
  readonly request: ProxyRequest;
  /** Where it goes: without the signature of its URL. */
  readonly routed: Routed;
  /** The name that its credentials belong to. */
  readonly user: string | undefined;
}

/** The kinds of credentials that a route takes; of these a request needs one that is right. */
export interface CredentialRules {
  readonly realm: string;
  readonly basic: BasicCheck | undefined;
  readonly bearer: TokenTable | undefined;
  readonly apiKey: TokenTable | undefined;
  readonly signedUrls: SignatureCheck | undefined;
  /** Whether the origin gets what was asked for here. */
  readonly areForwarded: boolean;
}

/** Checks one request. Throws, or rejects with, `ProxyError`. */
export type CredentialCheck = (request: ProxyRequest, routed: Routed, client: Client) => Passed | Promise<Passed>;

const apiKeyField = 'x-api-key';

/** A signed URL is a pass for reading (RFC 9110 §9.2.1). */
const signedMethods: ReadonlySet<string> = new Set(['GET', 'HEAD']);

/** What a request shows of the kinds that its route takes. */
interface Evidence {
  /** The token of a Bearer; empty where it has none. */
  readonly bearer: string | undefined;
  /** `malformed` is what can be nobody's. */
  readonly basic: BasicCredentials | 'malformed' | undefined;
  readonly apiKey: string | undefined;
  readonly signature: SignatureReading;
}

/**
 * Creates a check. All but passwords that were not right lately is decided in the same tick. A request that shows several
 * kinds passes by any of them; `malformed_request` is for one that shows the same kind twice.
 */
export function createCredentialCheck(rules: CredentialRules): CredentialCheck {
  return (request, routed, client) => {
    const evidence = readEvidence(request, rules);
    const { basic } = evidence;
    const user = nameAtOnce(evidence, request, routed, rules);
    if (user.kind === 'right') return pass(request, routed, evidence, rules, user.name);
    const shown: Shown = { ...kindsShown(evidence), signatureRefusal: user.signatureRefusal };
    if (rules.basic === undefined || basic === undefined || basic === 'malformed')
      throw credentialsRefusal(shown, rules);
    const isWanted = () => !request.signal.aborted;
    const conclude = (name: string | undefined): Passed => {
      if (name === undefined) throw credentialsRefusal(shown, rules);
      return pass(request, routed, evidence, rules, name);
    };
    const name = rules.basic(basic, { client, isWanted });
    if (!(name instanceof Promise)) return conclude(name);
    return name.then((later) => {
      if (!isWanted()) throw new ProxyError('client_gone');
      return conclude(later);
    });
  };
}

/**
 * Creates a check of tokens alone, by the lines of Authorization and X-API-Key: it tells the user of a right one, and undefined
 * where `createCredentialCheck` has to decide. Undefined where a request may show something else.
 */
export function createTokenCheck(
  rules: CredentialRules,
): ((credentials: Fields) => { readonly user: string } | undefined) | undefined {
  if (rules.basic !== undefined || rules.signedUrls !== undefined || rules.areForwarded) return undefined;
  return (fields) => {
    const { scheme, token68 = '' } = (rules.bearer && readAuthorization(fields)) ?? {};
    const key = fieldValue(fields, apiKeyField);
    const byToken = scheme === 'bearer' ? rules.bearer?.(token68) : undefined;
    const user = byToken ?? (key === undefined ? undefined : rules.apiKey?.(key));
    return user === undefined ? undefined : { user };
  };
}

function readEvidence({ fields, target }: ProxyRequest, rules: CredentialRules): Evidence {
  const takesAuthorization = rules.basic !== undefined || rules.bearer !== undefined;
  const authorization = takesAuthorization ? readAuthorization(fields) : undefined;
  const { scheme, token68 = '' } = authorization ?? {};
  return {
    bearer: rules.bearer !== undefined && scheme === 'bearer' ? token68 : undefined,
    basic: rules.basic !== undefined && scheme === 'basic' ? (parseBasic(token68) ?? 'malformed') : undefined,
    apiKey: rules.apiKey === undefined ? undefined : singleLine(fields, apiKeyField),
    signature: rules.signedUrls === undefined ? { kind: 'none' } : readSignature(target),
  };
}

type AtOnce =
  | { readonly kind: 'right'; readonly name: string }
  | { readonly kind: 'open'; readonly signatureRefusal: string | undefined };

function nameAtOnce(
  { bearer, apiKey, signature }: Evidence,
  { method }: ProxyRequest,
  { authority }: Routed,
  rules: CredentialRules,
): AtOnce {
  const byToken = bearer === undefined ? undefined : rules.bearer?.(bearer);
  const name = byToken ?? (apiKey === undefined ? undefined : rules.apiKey?.(apiKey));
  if (name !== undefined) return { kind: 'right', name };
  if (signature.kind === 'none') return { kind: 'open', signatureRefusal: undefined };
  if (signature.kind === 'malformed') return { kind: 'open', signatureRefusal: 'malformed' };
  if (!signedMethods.has(method)) return { kind: 'open', signatureRefusal: `not for ${method}` };
  const verdict = rules.signedUrls?.(authority, signature) ?? 'wrong';
  if (verdict === 'right') return { kind: 'right', name: signature.keyId };
  return { kind: 'open', signatureRefusal: verdict };
}

function kindsShown({ bearer, basic, apiKey }: Evidence): Omit<Shown, 'signatureRefusal'> {
  return { hasBearer: bearer !== undefined, hasOther: basic !== undefined || apiKey !== undefined };
}

/**
 * What is shown in a place that this route takes credentials from is for us, right or wrong, and goes no further.
 * Authorization of another scheme is the origin's.
 */
function pass(
  request: ProxyRequest,
  routed: Routed,
  { bearer, basic, apiKey, signature }: Evidence,
  { areForwarded }: CredentialRules,
  user: string,
): Passed {
  if (areForwarded) return { request, routed, user };
  const taken = new Set<string>();
  if (bearer !== undefined || basic !== undefined) taken.add('authorization');
  if (apiKey !== undefined) taken.add(apiKeyField);
  const isSigned = signature.kind !== 'none';
  if (taken.size === 0 && !isSigned) return { request, routed, user };
  const fields: Fields = request.fields.filter(([name]) => !taken.has(name));
  if (!isSigned) return { request: changedRequest(request, { fields }), routed, user };
  const { target } = signature;
  return {
    request: changedRequest(request, { fields, target }),
    routed: { ...routed, target: splitTarget(target) },
    user,
  };
}
