/**
 * Checks which requests may pass: by the address of the client, and by the credentials of the route. Finds the valid credentials of
 * a request, removes them from it, and refuses with the right status and challenge (RFC 9110 §11.6). Keeps responses behind
 * credentials, and Rangeway's own errors, out of the caches in front of this one. Read this file first, then `authorization.ts`.
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
   * Checks a client by its lines of Authorization and X-API-Key; returns its user, or undefined where `checkAddress` and
   * `checkCredentials` must decide. Absent where the route accepts other credentials than tokens, or forwards them.
   */
  readonly passAtOnce:
    | ((client: Pick<Client, 'address'>, credentials: Fields) => { readonly user: string | undefined } | undefined)
    | undefined;
  /** Throws `ProxyError` `client_forbidden` for an address that may not pass. */
  checkAddress(client: Client): void;
  /**
   * Checks credentials. Throws, or rejects with, `ProxyError`: `credentials_required`, `credentials_refused`, `key_refused`,
   * `signature_refused`; `malformed_request`; `too_many_requests` and `credentials_unchecked`, where too many passwords wait to be
   * checked; `client_gone`.
   */
  checkCredentials(
    request: ProxyRequest,
    routed: Routed,
    client: Client,
  ): PassedCredentials | Promise<PassedCredentials>;
  /** Returns a target without its signature. Absent where the route accepts no signed URLs, or forwards their signatures. */
  readonly withoutSignature?: ((target: string) => string) | undefined;
  /** Returns a response of the route with the fields that keep shared caches from giving it to clients that have not passed. */
  present(response: ProxyResponse): ProxyResponse;
}

/** The access rules of a route. */
export interface AccessRules {
  /** Only these addresses may pass; undefined admits all. */
  readonly allow: PeerList | undefined;
  /** These addresses may not pass, whatever `allow` says; undefined forbids none. */
  readonly deny: PeerList | undefined;
  /** Undefined where the route requires none. */
  readonly credentials: CredentialRules | undefined;
}

/**
 * Creates the checks. A client without a known address, such as the peer of a Unix socket, passes where there is no `allow` list.
 * Where credentials are required, responses are for the client's own cache only. Address rules do not restrict caches: a cache
 * between here and the client may have one of the allowed addresses.
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
    withoutSignature: credentials?.signedUrls === undefined || credentials.areForwarded ? undefined : removeSignature,
    present: credentials === undefined ? (response) => response : withPrivate,
  };
}

function removeSignature(target: string): string {
  const signature = readSignature(target);
  return signature.kind === 'none' ? target : signature.target;
}

/** A request that passes. */
export interface PassedCredentials {
  /** Without the credentials that were for Rangeway, unless the origin gets them. */
  readonly request: ProxyRequest;
  /** The destination, without the signature of the URL. */
  readonly routed: Routed;
  /** The name that the credentials belong to; undefined where none are required. */
  readonly user: string | undefined;
}

/** The kinds of credentials that a route accepts. A request needs valid ones of one kind. */
export interface CredentialRules {
  readonly realm: string;
  readonly basic: BasicCheck | undefined;
  readonly bearer: TokenTable | undefined;
  readonly apiKey: TokenTable | undefined;
  readonly signedUrls: SignatureCheck | undefined;
  /** Whether the origin gets the credentials too. */
  readonly areForwarded: boolean;
}

/** Checks one request. Throws, or rejects with, `ProxyError`. */
type CredentialCheck = (
  request: ProxyRequest,
  routed: Routed,
  client: Client,
) => PassedCredentials | Promise<PassedCredentials>;

const apiKeyField = 'x-api-key';

/** A signed URL only permits reading (RFC 9110 §9.2.1). */
const signedMethods: ReadonlySet<string> = new Set(['GET', 'HEAD']);

/** The credentials of a request, of the kinds that its route accepts. */
interface Evidence {
  /** The token of Bearer; empty where there is none after the scheme. */
  readonly bearer: string | undefined;
  /** `malformed` where they cannot be parsed, so that they belong to no user. */
  readonly basic: BasicCredentials | 'malformed' | undefined;
  readonly apiKey: string | undefined;
  readonly signature: SignatureReading;
}

