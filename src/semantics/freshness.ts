/**
 * How long a stored response is fresh, and how old it is (RFC 9111 §4.2); and how long past its lifetime it may be served stale
 * (RFC 9111 §4.2.4, RFC 5861).
 */

import { onceForEach } from '../http/collections.ts';
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

/** Lifetimes in seconds by status, such as `404`, or by class of status, such as `5xx`; a status counts more. */
type TtlByStatus = Readonly<Record<string, number>>;

/** What the operator decided about the lifetimes of responses. */
export interface FreshnessPolicy extends ControlPolicy {
  /** For those below 400 to which the origin gives no explicit lifetime; 0 leaves it to the heuristic. */
  readonly defaultTtlSeconds: number;
  /** For those of certain statuses to which the origin gives no explicit lifetime; errors among them. */
  readonly defaultTtlByStatus: TtlByStatus;
  /** In place of what the origin says. */
  readonly overrideTtlByStatus: TtlByStatus;
  /** The age up to which Range requests reuse those that have no lifetime at all, not even a heuristic one. */
  readonly rangeReuseSeconds: number;
}

/** Where a lifetime comes from. `none`: nobody gives one. */
export type FreshnessSource = 'override' | 's-maxage' | 'max-age' | 'expires' | 'default' | 'heuristic' | 'none';

/** A lifetime in milliseconds, 0 where the source is `none`. */
export interface Freshness {
  readonly lifetimeMs: number;
  readonly source: FreshnessSource;
}

/** What of a stored response tells its lifetime. */
export type DatedResponse = Pick<StoredResponse, 'status' | 'fields' | 'responseAt'>;

/** What of a stored response tells its age. */
type AgingResponse = Pick<StoredResponse, 'fields' | 'requestAt' | 'responseAt'>;

/** The heuristic's share of the time since the last modification, and the most that it gives. */
const heuristicFraction = 0.1;
const maxHeuristicMs = 24 * 60 * 60 * 1000;

/** Statuses that may be stored without an explicit lifetime (RFC 9110 §15.1); 206 is no response of its own here. */
const heuristicStatuses: ReadonlySet<number> = new Set([200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501]);

/**
 * The lifetime of a response: the operator's override, else s-maxage, else max-age, else Expires − Date (RFC 9111
 * §4.2.1); a targeted field puts Expires aside (RFC 9213 §2.2). Where none of these is given, the operator's default if
 * there is one, else a tenth of Date − Last-Modified, 24 hours at most (§4.2.2), for statuses that are cacheable by
 * themselves or `public` responses. `defaultTtlSeconds` is not for errors: one that does not say how long it lasts is not
 * to outlive its cause.
 *
 * `control` is what the response says to caches, for callers that have it already.
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
  if (!mayGuess(status, control)) return none;
  if (defaultTtlSeconds > 0 && status < 400) return { lifetimeMs: defaultTtlSeconds * 1000, source: 'default' };
  const lifetimeMs = heuristicMs(response);
  return lifetimeMs === undefined ? none : { lifetimeMs, source: 'heuristic' };
}

/** The classes of statuses by their first digit (RFC 9110 §15). */
const classes = ['', '1xx', '2xx', '3xx', '4xx', '5xx'];

/** What is said of a status by itself, or else of its class; in seconds. */
function ttlOfStatus(ttls: TtlByStatus, status: number): number | undefined {
  return ttls[status] ?? ttls[classes[Math.floor(status / 100)] ?? ''];
}

/** Whether the lifetime is somebody's word about this response, the origin's or the operator's, and no guess. */
export function isStated(source: FreshnessSource): boolean {
  return isExplicit(source) || source === 'override';
}

/** Whether the lifetime is the origin's own word. */
export function isExplicit(source: FreshnessSource): boolean {
  return source === 's-maxage' || source === 'max-age' || source === 'expires';
}

/** The response field that a lifetime was read from, in lower case; undefined where it is the operator's or nobody's word. */
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

/** Whether a response without an explicit lifetime may be given one by heuristics (RFC 9111 §4.2.2). */
export function mayGuess(status: number, control: CacheControl): boolean {
  return heuristicStatuses.has(status) || control.public;
}

/** Of several Expires lines the earliest counts; one that is no date, such as `0`, is in the past (RFC 9111 §5.3). */
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

/** When the origin generated the response: its Date, or its arrival where it has no valid one (RFC 9110 §6.6.1). */
function originDate(response: Pick<StoredResponse, 'fields' | 'responseAt'>): number {
  const date = fieldValue(response.fields, 'date');
  return parseDate(date, response.responseAt) ?? response.responseAt;
}

/** A date in any case, as caches are to read it although its grammar is case-sensitive (RFC 9111 §4.2). */
function parseDate(text: string | undefined, now: number): number | undefined {
  if (text === undefined) return undefined;
  return parseHttpDate(text, now) ?? parseHttpDate(inUsualCase(text), now);
}

function inUsualCase(date: string): string {
  const capitalised = date.toLowerCase().replace(/\b[a-z]/g, (letter) => letter.toUpperCase());
  return capitalised.replace(/Gmt$/, 'GMT');
}

