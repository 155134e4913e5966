/**
 * Selects stored responses by request fields (RFC 9111 §4.1, RFC 9110 §12.5.5): by the fields that Vary names, in a normal form
 * of their values; by fields that a response depends on although its Vary omits them; and by fields and cookies that the
 * operator adds.
 */

import { ownText } from '../bytes/own-memory.ts';
import { memoizeByObject, memoizeByText } from '../http/collections.ts';
import { type Fields, fieldLines, fieldValue, hasField, listMembers, trimWhitespace } from '../http/fields.ts';
import type { NominatedField, StoredResponse } from '../http/stored-response.ts';
import { type Cookie, parseCookies } from './cookies.ts';
import { parseDateField } from './http-date.ts';

/** A field name (RFC 9110 §5.1). */
const fieldName = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;

/**
 * Returns the names in a response's Vary: lower case, sorted, each once; `*` stays `*`. A member that is not a field name
 * counts as `*`: what the origin meant is unknown, so the response may be for this request alone.
 */
export function varyNames(response: Fields): string[] {
  const names = fieldLines(response, 'vary').flatMap(listMembers);
  return [...new Set(names.map((name) => selectingName(name.toLowerCase())))].sort();
}

function selectingName(name: string): string {
  return fieldName.test(name) ? name : '*';
}

/**
 * Returns the request fields that a response's Vary names, sorted by name, with their values in this request: lines joined, in
 * the form of `normalValue`. The value of an absent field is null, which differs from an empty value. Empty when there is no
 * Vary. `more` are names, in lower case, that count as if Vary had them.
 */
export function nominatedFields(
  response: Fields,
  request: Fields,
  more: readonly string[] = [],
): readonly NominatedField[] {
  const names = [...new Set([...varyNames(response), ...more])].sort();
  return names.map((name) => [name, presentedValue(request, name)]);
}

/** Checks whether a request has the values that the stored response was selected by. `*` never matches. */
export function matchesNominated(nominated: readonly NominatedField[], request: Fields): boolean {
  return nominated.every((field) => isPresented(field, presentedValue(request, field[0])));
}

/** Returns the names of the nominated fields whose values differ in this request; `*` always differs. */
function differingFields(nominated: readonly NominatedField[], request: Fields): readonly string[] {
  const presented = presentedIn(request);
  return nominated.filter((field) => !isPresented(field, presented(field[0]))).map(([name]) => name);
}

function isPresented(field: NominatedField, presented: string | null): boolean {
  const [name, value] = field;
  // Stores of an earlier version contain members of Vary that are not field names.
  if (selectingName(name) === '*') return false;
  return value === presented || (value !== null && presented !== null && renormalized(field) === presented);
}

/**
 * A store outlives a version of the program: a stored value may be in an earlier normal form. Formed once, because a look-up compares
 * it with each value that differs.
 */
const renormalized = memoizeByObject(([name, value]: NominatedField) => normalValue(name, value ?? ''));

/** Returns the values of a request, each normalised once, however many stored responses are compared with it. */
const presentedIn = memoizeByObject((request: Fields) => {
  const known: Record<string, string | null> = Object.create(null);
  return (name: string): string | null => {
    known[name] ??= presentedValue(request, name);
    return known[name] ?? null;
  };
});

/** Returns the name of a variant in the store: equal only for equal nominated fields, empty when there are none. */
export function formatVariant(nominated: readonly NominatedField[]): string {
  return nominated.length === 0 ? '' : JSON.stringify(nominated);
}

function presentedValue(request: Fields, name: string): string | null {
  const value = fieldValue(request, name);
  return value === undefined ? null : normalValue(name, value);
}

/** The parts of a request that the operator selects by, as if every response had them in its Vary. */
export interface VariantPolicy {
  /** Names of request fields, in lower case. */
  readonly fields: readonly string[];
  /** Names of cookies; case-sensitive. */
  readonly cookies: readonly string[];
}

/** The parts of a stored response that its variant name is made of. */
type Variant = Pick<StoredResponse, 'nominated' | 'selected' | 'fragment' | 'identity'>;

