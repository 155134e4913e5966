/** Decides whether a stored response answers a request without asking the origin (RFC 9111 §4). */

import { memoizeByObject } from '../http/collections.ts';
import type { Fields } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import {
  type CacheControl,
  type RequestDirectives,
  type RequestPolicy,
  readCacheControl,
  readRequestDirectives,
} from './cache-control.ts';
import {
  type AgeTerms,
  ageTerms,
  decideStaleness,
  type Freshness,
  type FreshnessPolicy,
  freshnessLifetime,
  mayServeStale,
  type StaleBan,
  type Staleness,
  type StalePolicy,
  staleBan,
} from './freshness.ts';
import { permitsSharing } from './identity.ts';

/** The operator's settings for the reuse of stored responses. */
export type ReusePolicy = FreshnessPolicy & StalePolicy & RequestPolicy;

/** A request, and the stored response that was selected for it. */
export interface ReuseInput {
  readonly requestFields: Fields;
  /** Whether the request has a Range that will be obeyed; read only where the response has no lifetime. */
  readonly hasRange: boolean;
  readonly stored: StoredResponse;
  /** Epoch milliseconds. */
  readonly now: number;
  readonly policy: ReusePolicy;
}

/** Why the origin must be asked: the lifetime is over, the request demands it, or the response demands it. */
export type ValidationReason = 'stale' | 'request' | 'no-cache';

/** `ttlMs` is the remaining lifetime in milliseconds; negative once it is over. */
export type ReuseDecision =
  | { readonly kind: 'fresh'; readonly ttlMs: number }
  /**
   * Past its lifetime, but usable, and not forbidden by the origin: the client accepts it (max-stale), or it is validated in
   * the background (`isValidated`, RFC 5861 §3).
   */
  | { readonly kind: 'stale'; readonly ttlMs: number; readonly isValidated: boolean }
  | {
      readonly kind: 'validate';
      readonly reason: ValidationReason;
      readonly ttlMs: number;
      /** Until when it may be served stale if the origin fails, in epoch milliseconds; 0 for never (RFC 9111 §4.2.4). */
      readonly serveStaleUntil: number;
    };

/** The terms that decide about a reuse. */
export interface ReuseTerms {
  /** The directives of the response. */
  readonly control: CacheControl;
  /** The directives of the request. */
  readonly request: RequestDirectives;
  readonly freshness: Freshness;
  /** The lifetime that counts for this request: that of the response, or `rangeReuseSeconds`. */
  readonly lifetimeMs: number;
  readonly age: AgeTerms;
  /** The lifetime minus the age, or less where the response was expired before that; negative once it is over. */
  readonly ttlMs: number;
  /** The response directive that requires a validation before each reuse, if there is one. */
  readonly ban: 'no-cache' | 'private' | 'no-store' | undefined;
  /** The request directive that requires asking the origin although the response could be used, if there is one. */
  readonly demand: 'no-cache' | 'min-fresh' | 'max-age' | undefined;
  readonly staleness: Staleness;
  /** What forbids serving it stale when the origin fails: a directive, the request's no-cache, or that it is known to be outdated. */
  readonly staleBan: StaleBan | 'request' | 'invalid' | undefined;
}

/**
 * Returns the terms for reusing a stored response. A response without any lifetime counts as fresh for Range requests up to an
 * age of `rangeReuseSeconds`, so that a player that seeks does not fetch it once per seek.
 */
export function reuseTerms(input: ReuseInput): ReuseTerms {
  const { requestFields, stored, now, policy } = input;
  const { control, freshness } = statedTerms(stored, policy);
  const request = readRequestDirectives(requestFields, policy);
  const lifetimeMs =
    freshness.source === 'none' && input.hasRange ? policy.rangeReuseSeconds * 1000 : freshness.lifetimeMs;
  const age = ageTerms(stored, now);
  const ttlMs = Math.min(lifetimeMs - age.ageMs, (stored.expiredAt ?? Number.POSITIVE_INFINITY) - now);
  return {
    control,
    request,
    freshness,
    lifetimeMs,
    age,
    ttlMs,
    ban: banOf(control),
    demand: demandOf(request, control, age.ageMs, ttlMs),
    staleness: decideStaleness(control, request, policy),
    staleBan: staleBan(control) ?? (request.noCache ? 'request' : stored.isInvalid === true ? 'invalid' : undefined),
  };
}

