/**
 * The directives of Cache-Control in responses and requests; of several readings, the most restrictive (RFC 9111 §4.2.1, §5.2). Also
 * the fields that carry directives for this cache alone: targeted fields (RFC 9213), and their predecessor Surrogate-Control (W3C
 * Note "Edge Architecture Specification", 4 August 2001). A malformed directive never permits more than a sound one.
 */

import { type Fields, fieldLines, hasField, listMembers, trimWhitespace } from '../http/fields.ts';
import { parseDictionary, type StructuredValue } from './structured-fields.ts';

/** `true`: the whole response. A list: these fields of it, in lower case, sorted. `false`: not said. */
type Restriction = boolean | readonly string[];

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

/** The directives of the one field that decides about a response. */
interface TargetedDirectives {
  /** Its name, in lower case. */
  readonly field: string;
  /** To be read as those of Cache-Control are, with the same meaning and precedence (RFC 9213 §2.2). */
  readonly directives: readonly CacheDirective[];
}

/** What a directive says besides its name (RFC 9111 §5.2.2, RFC 5861, RFC 8246). */
type Argument = 'none' | 'seconds' | 'field names';

/** The directives that count here, with the types that RFC 9213 §2.1 infers from them. Others are extensions, ignored. */
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
 * The directives of the first of these fields (names in lower case, in order of preference) that is present, valid and
 * not empty (RFC 9213 §2.2). Where there is one, the caller must ignore Cache-Control and Expires, even if no directive
 * of the field is known here; where there is none, undefined, those two count. Never throws.
 */
export function selectTargetedDirectives(response: Fields, names: readonly string[]): TargetedDirectives | undefined {
  for (const field of names) {
    // Few responses have one, and this is asked of each that is reused.
    if (!hasField(response, field)) continue;
    const lines = fieldLines(response, field);
    const directives =
      field === surrogateControlField ? parseSurrogateControl(lines, [deviceToken]) : parseTargetedField(lines);
    if (directives !== undefined) return { field, directives };
  }
  return undefined;
}

/** The known directives of a targeted field; undefined when it is empty or no dictionary (RFC 9213 §2.1). */
function parseTargetedField(lines: readonly string[]): readonly CacheDirective[] | undefined {
  const members = parseDictionary(lines);
  if (members === undefined || members.size === 0) return undefined;
  return [...members].map(toDirective).filter((directive) => directive !== undefined);
}

/**
 * A value of a type that the directive does not have is not used (RFC 9213 §2.1), nor guessed at: `max-age="60"` is no
 * lifetime of 60 seconds. The directive is then malformed, as it would be in Cache-Control, so that it restricts (a
 * lifetime that cannot be read is none, RFC 9111 §4.2.1) and permits nothing. False is not such a value: it says that
 * the directive is not there.
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

/** The name by which an origin aims a directive at this proxy: `max-age=60;rangeway`. */
export const deviceToken = 'rangeway';

/** What the request field Surrogate-Capability says of this proxy; to be appended to what others have said there. */
export const surrogateCapability = `${deviceToken}="Surrogate/1.0"`;

/**
 * The directives that count here. `stale-…` are not the Note's, but CDNs read them from this field (RFC 5861). Not among
 * them: `content`, which asks for processing, not caching; and `no-store-remote`, which is for surrogates far from the
 * origin, such as those of a CDN, while this proxy is the one in front of it.
 */
const known: ReadonlySet<string> = new Set(['max-age', 'no-store', 'stale-if-error', 'stale-while-revalidate']);

/** A lifetime, and for how long after it the response may be served all the same. */
const extendedLifetime = /^([0-9]+)\+([0-9]+)$/;

interface Member {
  readonly directives: readonly CacheDirective[];
  /** The device tokens that it is aimed at; none where it is for all. */
  readonly targets: readonly string[];
}

/**
 * The directives of the field for the device with these tokens, as those of Cache-Control: the ones aimed at it
 * supersede those for all, as the most specific apply, and those aimed at others do not count. The second number of
 * `max-age=60+30` is `stale-while-revalidate`. Letter case counts in tokens only; what is malformed restricts, and
 * permits nothing. Undefined when nothing is said of storing or lifetime: the field does not apply then. Never throws.
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
      .filter(({ name }) => known.has(name))
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
  /** Whether the text around the name was no directive by the grammar. Such a directive may restrict, never permit. */
  readonly malformed: boolean;
}

/** Larger numbers of seconds count as this one (RFC 9111 §1.2.2). */
export const maxDeltaSeconds = 2 ** 31;

const directiveForm = /^([!#$%&'*+\-.^_`|~\w]+)(?:=(?:([!#$%&'*+\-.^_`|~\w]+)|"((?:[^"\\]|\\.)*)"))?$/;
const words = /[!#$%&'*+\-.^_`|~\w]+/g;

/**
 * The directives of the lines of a Cache-Control field, in order (RFC 9111 §5.2). Each line is read by itself, so that
 * an open quote cannot hide what the next line says. Every word of a malformed member counts as a malformed directive:
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
 * The members of one line, trimmed: split at commas outside quoted-strings. A quote that is never closed, or does not
 * follow `=`, quotes nothing.
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

/** A number of seconds (RFC 9111 §1.2.2), capped; undefined for anything else, signs and fractions included. */
export function parseDeltaSeconds(text: string | undefined): number | undefined {
  if (text === undefined || !/^[0-9]+$/.test(text)) return undefined;
  return Math.min(Number(text), maxDeltaSeconds);
}
