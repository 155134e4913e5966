/** What tells the stored responses of one key apart: what Vary nominates, and what the operator selects. */

import { type Fields, hasField } from '../http/fields.ts';
import type { NominatedField, StoredResponse } from '../http/stored-response.ts';
import { type Cookie, parseCookies } from './cookies.ts';
import { parseDateField } from './http-date.ts';
import { differingFields, formatVariant, matchesNominated, nominatedFields } from './vary.ts';

/** The parts of a request that the operator selects, as if every response had them in its Vary. */
export interface VariantPolicy {
  /** Names of request fields, in lower case. */
  readonly fields: readonly string[];
  /** Names of cookies; letter case counts. */
  readonly cookies: readonly string[];
}

/** What of a stored response names its variant. */
export type Variant = Pick<StoredResponse, 'nominated' | 'selected' | 'fragment' | 'identity'>;

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
