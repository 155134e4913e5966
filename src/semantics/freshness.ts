/**
 * Computes how long a stored response is fresh and how old it is (RFC 9111 §4.2), and how long past its lifetime it may be
 * served stale (RFC 9111 §4.2.4, RFC 5861).
 */

import { memoizeByObject } from '../http/collections.ts';
import { fieldLines, fieldValue, trimWhitespace } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import {
  type CacheControl,
  type ControlPolicy,
  maxDeltaSeconds,
  parseDeltaSeconds,
  type RequestDirectives,
  readCacheControl,
} from './cache-control.ts';
import { parseHttpDate } from './http-date.ts';

/** Lifetimes in seconds by status (`404`) or by class of status (`5xx`); a status takes precedence over its class. */
type TtlByStatus = Readonly<Record<string, number>>;

/** The operator's settings for lifetimes. */
export interface FreshnessPolicy extends ControlPolicy {
  /** For responses below 400 without an explicit lifetime; 0 leaves it to the heuristic. */
  readonly defaultTtlSeconds: number;
  /** For responses of these statuses without an explicit lifetime, errors included. */
  readonly defaultTtlByStatus: TtlByStatus;
  /** Replaces the lifetime that the origin states. */
  readonly overrideTtlByStatus: TtlByStatus;
  /** Age up to which Range requests reuse a response without any lifetime, not even a heuristic one. */
  readonly rangeReuseSeconds: number;
}

/** Where a lifetime comes from. `none`: there is no lifetime. */
export type FreshnessSource = 'override' | 's-maxage' | 'max-age' | 'expires' | 'default' | 'heuristic' | 'none';

/** A lifetime in milliseconds, 0 where the source is `none`. */
export interface Freshness {
  readonly lifetimeMs: number;
  readonly source: FreshnessSource;
}

/** The parts of a stored response that determine its lifetime. */
export type DatedResponse = Pick<StoredResponse, 'status' | 'fields' | 'responseAt'>;

/** The parts of a stored response that determine its age. */
type AgingResponse = Pick<StoredResponse, 'fields' | 'requestAt' | 'responseAt'>;

/** The heuristic's share of the time since the last modification, and its maximum. */
const heuristicFraction = 0.1;
const maxHeuristicMs = 24 * 60 * 60 * 1000;

/** Statuses that may be stored without an explicit lifetime (RFC 9110 §15.1). 206 is not treated as a response of its own here. */
const heuristicStatuses: ReadonlySet<number> = new Set([200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501]);

/**
 * Returns the lifetime of a response: the operator's override, else s-maxage, else max-age, else Expires − Date
 * (RFC 9111 §4.2.1). A targeted field disables Expires (RFC 9213 §2.2). Without any of these: `defaultTtlByStatus`, else
 * `defaultTtlSeconds`, else a tenth of Date − Last-Modified, at most 24 hours (RFC 9111 §4.2.2). The last two apply only to
 * heuristically cacheable statuses and to `public` responses. `defaultTtlSeconds` does not apply to errors: an error without a
 * stated lifetime must not outlive its cause.
 *
 * `control` are the response's directives, for callers that have read them already.
 */
export function freshnessLifetime(
  response: DatedResponse,
  policy: Omit<FreshnessPolicy, 'rangeReuseSeconds'>,
  control: CacheControl = readCacheControl(response.fields, policy),
): Freshness {
  const override = ttlOfStatus(policy.overrideTtlByStatus, response.status);
  if (override !== undefined) return { lifetimeMs: override * 1000, source: 'override' };
  return explicitLifetime(response, control) ?? impliedLifetime(response, policy, control);
}

function explicitLifetime(response: DatedResponse, control: CacheControl): Freshness | undefined {
  if (control.sMaxage !== undefined) return { lifetimeMs: control.sMaxage * 1000, source: 's-maxage' };
  if (control.maxAge !== undefined) return { lifetimeMs: control.maxAge * 1000, source: 'max-age' };
  const expires = control.field === 'cache-control' ? fieldLines(response.fields, 'expires') : [];
  return expires.length === 0 ? undefined : { lifetimeMs: untilExpires(response, expires), source: 'expires' };
}

