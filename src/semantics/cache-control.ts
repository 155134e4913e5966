/**
 * Reads the directives of Cache-Control in responses and requests (RFC 9111 §5.2). The most restrictive of several readings
 * counts (§4.2.1); a malformed directive never permits more than a valid one. Also reads the fields with directives for this
 * cache alone: targeted fields (RFC 9213), and their predecessor Surrogate-Control (W3C Note "Edge Architecture Specification",
 * 4 August 2001).
 */

import { type Fields, fieldLines, hasField, listMembers, trimWhitespace } from '../http/fields.ts';
import { parseDictionary, type StructuredValue } from './structured-fields.ts';

/** `true`: applies to the whole response. A list: to these fields of it, in lower case, sorted. `false`: absent. */
type Restriction = boolean | readonly string[];

/** The directives of a response that a shared cache obeys (RFC 9111 §5.2.2, RFC 5861, RFC 8246). */
export interface CacheControl {
  /** The field that the directives were read from, in lower case: `cache-control`, or a targeted field (RFC 9213 §2.2). */
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
  /** Seconds past its lifetime during which a response may be served while it is validated (RFC 5861 §3); 0 when malformed. */
  readonly staleWhileRevalidate: number | undefined;
  /** Seconds past its lifetime during which a response may be served when the origin fails (RFC 5861 §4); 0 when malformed. */
  readonly staleIfError: number | undefined;
  /** Whether the response does not change while it is fresh (RFC 8246 §2). */
  readonly immutable: boolean;
}

