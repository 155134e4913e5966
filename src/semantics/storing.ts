/**
 * Decides which responses may be stored, and which of their fields (RFC 9111 §3). Errors that one client can provoke are not
 * stored: otherwise the cache would serve them to all clients (CPDoS).
 */

import { type Field, type Fields, fieldValue, hasField } from '../http/fields.ts';
import {
  type CacheControl,
  type ControlPolicy,
  type RequestPolicy,
  readCacheControl,
  readRequestDirectives,
} from './cache-control.ts';
import { hasConnectionCredentials, isConnectionBinding } from './connection-auth.ts';
import {
  type DatedResponse,
  type FreshnessPolicy,
  freshnessLifetime,
  isExplicit,
  mayServeStale,
  mayUseHeuristic,
} from './freshness.ts';
import { formatHttpDate } from './http-date.ts';
import { withoutConnectionFields } from './message-forwarding.ts';
import { conditionalFields } from './validator.ts';
import { varyNames } from './vary.ts';

/** Why a response is not stored. Appears in logs and in the `detail` of Cache-Status. */
export type StoringRefusal =
  | 'method'
  | 'status'
  | 'no-store'
  | 'private'
  | 'authorization'
  | 'connection-auth'
  | 'vary-star'
  | 'vary-value'
  | 'set-cookie'
  | 'stream'
  | 'provoked'
  | 'no-freshness';

export type StoringDecision = { readonly kind: 'store' } | { readonly kind: 'refuse'; readonly reason: StoringRefusal };

/** The operator's settings for which parts of responses are stored. */
export interface KeepingPolicy extends ControlPolicy {
  /** How responses with Set-Cookie are treated: stored with it, stored without it, or not stored (RFC 9111 §7.3). */
  readonly setCookie: 'store' | 'strip' | 'refuse';
}

/** The operator's settings for which responses are stored. */
export type StoringPolicy = FreshnessPolicy & KeepingPolicy & RequestPolicy;

/** An exchange whose response may be stored. */
export interface StoringInput {
  readonly request: { readonly method: string; readonly fields: Fields };
  readonly response: DatedResponse;
  readonly policy: StoringPolicy;
}

/**
 * Statuses that are never stored. 206, 304 and 416 are parts or confirmations of other responses. The others answer the way a
 * request was sent or authenticated, not what it asked for: any client could provoke them for all. RFC 6585 forbids storing
 * 428, 429, 431 and 511.
 */
const unstorableStatuses: ReadonlySet<number> = new Set([
  206, 304, 401, 406, 407, 408, 411, 412, 413, 415, 416, 417, 421, 425, 426, 428, 429, 431, 505, 511,
]);

/** Statuses whose caching rules are implemented here, as must-understand requires (RFC 9111 §5.2.2.3). */
const understoodStatuses: ReadonlySet<number> = new Set([
  200, 203, 204, 300, 301, 302, 303, 307, 308, 403, 404, 405, 410, 414, 451, 500, 501, 502, 503, 504,
]);

/**
 * Decides whether a shared cache may store a response (RFC 9111 §3); `request` has the fields that the origin was sent.
 * Stricter than the RFC in five points. What came over a connection that the origin authenticates (NTLM, Negotiate) is not stored. A
 * response with Set-Cookie is stored only with an explicit lifetime above 0, or where
 * the origin exempts that field by `no-cache="set-cookie"` or `private="set-cookie"`. An error that request fields may have
 * provoked is not stored. A response that could never be reused, because it has neither lifetime nor validator, is not stored. Nor is
 * a live stream without an explicit lifetime above 0: it has no end, and each client is to begin with what is live.
 *
 * Also to be called for a freshened response: a 304 may bring `no-store` or `private`.
 */
export function decideStoring({ request, response, policy }: StoringInput): StoringDecision {
  const control = readCacheControl(response.fields, policy);
  const reason =
    (hasConnectionCredentials(request.fields) || isConnectionBinding(response.fields)
      ? 'connection-auth'
      : undefined) ??
    refusalByRequest(request, control, policy) ??
    refusalByResponse(response, control) ??
    refusalByCookie(response, control, policy) ??
    refusalByStream(response, control, policy) ??
    (mayBeProvoked(request.fields, response.status) ? 'provoked' : undefined) ??
    (isEverReusable(response, policy, control) ? undefined : 'no-freshness');
  return reason === undefined ? { kind: 'store' } : { kind: 'refuse', reason };
}

/** Checks whether a response is only for requests with the same Authorization (RFC 9111 §3.5). */
export function isForAuthorized(request: Fields, response: Fields, policy: ControlPolicy): boolean {
  return hasField(request, 'authorization') && !mayStoreAuthorized(readCacheControl(response, policy));
}

