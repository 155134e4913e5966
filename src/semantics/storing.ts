/**
 * Which responses may be stored, and which of their fields (RFC 9111 §3). Errors that one client could provoke are not stored, so
 * that a cache does not give them to all others (CPDoS).
 */

import { type Field, type Fields, hasField } from '../http/fields.ts';
import {
  type CacheControl,
  type ControlPolicy,
  type RequestPolicy,
  readCacheControl,
  readRequestDirectives,
} from './cache-control.ts';
import {
  type DatedResponse,
  type FreshnessPolicy,
  freshnessLifetime,
  isExplicit,
  mayGuess,
  mayServeStale,
} from './freshness.ts';
import { formatHttpDate } from './http-date.ts';
import { withoutConnectionFields } from './message-forwarding.ts';
import { conditionalFields } from './validator.ts';
import { varyNames } from './vary.ts';

/** Why a response is not stored; shows in logs and in the detail of Cache-Status. */
export type StoringRefusal =
  | 'method'
  | 'status'
  | 'no-store'
  | 'private'
  | 'authorization'
  | 'vary-star'
  | 'set-cookie'
  | 'provoked'
  | 'no-freshness';

/** Whether a response may be stored. */
type StoringDecision = { readonly kind: 'store' } | { readonly kind: 'refuse'; readonly reason: StoringRefusal };

/** What the operator decided about what is kept of responses. */
export interface KeepingPolicy extends ControlPolicy {
  /** What becomes of responses with Set-Cookie: stored with it, stored without it, or not stored (RFC 9111 §7.3). */
  readonly setCookie: 'store' | 'strip' | 'refuse';
}

/** What the operator decided about which responses are stored. */
export type StoringPolicy = FreshnessPolicy & KeepingPolicy & RequestPolicy;

/** An exchange whose response might be stored. */
interface StoringInput {
  readonly request: { readonly method: string; readonly fields: Fields };
  readonly response: DatedResponse;
  readonly policy: StoringPolicy;
}

/**
 * Responses that are never stored: parts and confirmations of others (206, 304, 416), and answers to the way one
 * request was sent or authenticated rather than to what it asked for, which anyone could provoke for everyone. RFC 6585
 * forbids it outright for 428, 429, 431 and 511.
 */
const unstorableStatuses: ReadonlySet<number> = new Set([
  206, 304, 401, 406, 407, 408, 411, 412, 413, 415, 416, 417, 421, 425, 426, 428, 429, 431, 505, 511,
]);

/** Statuses whose rules for caches are known and obeyed here, as must-understand demands (RFC 9111 §5.2.2.3). */
const understoodStatuses: ReadonlySet<number> = new Set([
  200, 203, 204, 300, 301, 302, 303, 307, 308, 403, 404, 405, 410, 414, 451, 500, 501, 502, 503, 504,
]);

/**
 * Decides whether a shared cache may store a response to a request as the client sent it (RFC 9111 §3). Stricter than
 * the law in three points: a response with Set-Cookie is stored with an explicit lifetime only, or where the origin
 * exempts that field by `no-cache="set-cookie"` or `private="set-cookie"`; an error that fields of the request may have
 * provoked is not stored; nor is a response that could never be reused, for want of both lifetime and validator.
 *
 * Also to be asked about a freshened response: a 304 may bring a `no-store` or `private`.
 */
export function decideStoring({ request, response, policy }: StoringInput): StoringDecision {
  const control = readCacheControl(response.fields, policy);
  const reason =
    refusalByRequest(request, control, policy) ??
    refusalByResponse(response, control) ??
    refusalByCookie(response, control, policy) ??
    (mayBeProvoked(request.fields, response.status) ? 'provoked' : undefined) ??
    (isEverReusable(response, policy, control) ? undefined : 'no-freshness');
  return reason === undefined ? { kind: 'store' } : { kind: 'refuse', reason };
}

/** Whether a response is for those alone who have sent the same Authorization (RFC 9111 §3.5). */
export function isForAuthorized(request: Fields, response: Fields, policy: ControlPolicy): boolean {
  return hasField(request, 'authorization') && !mayStoreAuthorized(readCacheControl(response, policy));
}

/** Whether a response is for the client alone that has asked for it (RFC 9111 §3.5, §5.2.2.7). */
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

/** A lifetime that the origin has not thought of, or that is nothing, is no reason to give one user's cookie to another. */
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