/**
 * Creates a check. It decides in the same tick, except about passwords that are not remembered as right. A request with several
 * kinds passes by any of them. Throws `malformed_request` for two lines of Authorization or of X-API-Key.
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
 * Creates a check of tokens alone, by the lines of Authorization and X-API-Key. It returns the user of a valid token, and undefined
 * where `createCredentialCheck` must decide. There is no such check where the route accepts other kinds, or forwards credentials.
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

/** Removes all credentials of the kinds that the route accepts, valid or not. Authorization of another scheme is for the origin. */
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

/** The credentials of a refused request. */
interface Shown {
  readonly hasBearer: boolean;
  /** Basic, or an API key. */
  readonly hasOther: boolean;
  /** Why the signature of the URL is not valid; undefined where there is none. */
  readonly signatureRefusal: string | undefined;
}

/** The kinds that a route accepts; the others are undefined. */
interface AcceptedSchemes {
  readonly realm: string;
  readonly basic: unknown;
  readonly bearer: unknown;
  readonly apiKey: unknown;
}

/**
 * Creates the refusal. A 401 must name a scheme that the client could use (RFC 9110 §15.5.2, §11.6.1), so it is for routes that
 * accept Basic or Bearer. API keys and signed URLs have no scheme: routes that accept only these answer 403. Every route answers
 * 403 to a signature that is not valid, where the request has no other credentials. The client learns no more than that.
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
 * One challenge per line, because some clients do not parse lists. A Bearer token that was sent is called invalid (RFC 6750 §3.1);
 * a request without one gets no error code (§3). `realm` needs no escapes.
 */
function challenges({ realm, basic, bearer }: AcceptedSchemes, hasBearer: boolean): Field[] {
  const lines: Field[] = [];
  if (basic !== undefined) lines.push(['www-authenticate', `Basic realm="${realm}", charset="UTF-8"`]);
  const error = hasBearer ? ', error="invalid_token"' : '';
  if (bearer !== undefined) lines.push(['www-authenticate', `Bearer realm="${realm}"${error}`]);
  return lines;
}

/** Directives that would let a shared cache store a response, and those that a plain `private` replaces. */
const replacedDirectives: ReadonlySet<string> = new Set(['public', 'private', 's-maxage']);

/** Fields that nginx and other caches obey before Cache-Control, besides the fields of RFC 9213. */
const fieldsOfOthers: ReadonlySet<string> = new Set(['surrogate-control', 'x-accel-expires', 'edge-control']);

/**
 * Returns the response for one client alone, as `private` (RFC 9111 §5.2.2.7). The origin does not know of the credentials, and may
 * call a response public that is so only for clients that pass. A cache between here and the client would believe it, and give the
 * response to clients that have not passed (§3.5 permits that for `public` and `s-maxage` even after Authorization). Rangeway is the
 * origin server for the credentials that it requires (RFC 9110 §3.7), so it may say `private`. Fields for other caches (RFC 9213)
 * are removed, because they would override it. Lifetimes stay, for the client's own cache.
 */
export function withPrivate(response: ProxyResponse): ProxyResponse {
  const members = fieldLines(response.fields, 'cache-control').flatMap(splitMembers);
  const kept = members.filter((member) => member !== '' && !isReplaced(member));
  // First, so that no malformed member stands before it.
  const control = ['private', ...kept].join(', ');
  return { ...response, fields: [...withoutCaching(response.fields), ['cache-control', control]] };
}

function isReplaced(member: string): boolean {
  const [name = ''] = member.split('=', 1);
  return replacedDirectives.has(trimWhitespace(name).toLowerCase());
}

/** Returns an error of our own as `no-store`, whatever the operator's field rules say: they mean responses of the origin. */
export function withNoStore(response: ProxyResponse): ProxyResponse {
  return { ...response, fields: [...withoutCaching(response.fields), ['cache-control', 'no-store']] };
}

function withoutCaching(fields: Fields): Fields {
  return fields.filter(([name]) => name !== 'cache-control' && !isForOtherCaches(name));
}

function isForOtherCaches(name: string): boolean {
  return name.endsWith('-cache-control') || fieldsOfOthers.has(name);
}