/** Checks whether a response is only for the client that requested it (RFC 9111 §3.5, §5.2.2.7). */
export function isForOneClient(request: Fields, response: Fields, policy: ControlPolicy): boolean {
  return readCacheControl(response, policy).private === true || isForAuthorized(request, response, policy);
}

function refusalByRequest(
  request: StoringInput['request'],
  control: CacheControl,
  policy: RequestPolicy,
): StoringRefusal | undefined {
  if (request.method !== 'GET') return 'method';
  if (readRequestDirectives(request.fields, policy).noStore) return 'no-store';
  if (hasField(request.fields, 'authorization') && !mayStoreAuthorized(control)) return 'authorization';
  return undefined;
}

/** RFC 9111 §3.5. */
function mayStoreAuthorized(control: CacheControl): boolean {
  return control.public || control.mustRevalidate || control.sMaxage !== undefined;
}

function refusalByResponse({ status, fields }: DatedResponse, control: CacheControl): StoringRefusal | undefined {
  if (status < 200 || status > 599 || unstorableStatuses.has(status)) return 'status';
  if (control.mustUnderstand && !understoodStatuses.has(status)) return 'status';
  if (control.noStore && !control.mustUnderstand) return 'no-store';
  if (control.private === true) return 'private';
  return varyNames(fields).includes('*') ? 'vary-star' : undefined;
}

/** A lifetime that the origin did not state, or one of 0, is no reason to give one client's cookie to another. */
function refusalByCookie(
  response: DatedResponse,
  control: CacheControl,
  policy: StoringPolicy,
): StoringRefusal | undefined {
  if (!hasField(response.fields, 'set-cookie') || restrictedFields(control).has('set-cookie')) return undefined;
  if (policy.setCookie === 'refuse') return 'set-cookie';
  const { lifetimeMs, source } = freshnessLifetime(response, policy, control);
  return isExplicit(source) && lifetimeMs > 0 ? undefined : 'set-cookie';
}

function refusalByStream(
  response: DatedResponse,
  control: CacheControl,
  policy: StoringPolicy,
): StoringRefusal | undefined {
  if (!isLiveStream(response.fields)) return undefined;
  const { lifetimeMs, source } = freshnessLifetime(response, policy, control);
  return isExplicit(source) && lifetimeMs > 0 ? undefined : 'stream';
}

/** Media types of content that is sent as it comes about: pictures of cameras, and server-sent events (HTML §9.2). */
const liveTypes: ReadonlySet<string> = new Set(['multipart/x-mixed-replace', 'text/event-stream']);

/** Lengths that servers invent for streams, so that players go on: the largest numbers of 31 and 32 bits. */
const inventedLengths: ReadonlySet<string> = new Set(['2147483647', '4294967295']);

/** Fields that a server of files sends. */
const fileFields: ReadonlySet<string> = new Set(['accept-ranges', 'content-range', 'etag', 'last-modified']);

/**
 * Checks whether a response is a live stream by its kind: by its media type, by the fields of SHOUTcast and Icecast, or by a length
 * that is invented. A length that such a response states means nothing.
 */
export function isLiveStream(response: Fields): boolean {
  const [type = ''] = (fieldValue(response, 'content-type') ?? '').split(';', 1);
  if (liveTypes.has(type.trim().toLowerCase())) return true;
  const isInvented = inventedLengths.has(fieldValue(response, 'content-length') ?? '');
  if (isInvented && !response.some(([name]) => fileFields.has(name))) return true;
  return response.some(([name]) => name.startsWith('icy-') || name === 'ice-audio-info');
}

/** Whether a stored response could answer any request, be it after validation or stale (RFC 9111 §3, §4). */
function isEverReusable(response: DatedResponse, policy: FreshnessPolicy, control: CacheControl): boolean {
  const { lifetimeMs, source } = freshnessLifetime(response, policy, control);
  if (source === 'none' && !mayUseHeuristic(response.status, control)) return false;
  if (conditionalFields(response).length > 0) return true;
  if (control.noCache === true) return false;
  if ((control.staleWhileRevalidate ?? 0) > 0 || (control.staleIfError ?? 0) > 0) return mayServeStale(control);
  return source === 'none' ? response.status === 200 && policy.rangeReuseSeconds > 0 : lifetimeMs > 0;
}

/**
 * Fields that are never stored, besides those of the connection: they describe this exchange, not the representation. Includes
 * the fields of a trace (W3C Trace Context).
 */
const exchangeFields: ReadonlySet<string> = new Set([
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'traceparent',
  'traceresponse',
  'tracestate',
]);

/**
 * Returns the fields of a response that are stored (RFC 9111 §3.1): all but those of the connection, those that `no-cache="…"`
 * and `private="…"` list, those of proxies and traces, and Set-Cookie by policy. Adds a Date where there is none, as a
 * recipient with a clock must (RFC 9110 §6.6.1). `responseAt` is when the head arrived, in epoch milliseconds.
 */
