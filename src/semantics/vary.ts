/**
 * Which request fields select a stored response (RFC 9111 §4.1, RFC 9110 §12.5.5): the fields that Vary names, in a normal form of
 * their values; the fields that a response differs by although its Vary does not say so; and what the operator selects besides.
 */

import { ownText } from '../bytes/own-memory.ts';
import { type Fields, fieldLines, fieldValue, hasField, listMembers, trimWhitespace } from '../http/fields.ts';
import type { NominatedField, StoredResponse } from '../http/stored-response.ts';
import { type Cookie, parseCookies } from './cookies.ts';
import { parseDateField } from './http-date.ts';

/** A field name (RFC 9110 §5.1). */
const fieldName = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;

/**
 * The lower-case names in a response's Vary, sorted, each once; `*` stands for itself. A member that is no field name counts
 * as `*`: what the origin meant is not known, so the response may be for this request alone.
 */
export function varyNames(response: Fields): string[] {
  const names = fieldLines(response, 'vary').flatMap(listMembers);
  return [...new Set(names.map((name) => selectingName(name.toLowerCase())))].sort();
}

function selectingName(name: string): string {
  return fieldName.test(name) ? name : '*';
}

/**
 * The request fields that a response's Vary nominates, with their values in this request, lines joined, in the normal
 * form that `normalValue` gives; sorted by name. Null is for a field that was not sent, which is not an empty one. Empty
 * when there is no Vary. `more` are names, in lower case, that count as if Vary had them.
 */
export function nominatedFields(
  response: Fields,
  request: Fields,
  more: readonly string[] = [],
): readonly NominatedField[] {
  const names = [...new Set([...varyNames(response), ...more])].sort();
  return names.map((name) => [name, presentedValue(request, name)]);
}

/** Whether a request presents the values that the stored response was selected by. `*` never matches. */
export function matchesNominated(nominated: readonly NominatedField[], request: Fields): boolean {
  return nominated.every((field) => isPresented(field, request));
}

/** The names of the nominated fields that a request presents other values of; `*` is always one of them. */
function differingFields(nominated: readonly NominatedField[], request: Fields): readonly string[] {
  return nominated.filter((field) => !isPresented(field, request)).map(([name]) => name);
}

function isPresented([name, value]: NominatedField, request: Fields): boolean {
  // An earlier version has stored members of Vary that are no field names as they were.
  return selectingName(name) !== '*' && isSameValue(name, value, presentedValue(request, name));
}

/** A store outlives a version: the stored value may be in a form that an earlier one took for normal. */
function isSameValue(name: string, stored: string | null, presented: string | null): boolean {
  if (stored === presented) return true;
  return stored !== null && presented !== null && normalValue(name, stored) === presented;
}

/** Names a variant for a store: equal for equal nominated fields only, and empty when there are none. */
export function formatVariant(nominated: readonly NominatedField[]): string {
  return nominated.length === 0 ? '' : JSON.stringify(nominated);
}

function presentedValue(request: Fields, name: string): string | null {
  const value = fieldValue(request, name);
  return value === undefined ? null : normalValue(name, value);
}

/** The parts of a request that the operator selects, as if every response had them in its Vary. */
export interface VariantPolicy {
  /** Names of request fields, in lower case. */
  readonly fields: readonly string[];
  /** Names of cookies; letter case counts. */
  readonly cookies: readonly string[];
}

/** What of a stored response names its variant. */
type Variant = Pick<StoredResponse, 'nominated' | 'selected' | 'fragment' | 'identity'>;

/**
 * The selected parts with their values in this request: each field as Vary presents it, then each cookie as
 * `cookie:name` and all pairs of this name, null where there is none. An absent cookie is not an empty one. `request` are
 * the fields that the origin is sent for the whole representation. Undefined when nothing is selected.
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
 * Whether a stored response is for a request: its Vary matches (RFC 9111 §4.1), and so do the parts that the operator
 * selects. What was stored under another selection never matches.
 */
