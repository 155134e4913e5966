/**
 * Which requests may pass: by the address of the client, and by the credentials of the route. Says which of the credentials that a
 * request shows is right, takes them out of the request, and refuses with the right status and challenge (RFC 9110 §11.6).
 * Responses behind credentials, and Rangeway's own errors, are kept out of the caches in front of this one. Read this file first.
 */

import { type Field, type Fields, fieldLines, fieldValue, trimWhitespace } from '../../http/fields.ts';
import { changedRequest, type ProxyRequest, type ProxyResponse } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { Routed } from '../../routing/inquiry.ts';
import { splitTarget } from '../../routing/target.ts';
import { splitMembers } from '../../semantics/cache-control.ts';
import type { Client, PeerList } from '../client.ts';
import { type BasicCredentials, parseBasic, readAuthorization, singleLine, type TokenTable } from './authorization.ts';
import type { BasicCheck } from './passwords.ts';
import { readSignature, type SignatureCheck, type SignatureReading } from './signed-url.ts';

/** The checks of one route. */
export interface Access {
  /** Whether every client passes, and no response changes. */
  readonly isOpen: boolean;
  /**
   * The user of a client that may pass, by its lines of Authorization and X-API-Key; undefined where `checkAddress` and
   * `checkCredentials` have to decide. Absent where more of a request than that may let it pass.
   */
  readonly passAtOnce:
    | ((client: Pick<Client, 'address'>, credentials: Fields) => { readonly user: string | undefined } | undefined)
    | undefined;
  /** Throws `ProxyError`: `client_forbidden`. */
  checkAddress(client: Client): void;
  /**
   * Throws, or rejects with, `ProxyError`: `credentials_required`, `credentials_refused`, `key_refused`,
   * `signature_refused`; `malformed_request`; `too_many_requests` and `credentials_unchecked`, where passwords wait to be
   * checked; `client_gone`.
   */
  checkCredentials(
    request: ProxyRequest,
    routed: Routed,
    client: Client,
  ): PassedCredentials | Promise<PassedCredentials>;
  /** A response of the route with what keeps it from those who have not passed. */
  present(response: ProxyResponse): ProxyResponse;
}

/** What a route asks of those who come. */
export interface AccessRules {
  /** Only these addresses may pass; undefined lets all. */
  readonly allow: PeerList | undefined;
  /** These may not, whatever `allow` says; undefined forbids none. */
  readonly deny: PeerList | undefined;
  /** Undefined asks for none. */
  readonly credentials: CredentialRules | undefined;
}

/**
 * Creates the checks. A client whose address nobody tells, such as the peer of a Unix socket, passes where there is no list
 * of those who may. Where credentials are asked for, responses are for the client's own cache only; addresses change
 * nothing about that, for a cache between here and the client may be one of them.
 */
export function createAccess({ allow, deny, credentials }: AccessRules): Access {
  const isForbidden = (address: string) => deny?.(address) === true || allow?.(address) === false;
  const passByToken = credentials === undefined ? () => ({ user: undefined }) : createTokenCheck(credentials);
  return {
    passAtOnce: passByToken && (({ address }, lines) => (isForbidden(address) ? undefined : passByToken(lines))),
    isOpen: allow === undefined && deny === undefined && credentials === undefined,
    checkAddress({ address }) {
      if (isForbidden(address)) throw new ProxyError('client_forbidden');
    },
    checkCredentials:
      credentials === undefined
        ? (request, routed) => ({ request, routed, user: undefined })
        : createCredentialCheck(credentials),
    present: credentials === undefined ? (response) => response : forOneClient,
  };
}

