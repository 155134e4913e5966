/** Which request fields select a stored response (RFC 9111 §4.1, RFC 9110 §12.5.5). */

import { type Fields, fieldLines, fieldValue, listMembers } from '../http/fields.ts';
import type { NominatedField } from '../http/stored-response.ts';
import { normalValue } from './normal-value.ts';

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
export function differingFields(nominated: readonly NominatedField[], request: Fields): readonly string[] {
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