/** Whether there is a request that a stored response could answer, be it after validation or stale (RFC 9111 §3, §4). */
function isEverReusable(response: DatedResponse, policy: FreshnessPolicy, control: CacheControl): boolean {
  const { lifetimeMs, source } = freshnessLifetime(response, policy, control);
  if (source === 'none' && !mayGuess(response.status, control)) return false;
  if (conditionalFields(response).length > 0) return true;
  if (control.noCache === true) return false;
  if ((control.staleWhileRevalidate ?? 0) > 0 || (control.staleIfError ?? 0) > 0) return mayServeStale(control);
  return source === 'none' ? response.status === 200 && policy.rangeReuseSeconds > 0 : lifetimeMs > 0;
}

/**
 * Never kept, besides the fields of the connection: about this exchange, not about the representation; those of a trace
 * (W3C Trace Context) too. Set-Cookie goes where the operator has it stripped.
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
 * What is stored of a response's fields (RFC 9111 §3.1): all but those of the connection, those that `no-cache="…"` and
 * `private="…"` list, those of proxies, and Set-Cookie by policy. A Date is added where there is none, as a recipient
 * with a clock must (RFC 9110 §6.6.1); `responseAt` is when the head arrived, in epoch milliseconds.
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
 * The fields of a response that are for the client alone to which it came, and not stored for others: those that
 * `no-cache="…"` and `private="…"` list, and Set-Cookie by policy (RFC 9111 §5.2.2.4, §5.2.2.7). `controlling` are the
 * fields that say so: its own, or those that it was merged into.
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

/** Refusals that tell of nothing but the target, which is in the cache key: what is not there, is gone, or too long. */
const refusalsOfTarget: ReadonlySet<number> = new Set([404, 410, 414, 451]);

/** Origins with tight limits take some 4 KiB of fields; what is larger may be what they refuse. */
const MAX_PLAIN_BYTES = 4096;

/** What a field value may hold without being suspect: visible characters, spaces and tabs. */
const plainValue = /^[\t\x20-\x7e]*$/;

/** Request fields that no key holds and for which an origin may refuse a request for anything. */
const suspectFields: ReadonlySet<string> = new Set([
  'authorization',
  'content-encoding',
  'content-type',
  'max-forwards',
]);

/** Beginnings of the names by which clouds are asked for more than a file, and refuse it where it makes no sense. */
const suspectFamilies = ['x-amz-', 'x-goog-', 'x-ms-'];

/** Request fields by which origins tell who may have something, or from which page, and refuse it to others. */
const fieldsOfAsker: ReadonlySet<string> = new Set(['cookie', 'origin', 'referer']);

/** The members of a negotiation field, from which an origin may find that it has nothing to offer (RFC 9110 §12.5). */
const negotiationForms: Readonly<Record<string, RegExp>> = {
  accept: memberForm('\\*|[\\w!#$&^.+*-]+/[\\w!#$&^.+*-]+'),
  'accept-charset': memberForm('[\\w*.:+-]+'),
  'accept-encoding': memberForm('[\\w*.+-]+'),
  'accept-language': memberForm('[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*|\\*'),
};

/**
 * Whether an error may be due to fields of the request rather than to its target: to their size, their characters, to one that
 * is out of place, or that makes no sense; or, where it is the client's (4xx) and not about the target alone, to who asks. It is
 * then not to be stored, for whoever asks plainly would get it too. `request` are the fields that the origin was sent, without
 * what the operator adds.
 */
function mayBeProvoked(request: Fields, status: number): boolean {
  if (status < 400) return false;
  const isAboutAsker = status < 500 && !refusalsOfTarget.has(status);
  let bytes = 0;
  for (const [name, value] of request) {
    bytes += name.length + value.length + 4;
    if (isSuspect(name, value) || (isAboutAsker && fieldsOfAsker.has(name))) return true;
  }
  return bytes > MAX_PLAIN_BYTES;
}

function isSuspect(name: string, value: string): boolean {
  if (suspectFields.has(name) || !plainValue.test(value)) return true;
  if (suspectFamilies.some((family) => name.startsWith(family))) return true;
  const form = negotiationForms[name];
  return form !== undefined && !value.split(',').every((member) => form.test(member));
}

/** A member of a list: nothing, or what is asked for and its parameters. */
function memberForm(wanted: string): RegExp {
  return new RegExp(`^[ \\t]*(?:(?:${wanted})(?:[ \\t]*;[ \\t]*[\\w-]+=(?:[\\w.+/-]+|"[^"\\\\]*"))*[ \\t]*)?$`);
}