/**
 * Returns the parts that the operator selects, with their values in this request: first each field as in `nominatedFields`,
 * then each cookie as `cookie:name` with all pairs of this name, or null where there is none. An absent cookie differs from an
 * empty one. `request` are the fields that the origin is sent for the whole representation. Undefined when the operator selects
 * nothing.
 */
export function selectedValues(request: Fields, policy: VariantPolicy): readonly NominatedField[] | undefined {
  if (policy.fields.length === 0 && policy.cookies.length === 0) return undefined;
  const cookies = policy.cookies.length === 0 ? [] : parseCookies(request);
  return [
    ...nominatedFields([], request, policy.fields),
    ...policy.cookies.toSorted().map((name): NominatedField => [`cookie:${name}`, presentedPairs(cookies, name)]),
  ];
}

/**
 * Checks whether a stored response is for a request: its Vary matches (RFC 9111 §4.1), and so do the parts that the operator
 * selects. A response that was stored under another selection never matches.
 */
export function matchesVariant(stored: Variant, request: Fields, policy: VariantPolicy): boolean {
  const presented = presentedIn(request);
  const isNominated = stored.nominated.every((field) => isPresented(field, presented(field[0])));
  return isNominated && isSame(stored.selected, selectedIn(request, policy));
}

/** As `selectedValues`, but only once for all stored responses that are compared with a request: it has one policy. */
function selectedIn(request: Fields, policy: VariantPolicy): ReturnType<typeof selectedValues> {
  if (policy.fields.length === 0 && policy.cookies.length === 0) return undefined;
  const last = lastSelected(request);
  if (last.policy !== policy) Object.assign(last, { policy, values: selectedValues(request, policy) });
  return last.values;
}

const lastSelected = memoizeByObject(
  (_request: Fields): { policy?: VariantPolicy; values?: ReturnType<typeof selectedValues> } => ({}),
);

/** The longest value that a response is selected by, in characters. */
const longestValue = 1024;

/**
 * Checks whether a response would be selected by a value that is longer than 1 KB: every further request for its URI would be
 * compared with it, and no two clients are likely to send it.
 */
export function hasLongSelection(response: Fields, request: Fields, policy: VariantPolicy): boolean {
  const names = [...varyNames(response), ...impliedVary(request, response)];
  const isLong = (value: string | null | undefined) => (value?.length ?? 0) > longestValue;
  return (
    names.some((name) => isLong(fieldValue(request, name))) ||
    selectedValues(request, policy)?.some(([, value]) => isLong(value)) === true
  );
}

/** Returns the names that keep a stored response from a request, as `selectedValues` writes them; empty where the response matches. */
export function variantDifferences(stored: Variant, request: Fields, policy: VariantPolicy): readonly string[] {
  const requested = selectedValues(request, policy);
  const selected = isSame(stored.selected, requested) ? [] : differingValues(stored.selected ?? [], requested ?? []);
  return [...new Set([...differingFields(stored.nominated, request), ...selected])];
}

/** The names whose values differ between the lists, or that are in one list only. */
function differingValues(a: readonly NominatedField[], b: readonly NominatedField[]): readonly string[] {
  const isIn = (list: readonly NominatedField[], [name, value]: NominatedField) =>
    list.some((other) => other[0] === name && other[1] === value);
  return [...a.filter((field) => !isIn(b, field)), ...b.filter((field) => !isIn(a, field))].map(([name]) => name);
}

/**
 * Compares two stored responses that match a request, for sorting (RFC 9111 §4.1): a response with Vary comes before one
 * without; otherwise the more recent Date comes first.
 */
export function comparePreference(a: StoredResponse, b: StoredResponse): number {
  const byVary = Number(hasField(b.fields, 'vary')) - Number(hasField(a.fields, 'vary'));
  return byVary === 0 ? dateOf(b) - dateOf(a) : byVary;
}

function dateOf({ fields, responseAt }: StoredResponse): number {
  return parseDateField(fields, 'date', responseAt) ?? responseAt;
}

