/** What Cache-Control says in responses and requests; of several readings, the most restrictive (RFC 9111 §4.2.1). */

import { type Fields, fieldLines, hasField, listMembers } from '../http/fields.ts';
import { type CacheDirective, maxDeltaSeconds, parseCacheDirectives, parseDeltaSeconds } from './cache-directives.ts';
import { selectTargetedDirectives } from './targeted-fields.ts';

/** `true`: the whole response. A list: these fields of it, in lower case, sorted. `false`: not said. */
export type Restriction = boolean | readonly string[];

/** The directives of a response that a shared cache obeys (RFC 9111 §5.2.2, RFC 5861, RFC 8246). */
export interface CacheControl {
  /** The field that they were read from, in lower case: `cache-control`, or a targeted one (RFC 9213 §2.2). */
  readonly field: string;
  /** Seconds; 0 when malformed. */
  readonly maxAge: number | undefined;
  /** Seconds; 0 when malformed. */
  readonly sMaxage: number | undefined;
  readonly noStore: boolean;
  readonly noCache: Restriction;
  readonly private: Restriction;
  readonly mustRevalidate: boolean;
  readonly proxyRevalidate: boolean;
  readonly public: boolean;
  readonly mustUnderstand: boolean;
  /** Seconds past its lifetime during which it may be served while it is validated (RFC 5861 §3); 0 when malformed. */
  readonly staleWhileRevalidate: number | undefined;
  /** Seconds past its lifetime during which it may be served when the origin fails (RFC 5861 §4); 0 when malformed. */
  readonly staleIfError: number | undefined;
  /** Whether it does not change while it is fresh (RFC 8246 §2). */
  readonly immutable: boolean;
}

/** The directives of a request that a cache obeys (RFC 9111 §5.2.1). */
export interface RequestDirectives {
  readonly noStore: boolean;
  readonly noCache: boolean;
  readonly onlyIfCached: boolean;
  /** Seconds; 0 when malformed. */
  readonly maxAge: number | undefined;
  /** Seconds; more than any lifetime when malformed. */
  readonly minFresh: number | undefined;
  /** Seconds past its lifetime at which the client still takes a response; undefined when malformed. */
  readonly maxStale: number | 'any' | undefined;
  /** Seconds past its lifetime at which the client takes a response when the origin fails (RFC 5861 §4); 0 when malformed. */
  readonly staleIfError: number | undefined;
}

const noDirectives: RequestDirectives = {
  noStore: false,
  noCache: false,
  onlyIfCached: false,
  maxAge: undefined,
  minFresh: undefined,
  maxStale: undefined,
  staleIfError: undefined,
};

/**
 * Without these a stored response cannot be reused rightly: a list that takes one of them away restricts the whole
 * response.
 */
const indispensable: ReadonlySet<string> = new Set([
  'age',
  'cache-control',
  'content-encoding',
  'content-type',
  'date',
  'expires',
  'vary',
]);

/** Which fields of a response are read for directives. */
export interface ControlPolicy {
  /** The names of targeted fields in lower case, in order of preference (RFC 9213 §2.2). */
  readonly targetedFields: readonly string[];
}

/** What was read last, and of what: the rules ask for the directives of one response many times in a row. */
let last:
  | { readonly response: Fields; readonly targetedFields: readonly string[]; readonly control: CacheControl }
  | undefined;

/**
 * Reads the directives that a response has for this cache: those of the first targeted field that applies, and then of
 * no other field (RFC 9213 §2.2), or those of Cache-Control.
 */
export function readCacheControl(response: Fields, { targetedFields }: ControlPolicy): CacheControl {
  if (last?.response === response && last.targetedFields === targetedFields) return last.control;
  const targeted = selectTargetedDirectives(response, targetedFields);
  const control = targeted === undefined ? parseCacheControl(response) : interpret(targeted.field, targeted.directives);
  last = { response, targetedFields, control };
  return control;
}

/**
 * Reads the Cache-Control of a response (RFC 9111 §5.2.2). Never throws; the order of directives and lines means
 * nothing. What restricts holds even when malformed; what permits (`public`, `must-understand`, `immutable`,
 * `stale-…`) must be written exactly.
 */
export function parseCacheControl(response: Fields): CacheControl {
  return interpret('cache-control', parseCacheDirectives(fieldLines(response, 'cache-control')));
}