/** A request that may pass. */
export interface PassedCredentials {
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
type CredentialCheck = (
  request: ProxyRequest,
  routed: Routed,
  client: Client,
) => PassedCredentials | Promise<PassedCredentials>;

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
    const conclude = (name: string | undefined): PassedCredentials => {
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
function createTokenCheck(
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
): PassedCredentials {
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

/** What a refused request has shown. */
interface Shown {
  readonly hasBearer: boolean;
  /** Basic, or an API key. */
  readonly hasOther: boolean;
  /** Why the signature of its URL is no pass; undefined where it has none. */
  readonly signatureRefusal: string | undefined;
}

/** What a route takes; a kind that it does not is undefined. */
interface AcceptedSchemes {
  readonly realm: string;
  readonly basic: unknown;
  readonly bearer: unknown;
  readonly apiKey: unknown;
}

/**
 * The refusal. 401 has to name a scheme by which a client could do better (RFC 9110 §15.5.2, §11.6.1), so it is for routes
 * that take Basic or Bearer. There is no scheme for API keys and signed URLs: routes that take only these say 403, and so
 * do all to a URL whose signature is not valid, where nothing else was shown. A client learns no more than that.
 */
function credentialsRefusal({ hasBearer, hasOther, signatureRefusal }: Shown, taken: AcceptedSchemes): ProxyError {
  const detail = signatureRefusal === undefined ? {} : { detail: `signature: ${signatureRefusal}` };
  const hasScheme = taken.basic !== undefined || taken.bearer !== undefined;
  const hasShown = hasBearer || hasOther;
  if (signatureRefusal !== undefined && !hasShown) return new ProxyError('signature_refused', detail);
  if (!hasScheme) return new ProxyError(taken.apiKey === undefined ? 'signature_refused' : 'key_refused', detail);
  const code = hasShown ? 'credentials_refused' : 'credentials_required';
  return new ProxyError(code, { ...detail, fields: challenges(taken, hasBearer) });
}

/**
 * One challenge in each line, because clients have been seen that read no list. A token that was shown is called invalid
 * (RFC 6750 §3.1); a request that shows none is told of no error (§3). `realm` needs no escapes.
 */
function challenges({ realm, basic, bearer }: AcceptedSchemes, hasBearer: boolean): Field[] {
  const lines: Field[] = [];
  if (basic !== undefined) lines.push(['www-authenticate', `Basic realm="${realm}", charset="UTF-8"`]);
  const error = hasBearer ? ', error="invalid_token"' : '';
  if (bearer !== undefined) lines.push(['www-authenticate', `Bearer realm="${realm}"${error}`]);
  return lines;
}

/** What would let a shared cache keep a response, or is said by `private` alone. */
const replacedDirectives: ReadonlySet<string> = new Set(['public', 'private', 's-maxage']);

/** What nginx and others obey before Cache-Control, besides the fields of RFC 9213. */
const fieldsOfOthers: ReadonlySet<string> = new Set(['surrogate-control', 'x-accel-expires', 'edge-control']);

/**
 * The response for one client alone (RFC 9111 §5.2.2.7). The origin knows nothing of the credentials, and calls public what
 * is so to all who pass; a cache between here and the client would take it at its word, and give the response to those who
 * have not passed (§3.5 lets `public` and `s-maxage` do that even after Authorization). Who asks for the credentials is the
 * origin server of what they are for (RFC 9110 §3.7), and says so. Fields for the caches of others (RFC 9213) are left out,
 * because they would take its place. Lifetimes stay, for the client's own cache.
 */
export function forOneClient(response: ProxyResponse): ProxyResponse {
  const members = fieldLines(response.fields, 'cache-control').flatMap(splitMembers);
  const kept = members.filter((member) => member !== '' && !isReplaced(member));
  // First, so that nothing malformed stands before it.
  const control = ['private', ...kept].join(', ');
  return { ...response, fields: [...withoutCaching(response.fields), ['cache-control', control]] };
}

function isReplaced(member: string): boolean {
  const [name = ''] = member.split('=', 1);
  return replacedDirectives.has(trimWhitespace(name).toLowerCase());
}

/** An error of our own for this one request, whatever the operator's rules say of caching: they mean what is at the origin. */
export function forOneRequest(response: ProxyResponse): ProxyResponse {
  return { ...response, fields: [...withoutCaching(response.fields), ['cache-control', 'no-store']] };
}

function withoutCaching(fields: Fields): Fields {
  return fields.filter(([name]) => name !== 'cache-control' && !isForOtherCaches(name));
}

function isForOtherCaches(name: string): boolean {
  return name.endsWith('-cache-control') || fieldsOfOthers.has(name);
}