/**
 * Returns the name of a variant in the store: equal only for equal variants, empty where nothing distinguishes variants. The
 * response for an anonymous client has the name of a response for all, so that each replaces the other.
 */
export function variantName({ nominated, selected, fragment, identity }: Variant): string {
  const digest = identity?.digest === '' ? undefined : identity?.digest;
  if (fragment !== undefined) return JSON.stringify({ nominated, selected, identity: digest, range: fragment.range });
  if (selected === undefined && digest === undefined) return formatVariant(nominated);
  return JSON.stringify({ nominated, selected, identity: digest });
}

/** A pair contains no `;`, so the joined text is unambiguous. */
function presentedPairs(cookies: readonly Cookie[], wanted: string): string | null {
  const pairs = cookies.filter(({ name }) => name === wanted).map(({ pair }) => pair);
  return pairs.length === 0 ? null : pairs.join('; ');
}

function isSame(stored: Variant['selected'], requested: Variant['selected']): boolean {
  return stored === requested || JSON.stringify(stored) === JSON.stringify(requested);
}

/**
 * Returns the request fields that this response depends on, as its own fields show: Origin where the response repeats it,
 * Accept-Encoding where the content is encoded (RFC 9110 §12.5.3), and Icy-MetaData where blocks of metadata stand between the audio.
 * They count as if Vary named them.
 */
export function impliedVary(request: Fields, response: Fields): readonly string[] {
  const encoding = fieldValue(response, 'content-encoding')?.toLowerCase() ?? 'identity';
  return [
    ...(encoding === 'identity' || encoding === '' ? [] : ['accept-encoding']),
    ...(hasField(response, 'icy-metaint') ? ['icy-metadata'] : []),
    ...(echoesOrigin(request, response) ? ['origin'] : []),
  ];
}

/** Response fields about the page that sent the request (Fetch §3.3.3). */
const echoFields: ReadonlySet<string> = new Set(['access-control-allow-origin', 'access-control-allow-credentials']);

/**
 * Checks whether a response repeats the Origin of its request in Access-Control-Allow-Origin. It then depends on Origin,
 * whether its Vary says so (Fetch §3.3.5) or not; many servers omit it.
 */
export function echoesOrigin(request: Fields, response: Fields): boolean {
  const origin = fieldValue(request, 'origin');
  return origin !== undefined && fieldValue(response, 'access-control-allow-origin') === origin;
}

/** Returns the fields without those about the requesting page, where the response repeats its Origin. */
export function withoutOriginEcho(request: Fields, response: Fields): Fields {
  return echoesOrigin(request, response) ? response.filter(([name]) => !echoFields.has(name)) : response;
}

/** Picks the fields about the requesting page where the response repeats its Origin; none otherwise. */
export function originEcho(request: Fields, response: Fields): Fields {
  return echoesOrigin(request, response) ? response.filter(([name]) => echoFields.has(name)) : [];
}

/** Fields that are not lists: a comma, and the white space around it, is part of the value. */
const indivisibleFields: ReadonlySet<string> = new Set(['cookie', 'referer', 'user-agent']);

/** Aliases of content codings (RFC 9110 §8.4.1.1, §8.4.1.3). */
const codingAliases: ReadonlyMap<string, string> = new Map([
  ['x-compress', 'compress'],
  ['x-gzip', 'gzip'],
]);

const noAliases: ReadonlyMap<string, string> = new Map();

/** A single lower-case name. */
const singleName = /^[a-z0-9*-]+$/;