function impliedLifetime(
  response: DatedResponse,
  { defaultTtlSeconds, defaultTtlByStatus }: Pick<FreshnessPolicy, 'defaultTtlSeconds' | 'defaultTtlByStatus'>,
  control: CacheControl,
): Freshness {
  const { status } = response;
  const byStatus = ttlOfStatus(defaultTtlByStatus, status);
  if (byStatus !== undefined) return { lifetimeMs: byStatus * 1000, source: 'default' };
  const none: Freshness = { lifetimeMs: 0, source: 'none' };
  if (!mayUseHeuristic(status, control)) return none;
  if (defaultTtlSeconds > 0 && status < 400) return { lifetimeMs: defaultTtlSeconds * 1000, source: 'default' };
  const lifetimeMs = heuristicMs(response);
  return lifetimeMs === undefined ? none : { lifetimeMs, source: 'heuristic' };
}

/** Classes of statuses by their first digit (RFC 9110 §15). */
const classes = ['', '1xx', '2xx', '3xx', '4xx', '5xx'];

/** The entry of a status, else that of its class; in seconds. */
function ttlOfStatus(ttls: TtlByStatus, status: number): number | undefined {
  return ttls[status] ?? ttls[classes[Math.floor(status / 100)] ?? ''];
}

/** Checks whether the lifetime is stated, by the origin or by the operator's override, and not a default or a heuristic one. */
export function isStated(source: FreshnessSource): boolean {
  return isExplicit(source) || source === 'override';
}

/** Checks whether the origin stated the lifetime. */
export function isExplicit(source: FreshnessSource): boolean {
  return source === 's-maxage' || source === 'max-age' || source === 'expires';
}

/** Returns the response field that a lifetime was read from, in lower case; undefined where it is the operator's or there is none. */
export function lifetimeField(source: FreshnessSource, { field }: Pick<CacheControl, 'field'>): string | undefined {
  switch (source) {
    case 's-maxage':
    case 'max-age':
      return field;
    case 'expires':
      return 'expires';
    case 'heuristic':
      return 'last-modified';
    case 'override':
    case 'default':
    case 'none':
      return undefined;
  }
}

/** Checks whether a response without an explicit lifetime may be given a heuristic one (RFC 9111 §4.2.2). */
export function mayUseHeuristic(status: number, control: CacheControl): boolean {
  return heuristicStatuses.has(status) || control.public;
}

/** The earliest of several Expires lines counts. A line that is not a date, such as `0`, is in the past (RFC 9111 §5.3). */
function untilExpires(response: DatedResponse, lines: readonly string[]): number {
  const dateAt = originDate(response);
  const lifetimes = lines.map((line) => (parseDate(line, response.responseAt) ?? 0) - dateAt);
  return Math.max(0, Math.min(...lifetimes, maxDeltaSeconds * 1000));
}

function heuristicMs(response: DatedResponse): number | undefined {
  const lastModified = fieldValue(response.fields, 'last-modified');
  const modifiedAt = parseDate(lastModified, response.responseAt);
  if (modifiedAt === undefined) return undefined;
  return Math.min(Math.max(0, originDate(response) - modifiedAt) * heuristicFraction, maxHeuristicMs);
}

/** When the origin generated the response: its Date, or its arrival where it has no valid Date (RFC 9110 §6.6.1). */
function originDate(response: Pick<StoredResponse, 'fields' | 'responseAt'>): number {
  const date = fieldValue(response.fields, 'date');
  return parseDate(date, response.responseAt) ?? response.responseAt;
}

/** Parses a date in any letter case, as RFC 9111 §4.2 asks of caches although the grammar is case-sensitive. */
function parseDate(text: string | undefined, now: number): number | undefined {
  if (text === undefined) return undefined;
  return parseHttpDate(text, now) ?? parseHttpDate(inUsualCase(text), now);
}

function inUsualCase(date: string): string {
  const capitalised = date.toLowerCase().replace(/\b[a-z]/g, (letter) => letter.toUpperCase());
  return capitalised.replace(/Gmt$/, 'GMT');
}

/** The terms of an age, in milliseconds, named as in RFC 9111 §4.2.3. */
export interface AgeTerms {
  /** The Age field as received. */
  readonly ageFieldMs: number;
  /** From the request to the response. */
  readonly responseDelayMs: number;
  /** From Date to the response, in whole seconds. */
  readonly apparentAgeMs: number;
  /** Since the response. */
  readonly residentMs: number;
  /** The greater of the apparent age and the Age field plus the response delay; plus the resident time. */
  readonly ageMs: number;
}

/**
 * Returns the terms of a stored response's age: how long ago the origin generated or validated it (RFC 9111 §4.2.3). A clock
 * that was set back makes no response younger than on arrival. `now` is in epoch milliseconds.
 */
