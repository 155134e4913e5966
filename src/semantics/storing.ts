/** Which responses may be stored, and what of their fields (RFC 9111 §3). */

import { type Field, type Fields, hasField } from '../http/fields.ts';
import { type CacheControl, parseCacheControl, parseRequestDirectives } from './cache-control.ts';
import { withoutConnectionFields } from './end-to-end.ts';
import { type DatedResponse, type FreshnessPolicy, freshnessLifetime, isExplicit, mayGuess } from './freshness.ts';
import { formatHttpDate } from './http-date.ts';
import { conditionalFields } from './revalidation.ts';
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
  | 'no-freshness';

/** Whether a response may be stored. */
export type StoringDecision = { readonly kind: 'store' } | { readonly kind: 'refuse'; readonly reason: StoringRefusal };

/** An exchange whose response might be stored. */
export interface StoringInput {
  readonly request: { readonly method: string; readonly fields: Fields };
  readonly response: DatedResponse;
  readonly policy: FreshnessPolicy;
}

/**
 * Responses that are never stored: parts and confirmations of others (206, 304, 416), and answers to the way one
 * request was written, sent or authenticated rather than to what it asked for, which anyone could provoke for everyone.
 * RFC 6585 forbids it outright for 428, 429, 431 and 511.
 */
const unstorableStatuses: ReadonlySet<number> = new Set([
  206, 304, 400, 401, 407, 408, 411, 412, 413, 415, 416, 417, 421, 425, 426, 428, 429, 431, 505, 511,
]);

/** Statuses whose rules for caches are known and obeyed here, as must-understand demands (RFC 9111 §5.2.2.3). */
const understoodStatuses: ReadonlySet<number> = new Set([
  200, 203, 204, 300, 301, 302, 303, 307, 308, 403, 404, 405, 410, 414, 451, 500, 501, 502, 503, 504,
]);

/**
 * Decides whether a shared cache may store a response to a request as the client sent it (RFC 9111 §3). Stricter than
 * the law in three points: a response with Set-Cookie is not stored, unless the origin exempts that field by
 * `no-cache="set-cookie"` or `private="set-cookie"`; an error is stored with explicit freshness only; and a response
 * that could never be reused, for want of both lifetime and validator, is not stored.
 *
 * Also to be asked about a freshened response: a 304 may bring a `no-store` or `private`.
 */
export function decideStoring({ request, response, policy }: StoringInput): StoringDecision {
  const control = parseCacheControl(response.fields);
  const reason =
    refusalByRequest(request, control) ??
    refusalByResponse(response, control) ??
    (isEverReusable(response, policy, control) ? undefined : 'no-freshness');
  return reason === undefined ? { kind: 'store' } : { kind: 'refuse', reason };
}

function refusalByRequest(request: StoringInput['request'], control: CacheControl): StoringRefusal | undefined {
  if (request.method !== 'GET') return 'method';
  if (parseRequestDirectives(request.fields).noStore) return 'no-store';
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
  if (varyNames(fields).includes('*')) return 'vary-star';
  if (hasField(fields, 'set-cookie') && !restrictedFields(control).has('set-cookie')) return 'set-cookie';
  return undefined;
}

/** Whether there is a request that a stored response could answer, be it after validation (RFC 9111 §3, §4). */
function isEverReusable(response: DatedResponse, policy: FreshnessPolicy, control: CacheControl): boolean {
  const { lifetimeMs, source } = freshnessLifetime(response, policy, control);
  if (!isExplicit(source) && !mayGuess(response.status, control)) return false;
  if (conditionalFields(response).length > 0) return true;
  if (control.noCache === true) return false;
  return source === 'none' ? response.status === 200 && policy.rangeReuseSeconds > 0 : lifetimeMs > 0;
}

/**
 * Never kept, besides the fields of the connection: about this exchange or one part of the body, not about the
 * representation.
 */
const exchangeFields: ReadonlySet<string> = new Set([
  'content-range',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'set-cookie',
]);

/**
 * What is stored of a response's fields (RFC 9111 §3.1): all but those of the connection, those that `no-cache="…"` and
 * `private="…"` list, those of proxies, Set-Cookie, and Content-Range, which means nothing outside 206 and 416
 * (RFC 9110 §14.4). A Date is added where there is none, as a recipient with a clock must (RFC 9110 §6.6.1);
 * `responseAt` is when the head arrived, in epoch milliseconds.
 */
export function storableFields(fields: Fields, responseAt: number): Fields {
  const restricted = restrictedFields(parseCacheControl(fields));
  const kept: Field[] = withoutConnectionFields(fields).filter(
    ([name]) => !exchangeFields.has(name) && !restricted.has(name),
  );
  if (!hasField(kept, 'date')) kept.push(['date', formatHttpDate(responseAt)]);
  return kept;
}

function restrictedFields(control: CacheControl): ReadonlySet<string> {
  const named = [control.noCache, control.private].filter((restriction) => typeof restriction !== 'boolean');
  return new Set(named.flat());
}