/** The terms that depend on the response and the policy alone. */
interface StatedTerms {
  readonly policy: FreshnessPolicy;
  readonly control: CacheControl;
  readonly freshness: Freshness;
  readonly isForAll: boolean;
}

/** The terms of each response under the policy that was used last. The requests of a route share one policy object. */
const lastStated = memoizeByObject((_stored: StoredResponse): { terms: StatedTerms | undefined } => ({
  terms: undefined,
}));

function statedTerms(stored: StoredResponse, policy: FreshnessPolicy): StatedTerms {
  const last = lastStated(stored);
  if (last.terms?.policy === policy) return last.terms;
  const control = readCacheControl(stored.fields, policy);
  const freshness = freshnessLifetime(stored, policy, control);
  last.terms = { policy, control, freshness, isForAll: permitsSharing(stored, policy, control, freshness) };
  return last.terms;
}

/** Checks as `permitsSharing`; computed once for each stored response and policy. */
export function isForAll(stored: StoredResponse, policy: FreshnessPolicy): boolean {
  return statedTerms(stored, policy).isForAll;
}

/**
 * Decides whether a stored response whose key and variant match a request may be reused (RFC 9111 §4): by its freshness, the
 * request's directives (§5.2.1) and the response's (§5.2.2).
 */
export function decideReuse(input: ReuseInput): ReuseDecision {
  const { stored, now } = input;
  const terms = reuseTerms(input);
  const { ttlMs } = terms;
  const serveStaleUntil = terms.staleBan === undefined ? now + ttlMs + terms.staleness.ifErrorMs : 0;
  const reason = validationReason(terms, stored);
  if (reason !== undefined) return { kind: 'validate', reason, ttlMs, serveStaleUntil };
  if (ttlMs > 0) return { kind: 'fresh', ttlMs };
  const stale = acceptStale(terms, -ttlMs);
  return stale === undefined
    ? { kind: 'validate', reason: 'stale', ttlMs, serveStaleUntil }
    : { kind: 'stale', ttlMs, ...stale };
}

/** Why the origin must be asked, however fresh the response is. */
function validationReason(
  { ban, demand }: ReuseTerms,
  { isInvalid, expiredAt }: StoredResponse,
): ValidationReason | undefined {
  if (ban !== undefined) return 'no-cache';
  if (demand !== undefined) return 'request';
  return isInvalid === true || expiredAt !== undefined ? 'stale' : undefined;
}

function demandOf(
  request: RequestDirectives,
  control: CacheControl,
  ageMs: number,
  ttlMs: number,
): ReuseTerms['demand'] {
  if (request.noCache) return 'no-cache';
  if (ttlMs > 0 && request.minFresh !== undefined && ttlMs < request.minFresh * 1000) return 'min-fresh';
  if (request.maxAge === undefined) return undefined;
  // Reloading a response that does not change while it is fresh is useless (RFC 8246 §2).
  if (control.immutable && ttlMs > 0) return undefined;
  // An equal age counts too: a reload (max-age=0) within the millisecond of the exchange must reach the origin.
  return ageMs >= request.maxAge * 1000 ? 'max-age' : undefined;
}

/** no-cache, or a directive that a 304 brought after the response was stored. */
function banOf(control: CacheControl): ReuseTerms['ban'] {
  if (control.noCache === true) return 'no-cache';
  if (control.private === true) return 'private';
  return control.noStore && !control.mustUnderstand ? 'no-store' : undefined;
}

/** How a stale response is used; undefined where it is not. A client that sends min-fresh accepts no stale response. */
function acceptStale(
  { control, request, staleness }: ReuseTerms,
  staleMs: number,
): { readonly isValidated: boolean } | undefined {
  if (request.minFresh !== undefined) return undefined;
  if (staleMs < staleness.whileRevalidateMs) return { isValidated: true };
  return mayServeStale(control) && isWithinMaxStale(request, staleMs) ? { isValidated: false } : undefined;
}

/** RFC 9111 §5.2.1.2. */
function isWithinMaxStale({ maxStale }: RequestDirectives, staleMs: number): boolean {
  return maxStale !== undefined && (maxStale === 'any' || staleMs <= maxStale * 1000);
}