export function ageTerms(stored: AgingResponse, now: number): AgeTerms {
  const { ageFieldMs, responseDelayMs, apparentAgeMs } = arrivalTerms(stored);
  const residentMs = Math.max(0, now - stored.responseAt);
  const ageMs = Math.max(apparentAgeMs, ageFieldMs + responseDelayMs) + residentMs;
  return { ageFieldMs, responseDelayMs, apparentAgeMs, residentMs, ageMs };
}

/** Returns the age in milliseconds: `ageMs` of `ageTerms`. */
export function currentAgeMs(stored: AgingResponse, now: number): number {
  return ageTerms(stored, now).ageMs;
}

/** The age of a response on arrival. Computed once for each response: parsing a date costs more than the rest of a look-up. */
const arrivalTerms = memoizeByObject((stored: AgingResponse) => {
  const ageFieldMs = ageFieldSeconds(stored) * 1000;
  const responseDelayMs = Math.max(0, stored.responseAt - stored.requestAt);
  // Date has whole seconds, so less than one second is no age: a lifetime of one second would be half over on arrival.
  const apparentAgeMs = Math.floor(Math.max(0, stored.responseAt - originDate(stored)) / 1000) * 1000;
  return { ageFieldMs, responseDelayMs, apparentAgeMs };
});

/** Returns the value of Age for a stored response that is sent now, in whole seconds (RFC 9111 §5.1). */
export function ageSeconds(stored: AgingResponse, now: number): number {
  return Math.floor(currentAgeMs(stored, now) / 1000);
}

/** The Age field as received. The first of several values counts; an invalid one counts as 0 (RFC 9111 §5.1). */
function ageFieldSeconds(stored: AgingResponse): number {
  const age = fieldValue(stored.fields, 'age');
  return parseDeltaSeconds(trimWhitespace(age?.split(',', 1)[0] ?? '')) ?? 0;
}

/** The operator's settings for stale responses, in seconds past their lifetime. */
export interface StalePolicy {
  /** For responses that do not state how long they may be served while they are validated; 0 for not at all. */
  readonly staleWhileRevalidateSeconds: number;
  /** For responses that do not state how long they may be served when the origin fails; 0 for not at all. */
  readonly staleIfErrorSeconds: number;
}

/** How long a response may be served stale, in milliseconds past its lifetime; 0 for not at all. */
export interface Staleness {
  /** While it is validated in the background (RFC 5861 §3). */
  readonly whileRevalidateMs: number;
  /** When the origin fails (RFC 5861 §4). */
  readonly ifErrorMs: number;
}

const never: Staleness = { whileRevalidateMs: 0, ifErrorMs: 0 };

/** A response directive that forbids serving the response stale. */
export type StaleBan = 'must-revalidate' | 'proxy-revalidate' | 's-maxage' | 'no-cache' | 'private' | 'no-store';

/** Returns the first directive that forbids serving the response stale (RFC 9111 §4.2.4, §5.2.2.10); undefined where none does. */
export function staleBan(control: CacheControl): StaleBan | undefined {
  if (control.mustRevalidate) return 'must-revalidate';
  if (control.proxyRevalidate) return 'proxy-revalidate';
  if (control.sMaxage !== undefined) return 's-maxage';
  if (control.noCache === true) return 'no-cache';
  if (control.private === true) return 'private';
  return control.noStore ? 'no-store' : undefined;
}

/** Checks that no directive forbids serving the response stale. */
export function mayServeStale(control: CacheControl): boolean {
  return staleBan(control) === undefined;
}

/**
 * Decides how long a response may be served stale: as long as the response states, else as the operator sets. When the origin
 * fails, a longer stale-if-error of the request counts, for that request alone (RFC 5861 §4). Never where the origin forbids
 * it, or where the request has no-cache.
 */
export function decideStaleness(control: CacheControl, request: RequestDirectives, policy: StalePolicy): Staleness {
  if (!mayServeStale(control) || request.noCache) return never;
  const whileRevalidate = control.staleWhileRevalidate ?? policy.staleWhileRevalidateSeconds;
  const ifError = Math.max(control.staleIfError ?? policy.staleIfErrorSeconds, request.staleIfError ?? 0);
  return { whileRevalidateMs: whileRevalidate * 1000, ifErrorMs: ifError * 1000 };
}

/** Statuses that count as a failure of the origin (RFC 5861 §4). */
const failures: ReadonlySet<number> = new Set([500, 502, 503, 504]);

/**
 * Checks whether a response to a validation is an origin failure, so that a stale response may replace it (RFC 9111 §4.3.3,
 * RFC 5861 §4).
 */
export function isOriginFailure(status: number): boolean {
  return failures.has(status);
}