/** In lower case: a language range, charset or coding, with an optional weight (RFC 9110 §12.4.2). */
const weightedName = /^([!#$%&'*+\-.^_`|~\w]+)(?:[ \t]*;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?$/;

const mediaType = /^[!#$%&'*+\-.^_`|~\w]+\/[!#$%&'*+\-.^_`|~\w]+$/;
const parameter = /^([!#$%&'*+\-.^_`|~\w]+)=([!#$%&'*+\-.^_`|~\w]+)$/;
const weight = /^(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$/;

/**
 * Returns the normal form of a value whose lines are already joined with commas; `name` is in lower case. Two values with the
 * same normal form mean the same by the definition of their field, so a response to one is a response to the other:
 *
 * - Accept-Language, Accept-Charset, Accept-Encoding: case, white space, empty members and repeated members do not count.
 *   Weights are compared as numbers. Order does not count, because only weights express preference (RFC 9110 §12.4.2,
 *   §12.5.2–4): the members are sorted as texts. An empty value stays empty: an empty Accept-Encoding differs from an absent
 *   one (§12.5.3).
 * - Accept: case (except in parameter values), white space and weights as above. The order stays, because origins choose by it
 *   (§12.5.1).
 * - Every other field: white space around the commas of a list is removed, outside quoted-strings (§5.6.1). This also applies
 *   to the four fields above where a value does not follow its grammar. In fields that are not lists, such as User-Agent,
 *   nothing is removed.
 *
 * Never throws. The normal form of a normal form is itself.
 */
export function normalValue(name: string, value: string): string {
  switch (name) {
    case 'accept-language':
    case 'accept-charset':
      return weightedList(value, noAliases) ?? withoutListSpace(value);
    case 'accept-encoding':
      return normalCodings(value);
    case 'accept':
      return mediaRanges(value) ?? withoutListSpace(value);
    default:
      return indivisibleFields.has(name) ? value : withoutListSpace(value);
  }
}

/** Browsers send few distinct values, so their forms are remembered. */
const normalCodings = memoizeByText(256, (value) =>
  ownText(weightedList(value, codingAliases) ?? withoutListSpace(value)),
);

function weightedList(value: string, aliases: ReadonlyMap<string, string>): string | undefined {
  if (singleName.test(value)) return aliases.get(value) ?? value;
  const members = new Set<string>();
  for (const member of listMembers(value.toLowerCase())) {
    const [, name, weightText] = weightedName.exec(member) ?? [];
    if (name === undefined) return undefined;
    const shortest = aliases.get(name) ?? name;
    members.add(weightText === undefined ? shortest : shortest + weightSuffix(weightText));
  }
  return [...members].sort().join(',');
}

/** The shortest form of a weight after a name; a weight of 1 is the default and is left out. */
function weightSuffix(text: string): string {
  const number = Number(text);
  return number === 1 ? '' : `;q=${number}`;
}

function mediaRanges(value: string): string | undefined {
  const ranges: string[] = [];
  for (const member of listMembers(value)) {
    const range = mediaRange(member);
    if (range === undefined) return undefined;
    ranges.push(range);
  }
  return ranges.join(',');
}

function mediaRange(member: string): string | undefined {
  const [type = '', ...parameters] = member.split(';').map(trimWhitespace);
  if (!mediaType.test(type)) return undefined;
  let text = type.toLowerCase();
  for (const [index, written] of parameters.entries()) {
    const [, name, argument = ''] = parameter.exec(written) ?? [];
    if (name === undefined) return undefined;
    const isWeight = /^q$/i.test(name) && index === parameters.length - 1 && weight.test(argument);
    // A second weight. Origins disagree on which one counts.
    if (isWeight && /;q=/.test(text)) return undefined;
    text += isWeight ? weightSuffix(argument) : `;${name.toLowerCase()}=${argument}`;
  }
  return text;
}

/** Removes the white space around the commas of a list (OWS, RFC 9110 §5.6.1), except inside quotes. */
function withoutListSpace(value: string): string {
  if (!/^[ \t]|[ \t],|,[ \t]|[ \t]$/.test(value)) return value;
  const members: string[] = [];
  let start = 0;
  let isQuoted = false;
  for (let at = 0; at < value.length; at++) {
    const character = value[at];
    if (character === '"') isQuoted = !isQuoted;
    else if (character === '\\' && isQuoted) at++;
    else if (character === ',' && !isQuoted) {
      members.push(trimWhitespace(value.slice(start, at)));
      start = at + 1;
    }
  }
  members.push(trimWhitespace(value.slice(start)));
  return members.join(',');
}
