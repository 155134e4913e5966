/** Whether a stored response answers a request without asking the origin (RFC 9111 §4). */

import type { Fields } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import {
  type CacheControl,
  parseCacheControl,
  parseRequestDirectives,
  type RequestDirectives,
} from './cache-control.ts';
import { currentAgeMs, type FreshnessPolicy, freshnessLifetime, mayServeStale } from './freshness.ts';

/** A request, and the stored response that was selected for it. */
export interface ReuseInput {
  readonly requestFields: Fields;
  /** Whether the request has a Range that will be obeyed. */
  readonly hasRange: boolean;
  readonly stored: StoredResponse;
  /** Epoch milliseconds. */
  readonly now: number;
  readonly policy: FreshnessPolicy;
}

/** Why the origin must be asked: the lifetime is over, the request demands it, or the response does. */
export type ValidationReason = 'stale' | 'request' | 'no-cache';

/** `ttlMs` is what is left of the lifetime in milliseconds; negative once it is over. */
export type ReuseDecision =
  | { readonly kind: 'fresh'; readonly ttlMs: number }
  /** Past its lifetime, but the client takes it so (max-stale) and the origin does not forbid it. */
  | { readonly kind: 'stale'; readonly ttlMs: number }
  | {
      readonly kind: 'validate';
      readonly reason: ValidationReason;
      readonly ttlMs: number;
      /** Whether it may be served all the same when the origin cannot be asked (RFC 9111 §4.2.4). */
      readonly mayServeStale: boolean;
    };

/**
 * Decides on the reuse of a stored response whose key and variant match the request (RFC 9111 §4): by its freshness,
 * the request's directives (§5.2.1) and the response's (§5.2.2). A response to which nobody gives any lifetime counts
 * as fresh for Range requests up to an age of `rangeReuseSeconds`, so that a player that seeks does not fetch it once
 * per seek.
 */
export function decideReuse({ requestFields, hasRange, stored, now, policy }: ReuseInput): ReuseDecision {
  const control = parseCacheControl(stored.fields);
  const request = parseRequestDirectives(requestFields);
  const freshness = freshnessLifetime(stored, policy, control);
  const lifetimeMs = hasRange && freshness.source === 'none' ? policy.rangeReuseSeconds * 1000 : freshness.lifetimeMs;
  const ageMs = currentAgeMs(stored, now);
  const ttlMs = lifetimeMs - ageMs;
  const reason = reasonToValidate(control, request, ageMs, ttlMs);
  if (reason === undefined) return { kind: ttlMs > 0 ? 'fresh' : 'stale', ttlMs };
  return { kind: 'validate', reason, ttlMs, mayServeStale: mayServeStale(control) && !request.noCache };
}

function reasonToValidate(
  control: CacheControl,
  request: RequestDirectives,
  ageMs: number,
  ttlMs: number,
): ValidationReason | undefined {
  if (isForbidden(control)) return 'no-cache';
  if (request.noCache) return 'request';
  // At the very age, too: a reload (max-age=0) within the millisecond of the exchange wants to be asked.
  if (request.maxAge !== undefined && ageMs >= request.maxAge * 1000) return 'request';
  if (ttlMs > 0) return request.minFresh !== undefined && ttlMs < request.minFresh * 1000 ? 'request' : undefined;
  return mayServeStale(control) && acceptsStale(request, -ttlMs) ? undefined : 'stale';
}

/** no-cache, or what a 304 brought since the response was stored. */
function isForbidden(control: CacheControl): boolean {
  return control.noCache === true || control.private === true || (control.noStore && !control.mustUnderstand);
}

/** RFC 9111 §5.2.1.2. A client that asks for a rest of lifetime as well wants no stale response. */
function acceptsStale(request: RequestDirectives, staleMs: number): boolean {
  if (request.maxStale === undefined || request.minFresh !== undefined) return false;
  return request.maxStale === 'any' || staleMs <= request.maxStale * 1000;
}
