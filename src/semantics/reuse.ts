/** Whether a stored response answers a request without asking the origin (RFC 9111 §4). */

import type { Fields } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import {
  type CacheControl,
  type RequestDirectives,
  type RequestPolicy,
  readCacheControl,
  readRequestDirectives,
} from './cache-control.ts';
import { currentAgeMs, type FreshnessPolicy, freshnessLifetime } from './freshness.ts';
import { decideStaleness, mayServeStale, type Staleness, type StalePolicy } from './staleness.ts';

/** What the operator decided about the reuse of stored responses. */
export type ReusePolicy = FreshnessPolicy & StalePolicy & RequestPolicy;

/** A request, and the stored response that was selected for it. */
export interface ReuseInput {
  readonly requestFields: Fields;
  /** Whether the request has a Range that will be obeyed. */
  readonly hasRange: boolean;
  readonly stored: StoredResponse;
  /** Epoch milliseconds. */
  readonly now: number;
  readonly policy: ReusePolicy;
}

/** Why the origin must be asked: the lifetime is over, the request demands it, or the response does. */
export type ValidationReason = 'stale' | 'request' | 'no-cache';

/** `ttlMs` is what is left of the lifetime in milliseconds; negative once it is over. */
export type ReuseDecision =
  | { readonly kind: 'fresh'; readonly ttlMs: number }
  /**
   * Past its lifetime, and the origin does not forbid it: because the client takes it so (max-stale), or because it is
   * validated meanwhile (`isValidated`, RFC 5861 §3).
   */
  | { readonly kind: 'stale'; readonly ttlMs: number; readonly isValidated: boolean }
  | {
      readonly kind: 'validate';
      readonly reason: ValidationReason;
      readonly ttlMs: number;
      /** Until when it may be served all the same if the origin fails, in epoch milliseconds; 0 for never (RFC 9111 §4.2.4). */
      readonly serveStaleUntil: number;
    };

/**
 * Decides on the reuse of a stored response whose key and variant match the request (RFC 9111 §4): by its freshness,
 * the request's directives (§5.2.1) and the response's (§5.2.2). A response to which nobody gives any lifetime counts
 * as fresh for Range requests up to an age of `rangeReuseSeconds`, so that a player that seeks does not fetch it once
 * per seek.
 */
export function decideReuse({ requestFields, hasRange, stored, now, policy }: ReuseInput): ReuseDecision {
  const control = readCacheControl(stored.fields, policy);
  const request = readRequestDirectives(requestFields, policy);
  const freshness = freshnessLifetime(stored, policy, control);
  const lifetimeMs = hasRange && freshness.source === 'none' ? policy.rangeReuseSeconds * 1000 : freshness.lifetimeMs;
  const ageMs = currentAgeMs(stored, now);
  const ttlMs = lifetimeMs - ageMs;
  const staleness = decideStaleness(control, request, policy);
  const reason = isForbidden(control) ? 'no-cache' : demandOf(request, control, ageMs, ttlMs);
  const mayFallBack = mayServeStale(control) && !request.noCache && stored.isInvalid !== true;
  const serveStaleUntil = mayFallBack ? now + ttlMs + staleness.ifErrorMs : 0;
  if (reason !== undefined) return { kind: 'validate', reason, ttlMs, serveStaleUntil };
  if (stored.isInvalid === true) return { kind: 'validate', reason: 'stale', ttlMs, serveStaleUntil };
  if (ttlMs > 0) return { kind: 'fresh', ttlMs };
  const stale = acceptStale(control, request, staleness, -ttlMs);
  return stale === undefined
    ? { kind: 'validate', reason: 'stale', ttlMs, serveStaleUntil }
    : { kind: 'stale', ttlMs, ...stale };
}

/** Whether the request wants the origin to be asked about a response that could be used. */
function demandOf(
  request: RequestDirectives,
  control: CacheControl,
  ageMs: number,
  ttlMs: number,
): 'request' | undefined {
  if (request.noCache) return 'request';
  if (ttlMs > 0 && request.minFresh !== undefined && ttlMs < request.minFresh * 1000) return 'request';
  if (request.maxAge === undefined) return undefined;
  // A reload of what does not change while it is fresh brings nothing (RFC 8246 §2).
  if (control.immutable && ttlMs > 0) return undefined;
  // At the very age, too: a reload (max-age=0) within the millisecond of the exchange wants to be asked.
  return ageMs >= request.maxAge * 1000 ? 'request' : undefined;
}

/** no-cache, or what a 304 brought since the response was stored. */
function isForbidden(control: CacheControl): boolean {
  return control.noCache === true || control.private === true || (control.noStore && !control.mustUnderstand);
}

/** On what terms a stale response is used, if it is. A client that asks for a rest of lifetime wants no stale one. */
function acceptStale(
  control: CacheControl,
  request: RequestDirectives,
  { whileRevalidateMs }: Staleness,
  staleMs: number,
): { readonly isValidated: boolean } | undefined {
  if (request.minFresh !== undefined) return undefined;
  if (staleMs < whileRevalidateMs) return { isValidated: true };
  return mayServeStale(control) && isTaken(request, staleMs) ? { isValidated: false } : undefined;
}

/** RFC 9111 §5.2.1.2. */
function isTaken({ maxStale }: RequestDirectives, staleMs: number): boolean {
  return maxStale !== undefined && (maxStale === 'any' || staleMs <= maxStale * 1000);
}