export function matchesVariant(stored: Variant, request: Fields, policy: VariantPolicy): boolean {
  return matchesNominated(stored.nominated, request) && isSame(stored.selected, selectedValues(request, policy));
}

/** Why a stored response is not for a request: the names of what differs, as `selectedValues` writes them. Empty where it is. */
export function variantDifferences(stored: Variant, request: Fields, policy: VariantPolicy): readonly string[] {
  const asked = selectedValues(request, policy);
  const selected = isSame(stored.selected, asked) ? [] : differingValues(stored.selected ?? [], asked ?? []);
  return [...new Set([...differingFields(stored.nominated, request), ...selected])];
}

/** The names with another value in one list than in the other, or in one of them only. */
function differingValues(a: readonly NominatedField[], b: readonly NominatedField[]): readonly string[] {
  const isIn = (list: readonly NominatedField[], [name, value]: NominatedField) =>
    list.some((other) => other[0] === name && other[1] === value);
  return [...a.filter((field) => !isIn(b, field)), ...b.filter((field) => !isIn(a, field))].map(([name]) => name);
}

/**
 * Compares two stored responses that match a request, for sorting (RFC 9111 §4.1): one with a Vary comes before one that
 * merely omits it, and of the others the one with the more recent Date first.
 */
export function comparePreference(a: StoredResponse, b: StoredResponse): number {
  const byVary = Number(hasField(b.fields, 'vary')) - Number(hasField(a.fields, 'vary'));
  return byVary === 0 ? dateOf(b) - dateOf(a) : byVary;
}

function dateOf({ fields, responseAt }: StoredResponse): number {
  return parseDateField(fields, 'date', responseAt) ?? responseAt;
}

/**
 * Names a variant for a store: equal for equal variants only, and empty where nothing tells variants apart. What an anonymous
 * client was sent has the name of what is for all: one takes the place of the other.
 */
export function variantName({ nominated, selected, fragment, identity }: Variant): string {
  const digest = identity?.digest === '' ? undefined : identity?.digest;
  if (fragment !== undefined) return JSON.stringify({ nominated, selected, identity: digest, range: fragment.range });
  if (selected === undefined && digest === undefined) return formatVariant(nominated);
  return JSON.stringify({ nominated, selected, identity: digest });
}

/** No pair holds a `;`, so that the text has one reading. */
function presentedPairs(cookies: readonly Cookie[], wanted: string): string | null {
  const pairs = cookies.filter(({ name }) => name === wanted).map(({ pair }) => pair);
  return pairs.length === 0 ? null : pairs.join('; ');
}

function isSame(stored: Variant['selected'], asked: Variant['selected']): boolean {
  return stored === asked || JSON.stringify(stored) === JSON.stringify(asked);
}

/**
 * Request fields that a response to this request was selected by, as its own fields show: Origin, where it repeats that, and
 * Accept-Encoding, where its content is encoded (RFC 9110 §12.5.3). They count as if Vary had them.
 */
export function impliedVary(request: Fields, response: Fields): readonly string[] {
  const encoding = fieldValue(response, 'content-encoding')?.toLowerCase() ?? 'identity';
  return [
    ...(encoding === 'identity' || encoding === '' ? [] : ['accept-encoding']),
    ...(echoesOrigin(request, response) ? ['origin'] : []),
  ];
}

/** What a response says about the page that asked for it (Fetch §3.3.3). */
const echoFields: ReadonlySet<string> = new Set(['access-control-allow-origin', 'access-control-allow-credentials']);

/**
 * Whether a response repeats the Origin of its request in Access-Control-Allow-Origin. It then differs by Origin, whether its
 * Vary says so (Fetch §3.3.5) or not, as many servers forget.
 */
export function echoesOrigin(request: Fields, response: Fields): boolean {
  const origin = fieldValue(request, 'origin');
  return origin !== undefined && fieldValue(response, 'access-control-allow-origin') === origin;
}

/** The fields of a response without what they say about the page that asked, where they repeat its Origin. */
export function withoutOriginEcho(request: Fields, response: Fields): Fields {
  return echoesOrigin(request, response) ? response.filter(([name]) => !echoFields.has(name)) : response;
}