function interpret(field: string, directives: readonly CacheDirective[]): CacheControl {
  return {
    field,
    maxAge: shortest(directives, 'max-age'),
    sMaxage: shortest(directives, 's-maxage'),
    noStore: isNamed(directives, 'no-store'),
    noCache: restriction(directives, 'no-cache'),
    private: restriction(directives, 'private'),
    mustRevalidate: isNamed(directives, 'must-revalidate'),
    proxyRevalidate: isNamed(directives, 'proxy-revalidate'),
    public: isPermitted(directives, 'public'),
    mustUnderstand: isPermitted(directives, 'must-understand'),
    staleWhileRevalidate: shortest(directives, 'stale-while-revalidate'),
    staleIfError: shortest(directives, 'stale-if-error'),
    immutable: isPermitted(directives, 'immutable'),
  };
}

/** Whether clients are listened to. */
export interface RequestPolicy {
  readonly requestDirectives: 'obey' | 'ignore';
}

/** Reads what a request demands of this cache: nothing, where the operator has its demands ignored. */
export function readRequestDirectives(request: Fields, { requestDirectives }: RequestPolicy): RequestDirectives {
  return requestDirectives === 'obey' && hasDirectives(request) ? parseRequestDirectives(request) : noDirectives;
}

/** Whether a request has a field that `readRequestDirectives` reads. */
export function hasDirectives(request: Fields): boolean {
  return request.some(([name]) => name === 'cache-control' || name === 'pragma');
}

/**
 * Reads what a request demands of caches (RFC 9111 §5.2.1). `Pragma: no-cache` counts where there is no Cache-Control
 * (§5.4), for the sake of old clients. Never throws.
 */
export function parseRequestDirectives(request: Fields): RequestDirectives {
  const lines = fieldLines(request, 'cache-control');
  if (lines.length === 0) {
    return hasField(request, 'pragma') ? { ...noDirectives, noCache: isPragmaNoCache(request) } : noDirectives;
  }
  const directives = parseCacheDirectives(lines);
  return {
    noStore: isNamed(directives, 'no-store'),
    noCache: isNamed(directives, 'no-cache'),
    onlyIfCached: isNamed(directives, 'only-if-cached'),
    maxAge: shortest(directives, 'max-age'),
    minFresh: longest(directives, 'min-fresh'),
    maxStale: leastStale(directives),
    staleIfError: shortest(directives, 'stale-if-error'),
  };
}

function isPragmaNoCache(request: Fields): boolean {
  return fieldLines(request, 'pragma').some((line) =>
    listMembers(line).some((member) => member.toLowerCase() === 'no-cache'),
  );
}

function isNamed(directives: readonly CacheDirective[], name: string): boolean {
  return directives.some((directive) => directive.name === name);
}

function isPermitted(directives: readonly CacheDirective[], name: string): boolean {
  return directives.some(
    (directive) => directive.name === name && !directive.malformed && directive.argument === undefined,
  );
}

function seconds(directives: readonly CacheDirective[], name: string, whenMalformed: number): number[] {
  return directives
    .filter((directive) => directive.name === name)
    .map((directive) => parseDeltaSeconds(directive.argument) ?? whenMalformed);
}

function shortest(directives: readonly CacheDirective[], name: string): number | undefined {
  const values = seconds(directives, name, 0);
  return values.length === 0 ? undefined : values.reduce((a, b) => Math.min(a, b));
}

function longest(directives: readonly CacheDirective[], name: string): number | undefined {
  const values = seconds(directives, name, maxDeltaSeconds);
  return values.length === 0 ? undefined : values.reduce((a, b) => Math.max(a, b));
}

/** `max-stale` permits, so a malformed one permits nothing, and of several the strictest holds (RFC 9111 §5.2.1.2). */
function leastStale(directives: readonly CacheDirective[]): number | 'any' | undefined {
  const permits = directives.filter((directive) => directive.name === 'max-stale');
  if (permits.length === 0) return undefined;
  let least: number | 'any' = 'any';
  for (const { argument, malformed } of permits) {
    if (argument === undefined && !malformed) continue;
    const limit = parseDeltaSeconds(argument);
    if (limit === undefined) return undefined;
    least = least === 'any' ? limit : Math.min(least, limit);
  }
  return least;
}

/**
 * `no-cache` and `private`, with or without field names (RFC 9111 §5.2.2.4, §5.2.2.7). Only a quoted list of field
 * names narrows them: the token form, which senders are told not to use, is far more often a mistake (`private=true`).
 */
function restriction(directives: readonly CacheDirective[], name: string): Restriction {
  const names = new Set<string>();
  for (const directive of directives) {
    if (directive.name !== name) continue;
    const listed = directive.quoted ? listMembers(directive.argument?.toLowerCase()) : [];
    if (listed.length === 0 || !listed.every(isNarrowing)) return true;
    for (const field of listed) names.add(field);
  }
  return names.size === 0 ? false : [...names].sort();
}

function isNarrowing(fieldName: string): boolean {
  return /^[!#$%&'*+\-.^_`|~\w]+$/.test(fieldName) && !indispensable.has(fieldName);
}