/** The directives of a request that a cache obeys (RFC 9111 §5.2.1). */
export interface RequestDirectives {
  readonly noStore: boolean;
  readonly noCache: boolean;
  readonly onlyIfCached: boolean;
  /** Seconds; 0 when malformed. */
  readonly maxAge: number | undefined;
  /** Seconds; longer than any lifetime when malformed. */
  readonly minFresh: number | undefined;
  /** Seconds past its lifetime up to which the client accepts a response; `any` for no limit; undefined when absent or malformed. */
  readonly maxStale: number | 'any' | undefined;
  /** Seconds past its lifetime up to which the client accepts a response when the origin fails (RFC 5861 §4); 0 when malformed. */
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

/** Fields without which a stored response cannot be reused correctly. A list that names one of them restricts the whole response. */
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

/** The result of the last read. The rules ask for the directives of one response many times in a row. */
let last:
  | { readonly response: Fields; readonly targetedFields: readonly string[]; readonly control: CacheControl }
  | undefined;

/**
 * Reads the directives of a response for this cache: those of the first targeted field that applies, and of no other field
 * (RFC 9213 §2.2); else those of Cache-Control.
 */
export function readCacheControl(response: Fields, { targetedFields }: ControlPolicy): CacheControl {
  if (last?.response === response && last.targetedFields === targetedFields) return last.control;
  const targeted = selectTargetedDirectives(response, targetedFields);
  const control = targeted === undefined ? parseCacheControl(response) : interpret(targeted.field, targeted.directives);
  last = { response, targetedFields, control };
  return control;
}

/**
 * Parses the Cache-Control of a response (RFC 9111 §5.2.2). Never throws. The order of directives and lines does not matter.
 * Restrictive directives hold even when malformed; permissive ones (`public`, `must-understand`, `immutable`, `stale-…`) must
 * be well-formed.
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

/** Whether the directives of requests are obeyed. */
export interface RequestPolicy {
  readonly requestDirectives: 'obey' | 'ignore';
}

/** Reads the directives of a request for this cache; none where the operator has them ignored. */
export function readRequestDirectives(request: Fields, { requestDirectives }: RequestPolicy): RequestDirectives {
  return requestDirectives === 'obey' && hasDirectives(request) ? parseRequestDirectives(request) : noDirectives;
}

/** Checks whether a request has a field that `readRequestDirectives` reads. */
export function hasDirectives(request: Fields): boolean {
  return request.some(([name]) => name === 'cache-control' || name === 'pragma');
}

/**
 * Parses the directives of a request (RFC 9111 §5.2.1). `Pragma: no-cache` counts where there is no Cache-Control (§5.4), for
 * old clients. Never throws.
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

/** `max-stale` permits, so a malformed one permits nothing, and the strictest of several counts (RFC 9111 §5.2.1.2). */
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
 * `no-cache` and `private`, with or without field names (RFC 9111 §5.2.2.4, §5.2.2.7). Only a quoted list of field names limits
 * them to those fields: the token form, which senders should not use, is far more often a mistake (`private=true`).
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

/** The directives of the targeted field that applies to a response. */
interface TargetedDirectives {
  /** The name of the field, in lower case. */
  readonly field: string;
  /** Interpreted as those of Cache-Control, with the same meaning and precedence (RFC 9213 §2.2). */
  readonly directives: readonly CacheDirective[];
}

/** The argument type of a directive (RFC 9111 §5.2.2, RFC 5861, RFC 8246). */
type Argument = 'none' | 'seconds' | 'field names';

/** The supported directives, with the types that RFC 9213 §2.1 infers from them. Others are extensions and ignored. */
const argumentOf: ReadonlyMap<string, Argument> = new Map([
  ['immutable', 'none'],
  ['max-age', 'seconds'],
  ['must-revalidate', 'none'],
  ['must-understand', 'none'],
  ['no-cache', 'field names'],
  ['no-store', 'none'],
  ['private', 'field names'],
  ['proxy-revalidate', 'none'],
  ['public', 'none'],
  ['s-maxage', 'seconds'],
  ['stale-if-error', 'seconds'],
  ['stale-while-revalidate', 'seconds'],
]);

/**
 * Returns the directives of the first of these fields (names in lower case, in order of preference) that is present, valid and
 * not empty (RFC 9213 §2.2). The caller must then ignore Cache-Control and Expires, even if none of the field's directives is
 * supported. Undefined where there is no such field: Cache-Control and Expires count then. Never throws.
 */
export function selectTargetedDirectives(response: Fields, names: readonly string[]): TargetedDirectives | undefined {
  for (const field of names) {
    // Few responses have such a field, and this runs for each response that is reused.
    if (!hasField(response, field)) continue;
    const lines = fieldLines(response, field);
    const directives =
      field === surrogateControlField ? parseSurrogateControl(lines, [deviceToken]) : parseTargetedField(lines);
    if (directives !== undefined) return { field, directives };
  }
  return undefined;
}

/** The supported directives of a targeted field; undefined when it is empty or not a dictionary (RFC 9213 §2.1). */
function parseTargetedField(lines: readonly string[]): readonly CacheDirective[] | undefined {
  const members = parseDictionary(lines);
  if (members === undefined || members.size === 0) return undefined;
  return [...members].map(toDirective).filter((directive) => directive !== undefined);
}

/**
 * Converts a member of a targeted field; undefined for an unsupported directive and for the value false, which means that the
 * directive is absent. A value of the wrong type is not used (RFC 9213 §2.1): `max-age="60"` is not a lifetime of 60 seconds.
 * The directive is then malformed, as it would be in Cache-Control: it restricts (an unreadable lifetime is none,
 * RFC 9111 §4.2.1) and permits nothing.
 */
function toDirective([name, value]: readonly [name: string, value: StructuredValue]): CacheDirective | undefined {
  const argument = argumentOf.get(name);
  if (argument === undefined || (value.kind === 'boolean' && !value.value)) return undefined;
  const plain = { name, argument: undefined, quoted: false, malformed: false };
  if (argument === 'seconds') {
    if (value.kind === 'integer' && value.value >= 0) return { ...plain, argument: String(value.value) };
  } else {
    if (value.kind === 'boolean') return plain;
    if (argument === 'field names' && value.kind === 'string') return { ...plain, argument: value.value, quoted: true };
  }
  return { ...plain, malformed: true };
}

/** The name of the field. It is read where the operator lists it among the targeted fields. */
export const surrogateControlField = 'surrogate-control';

/** The device token by which an origin addresses a directive to this proxy: `max-age=60;rangeway`. */
export const deviceToken = 'rangeway';

/** The member of the request field Surrogate-Capability for this proxy; to be appended to the members of others. */
export const surrogateCapability = `${deviceToken}="Surrogate/1.0"`;

/**
 * The supported directives. `stale-…` are not in the Note, but CDNs read them from this field (RFC 5861). Not supported:
 * `content`, which asks for processing, not caching; and `no-store-remote`, which is for surrogates far from the origin, such
 * as those of a CDN, while this proxy is next to it.
 */
const supported: ReadonlySet<string> = new Set(['max-age', 'no-store', 'stale-if-error', 'stale-while-revalidate']);

/** A lifetime, and how long after it the response may still be served. */
const extendedLifetime = /^([0-9]+)\+([0-9]+)$/;

interface Member {
  readonly directives: readonly CacheDirective[];
  /** The device tokens that it is addressed to; empty where it is for all. */
  readonly targets: readonly string[];
}

/**
 * Parses Surrogate-Control for the device with these tokens; returns directives as those of Cache-Control. Directives for this
 * device supersede those for all; those for other devices are ignored. The second number of `max-age=60+30` is
 * `stale-while-revalidate`. Only tokens are case-sensitive. A malformed directive restricts and permits nothing. Undefined
 * without max-age and no-store: the field does not apply then. Never throws.
 */
export function parseSurrogateControl(
  lines: readonly string[],
  deviceTokens: readonly string[],
): readonly CacheDirective[] | undefined {
  const members = lines
    .flatMap(splitMembers)
    .map(parseSurrogateMember)
    .filter((member) => member.directives.length > 0);
  const aimed = members.filter(({ targets }) => targets.some((target) => deviceTokens.includes(target)));
  const own = aimed.length > 0 ? aimed : members.filter(({ targets }) => targets.length === 0);
  const directives = own.flatMap((member) => member.directives);
  return directives.some(({ name }) => name === 'max-age' || name === 'no-store') ? directives : undefined;
}

/** One member, such as `max-age=60;rangeway`. */
function parseSurrogateMember(member: string): Member {
  const [text = '', ...targets] = member.split(';').map(trimWhitespace);
  return {
    directives: parseCacheDirectives([text])
      .filter(({ name }) => supported.has(name))
      .flatMap(withoutExtension),
    targets: targets.filter((target) => target !== ''),
  };
}

function withoutExtension(directive: CacheDirective): CacheDirective[] {
  const [, lifetime, extension] = extendedLifetime.exec(directive.argument ?? '') ?? [];
  if (directive.name !== 'max-age' || lifetime === undefined || extension === undefined) return [directive];
  return [
    { ...directive, argument: lifetime },
    { ...directive, name: 'stale-while-revalidate', argument: extension },
  ];
}

/** One directive as written. */
export interface CacheDirective {
  /** Lower-case. */
  readonly name: string;
  /** The argument without its quotes, or undefined when there is none. */
  readonly argument: string | undefined;
  /** Whether the argument was a quoted-string. */
  readonly quoted: boolean;
  /** Whether the text around the name does not match the grammar of a directive. Such a directive may restrict, never permit. */
  readonly malformed: boolean;
}

/** Larger numbers of seconds count as this one (RFC 9111 §1.2.2). */
export const maxDeltaSeconds = 2 ** 31;

const directiveForm = /^([!#$%&'*+\-.^_`|~\w]+)(?:=(?:([!#$%&'*+\-.^_`|~\w]+)|"((?:[^"\\]|\\.)*)"))?$/;
const words = /[!#$%&'*+\-.^_`|~\w]+/g;

/**
 * Parses the directives of the lines of a Cache-Control field, in order (RFC 9111 §5.2). Each line is read by itself, so that
 * an open quote cannot hide the next line. Every word of a malformed member counts as a malformed directive:
 * `max-age=60; private` restricts twice.
 */
export function parseCacheDirectives(lines: readonly string[]): CacheDirective[] {
  const directives: CacheDirective[] = [];
  for (const line of lines) {
    for (const member of splitMembers(line)) directives.push(...parseMember(member));
  }
  return directives;
}

/**
 * Splits a line into members at commas outside quoted-strings, trimmed. A quote that is never closed, or does not follow `=`,
 * has no meaning.
 */
export function splitMembers(line: string): string[] {
  const members: string[] = [];
  let start = 0;
  let quotesClose = true;
  for (let at = 0; at < line.length; at++) {
    if (line[at] === ',') {
      members.push(trimWhitespace(line.slice(start, at)));
      start = at + 1;
    } else if (quotesClose && line[at] === '=' && line[at + 1] === '"') {
      const end = endOfQuoted(line, at + 1);
      quotesClose = end !== undefined;
      at = end ?? at;
    }
  }
  members.push(trimWhitespace(line.slice(start)));
  return members;
}

/** The index of the quote that closes the one at `open`. */
function endOfQuoted(line: string, open: number): number | undefined {
  for (let at = open + 1; at < line.length; at++) {
    if (line[at] === '\\') at++;
    else if (line[at] === '"') return at;
  }
  return undefined;
}

function parseMember(member: string): CacheDirective[] {
  const [, name, token, quoted] = directiveForm.exec(member) ?? [];
  if (name === undefined) return (member.match(words) ?? []).map(malformedDirective);
  const argument = token ?? quoted?.replace(/\\(.)/g, '$1');
  return [{ name: name.toLowerCase(), argument, quoted: quoted !== undefined, malformed: false }];
}

function malformedDirective(word: string): CacheDirective {
  return { name: word.toLowerCase(), argument: undefined, quoted: false, malformed: true };
}

/** Parses a number of seconds (RFC 9111 §1.2.2), capped; undefined for any other text, signs and fractions included. */
export function parseDeltaSeconds(text: string | undefined): number | undefined {
  if (text === undefined || !/^[0-9]+$/.test(text)) return undefined;
  return Math.min(Number(text), maxDeltaSeconds);
}