export function storableFields(fields: Fields, responseAt: number, policy: KeepingPolicy): Fields {
  const restricted = restrictedFields(readCacheControl(fields, policy));
  const isKept = (name: string) => !exchangeFields.has(name) && !restricted.has(name);
  const kept: Field[] = withoutConnectionFields(fields).filter(
    ([name]) => isKept(name) && (name !== 'set-cookie' || policy.setCookie === 'store'),
  );
  if (!hasField(kept, 'date')) kept.push(['date', formatHttpDate(responseAt)]);
  return kept;
}

/**
 * Returns the fields of a response that are only for the client that requested it and are not stored: those that `no-cache="…"`
 * and `private="…"` list, and Set-Cookie by policy (RFC 9111 §5.2.2.4, §5.2.2.7). `controlling` are the fields whose directives
 * apply: those of the response, or those that it was merged into.
 */
export function personalFields(fields: Fields, controlling: Fields, policy: KeepingPolicy): Fields {
  const restricted = restrictedFields(readCacheControl(controlling, policy));
  const isPersonal = ([name]: Field) => restricted.has(name) || (name === 'set-cookie' && policy.setCookie !== 'store');
  return fields.some(isPersonal) ? withoutConnectionFields(fields).filter(isPersonal) : [];
}

const noFields: ReadonlySet<string> = new Set();

function restrictedFields(control: CacheControl): ReadonlySet<string> {
  if (typeof control.noCache === 'boolean' && typeof control.private === 'boolean') return noFields;
  const named = [control.noCache, control.private].filter((restriction) => typeof restriction !== 'boolean');
  return new Set(named.flat());
}

/** Client errors that depend on the target alone, which is in the cache key. */
const refusalsOfTarget: ReadonlySet<number> = new Set([404, 410, 414, 451]);

/** Origins with tight limits accept some 4 KiB of fields; an origin may refuse a request for more. */
const MAX_PLAIN_BYTES = 4096;

/** The characters of an unsuspicious field value: visible characters, spaces and tabs. */
const plainValue = /^[\t\x20-\x7e]*$/;

/** Request fields that are in no key, and because of which an origin may refuse any request. */
const suspectFields: ReadonlySet<string> = new Set([
  'authorization',
  'content-encoding',
  'content-type',
  'max-forwards',
]);

/** Name prefixes of the fields of cloud storage. They ask for more than a file; clouds refuse them where they make no sense. */
const suspectFamilies = ['x-amz-', 'x-goog-', 'x-ms-'];

/** Request fields by which origins allow or refuse access: to a client, or to requests from a page. */
const fieldsOfClient: ReadonlySet<string> = new Set(['cookie', 'origin', 'referer']);

/** Forms of the members of negotiation fields. An origin may find that it has nothing to offer for other members (RFC 9110 §12.5). */
const negotiationForms: Readonly<Record<string, RegExp>> = {
  accept: memberForm('\\*|[\\w!#$&^.+*-]+/[\\w!#$&^.+*-]+'),
  'accept-charset': memberForm('[\\w*.:+-]+'),
  'accept-encoding': memberForm('[\\w*.+-]+'),
  'accept-language': memberForm('[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*|\\*'),
};

/**
 * Whether an error may be due to fields of the request rather than to its target: to their size, their characters, a misplaced
 * field or a senseless one. A client error (4xx) that is not about the target alone may also be due to the client's identity.
 * Such an error is not stored: clients with plain requests would get it too. `request` are the fields that the origin was sent,
 * without those that the operator adds.
 */
function mayBeProvoked(request: Fields, status: number): boolean {
  if (status < 400) return false;
  const mayDependOnClient = status < 500 && !refusalsOfTarget.has(status);
  let bytes = 0;
  for (const [name, value] of request) {
    bytes += name.length + value.length + 4;
    if (isSuspect(name, value) || (mayDependOnClient && fieldsOfClient.has(name))) return true;
  }
  return bytes > MAX_PLAIN_BYTES;
}

function isSuspect(name: string, value: string): boolean {
  if (suspectFields.has(name) || !plainValue.test(value)) return true;
  if (suspectFamilies.some((family) => name.startsWith(family))) return true;
  const form = negotiationForms[name];
  return form !== undefined && !value.split(',').every((member) => form.test(member));
}

/** A list member: empty, or a value of the wanted form with optional parameters. */
function memberForm(wanted: string): RegExp {
  return new RegExp(`^[ \\t]*(?:(?:${wanted})(?:[ \\t]*;[ \\t]*[\\w-]+=(?:[\\w.+/-]+|"[^"\\\\]*"))*[ \\t]*)?$`);
}