/** What a response says about the page that asked, where it repeats its Origin; nothing elsewhere. */
export function originEcho(request: Fields, response: Fields): Fields {
  return echoesOrigin(request, response) ? response.filter(([name]) => echoFields.has(name)) : [];
}

/** Not lists: a comma is part of what they say, and so is the white space around it. */
const indivisibleFields: ReadonlySet<string> = new Set(['cookie', 'referer', 'user-agent']);

/** Names of codings that have another name (RFC 9110 §8.4.1.1, §8.4.1.3). */
const codingAliases: ReadonlyMap<string, string> = new Map([
  ['x-compress', 'compress'],
  ['x-gzip', 'gzip'],
]);

const noAliases: ReadonlyMap<string, string> = new Map();

/** One lower-case name and nothing else. */
const singleName = /^[a-z0-9*-]+$/;

/** In lower case: a language range, charset or coding, with or without its weight (RFC 9110 §12.4.2). */
const weightedName = /^([!#$%&'*+\-.^_`|~\w]+)(?:[ \t]*;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?$/;

const mediaType = /^[!#$%&'*+\-.^_`|~\w]+\/[!#$%&'*+\-.^_`|~\w]+$/;
const parameter = /^([!#$%&'*+\-.^_`|~\w]+)=([!#$%&'*+\-.^_`|~\w]+)$/;
const weight = /^(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$/;

/**
 * The normal form of a value, its lines joined with commas already; `name` in lower case. Two values with the same form
 * mean the same by the specification of their field, so that a response to one is a response to the other:
 *
 * - Accept-Language, Accept-Charset, Accept-Encoding: case, white space, empty and repeated members mean nothing; weights
 *   are numbers; and as weights alone tell what is preferred, the order means nothing (RFC 9110 §12.4.2, §12.5.2–4):
 *   the members are sorted as texts. Whoever offers none is not whoever says nothing: an empty value stays one (§12.5.3).
 * - Accept: the same of case (but not of a parameter's value), white space and weights; the order stays, as origins do
 *   choose by it (§12.5.1).
 * - every other field: white space around the commas of a list, outside quoted-strings (§5.6.1). So too where the four
 *   above do not follow their grammar, for then nothing else is known of them. Where a comma separates nothing, as in
 *   User-Agent, all of it stays.
 *
 * Total; the form of a form is itself.
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

/** Browsers send a few values, and responses of the web vary by them. So many are remembered: clients could invent any number. */
const MAX_REMEMBERED = 256;
const MAX_REMEMBERED_LENGTH = 128;
const remembered = new Map<string, string>();

function normalCodings(value: string): string {
  const known = remembered.get(value);
  if (known !== undefined) return known;
  const normal = weightedList(value, codingAliases) ?? withoutListSpace(value);
  if (remembered.size < MAX_REMEMBERED && value.length <= MAX_REMEMBERED_LENGTH) {
    remembered.set(ownText(value), ownText(normal));
  }
  return normal;
}

function weightedList(value: string, aliases: ReadonlyMap<string, string>): string | undefined {
  if (singleName.test(value)) return aliases.get(value) ?? value;
  const members = new Set<string>();
  for (const member of listMembers(value.toLowerCase())) {
    const [, name, given] = weightedName.exec(member) ?? [];
    if (name === undefined) return undefined;
    const shortest = aliases.get(name) ?? name;
    members.add(given === undefined ? shortest : shortest + weightSuffix(given));
  }
  return [...members].sort().join(',');
}

/** The shortest way to write a weight after a name: that of 1, which is the default, is none. */
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
    // A second weight, whose value not all origins would take.
    if (isWeight && /;q=/.test(text)) return undefined;
    text += isWeight ? weightSuffix(argument) : `;${name.toLowerCase()}=${argument}`;
  }
  return text;
}

/** A list without the white space around its commas (OWS, RFC 9110 §5.6.1); what is within quotes stays. */
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