/** What an age is the sum of, in milliseconds, each as RFC 9111 §4.2.3 names it. */
export interface AgeTerms {
  /** The Age field as received. */
  readonly ageFieldMs: number;
  /** From the request to the response. */
  readonly responseDelayMs: number;
  /** From Date to the response. */
  readonly apparentAgeMs: number;
  /** Since the response. */
  readonly residentMs: number;
  /** The greater of apparent age and Age field with response delay, and the resident time. */
  readonly ageMs: number;
}

/**
 * How long ago the origin generated or validated a stored response (RFC 9111 §4.2.3). A clock that was set back makes
 * nothing younger than it was on arrival.
 */
export function ageTerms(stored: AgingResponse, now: number): AgeTerms {
  const { ageFieldMs, responseDelayMs, apparentAgeMs } = arrivalTerms(stored);
  const residentMs = Math.max(0, now - stored.responseAt);
  const ageMs = Math.max(apparentAgeMs, ageFieldMs + responseDelayMs) + residentMs;
  return { ageFieldMs, responseDelayMs, apparentAgeMs, residentMs, ageMs };
}

/** The sum of `ageTerms`, in milliseconds. */
export function currentAgeMs(stored: AgingResponse, now: number): number {
  return ageTerms(stored, now).ageMs;
}

/** How old a response was when it arrived. Once for each: reading a date takes longer than all else of a plan. */
const arrivalTerms = onceForEach((stored: AgingResponse) => {
  const ageFieldMs = ageFieldSeconds(stored) * 1000;
  const responseDelayMs = Math.max(0, stored.responseAt - stored.requestAt);
  // Date counts whole seconds: less than one is no age, or a lifetime of one second would be half gone on arrival.
  const apparentAgeMs = Math.floor(Math.max(0, stored.responseAt - originDate(stored)) / 1000) * 1000;
  return { ageFieldMs, responseDelayMs, apparentAgeMs };
});

/** The value of the Age field for a stored response that is sent now, in whole seconds (RFC 9111 §5.1). */
export function ageSeconds(stored: AgingResponse, now: number): number {
  return Math.floor(currentAgeMs(stored, now) / 1000);
}

/** The Age field as received: the first of several counts, an invalid one does not (RFC 9111 §5.1). */
function ageFieldSeconds(stored: AgingResponse): number {
  const age = fieldValue(stored.fields, 'age');
  return parseDeltaSeconds(trimWhitespace(age?.split(',', 1)[0] ?? '')) ?? 0;
}

/** What the operator decided about stale responses, in seconds past their lifetime. */
export interface StalePolicy {
  /** For responses that do not say how long they may be served while they are validated; 0 for not at all. */
  readonly staleWhileRevalidateSeconds: number;
  /** For responses that do not say how long they may be served when the origin fails; 0 for not at all. */
  readonly staleIfErrorSeconds: number;
}

/** Milliseconds past the lifetime; 0 for not at all. */
export interface Staleness {
  /** While it is validated in the background (RFC 5861 §3). */
  readonly whileRevalidateMs: number;
  /** When the origin fails (RFC 5861 §4). */
  readonly ifErrorMs: number;
}

const never: Staleness = { whileRevalidateMs: 0, ifErrorMs: 0 };

/** A directive of a response that forbids to serve it stale. */
export type StaleBan = 'must-revalidate' | 'proxy-revalidate' | 's-maxage' | 'no-cache' | 'private' | 'no-store';

/** The first directive that forbids to serve the response stale (RFC 9111 §4.2.4, §5.2.2.10); undefined where none does. */
export function staleBan(control: CacheControl): StaleBan | undefined {
  if (control.mustRevalidate) return 'must-revalidate';
  if (control.proxyRevalidate) return 'proxy-revalidate';
  if (control.sMaxage !== undefined) return 's-maxage';
  if (control.noCache === true) return 'no-cache';
  if (control.private === true) return 'private';
  return control.noStore ? 'no-store' : undefined;
}

/** Whether the origin leaves it open to serve the response stale. */
export function mayServeStale(control: CacheControl): boolean {
  return staleBan(control) === undefined;
}

/**
 * How long a response may be served stale: as long as it says itself, else as the operator does; when the origin fails
 * also as long as the request says (RFC 5861 §4: the directive of a request is for that request alone). Never where the
 * origin forbids it, or where the request has no-cache.
 */
export function decideStaleness(control: CacheControl, request: RequestDirectives, policy: StalePolicy): Staleness {
  if (!mayServeStale(control) || request.noCache) return never;
  const whileRevalidate = control.staleWhileRevalidate ?? policy.staleWhileRevalidateSeconds;
  const ifError = Math.max(control.staleIfError ?? policy.staleIfErrorSeconds, request.staleIfError ?? 0);
  return { whileRevalidateMs: whileRevalidate * 1000, ifErrorMs: ifError * 1000 };
}

/** The statuses by which an origin says that it fails (RFC 5861 §4). */
const failures: ReadonlySet<number> = new Set([500, 502, 503, 504]);

/** Whether a response to a validation may be put aside for a stale one (RFC 9111 §4.3.3, RFC 5861 §4). */
export function isOriginFailure(status: number): boolean {
  return failures.has(status);
}
