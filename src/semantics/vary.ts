/** Which request fields select a stored response (RFC 9111 §4.1, RFC 9110 §12.5.5). */

import { type Fields, fieldLines, fieldValue, listMembers, trimWhitespace } from '../http/fields.ts';
import type { NominatedField } from '../http/stored-response.ts';

/** Lists of case-insensitive tokens and ranges without quoted strings, where case and white space mean nothing. */
const tokenListFields: ReadonlySet<string> = new Set(['accept-charset', 'accept-encoding', 'accept-language']);

/** The lower-case names in a response's Vary, sorted, each once; `*` stands for itself. */
export function varyNames(response: Fields): string[] {
  const names = fieldLines(response, 'vary').flatMap(listMembers);
  return [...new Set(names.map((name) => name.toLowerCase()))].sort();
}

/**
 * The request fields that a response's Vary nominates, with their values in this request, sorted by name. Values are
 * normalised where that cannot change their meaning: Accept-Encoding, Accept-Language and Accept-Charset lose case and
 * white space; the order of a list is kept. Empty when there is no Vary. `more` are names, in lower case, that count as
 * if Vary had them.
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
  return nominated.every(([name, value]) => name !== '*' && presentedValue(request, name) === value);
}

/** Names a variant for a store: equal for equal nominated fields only, and empty when there are none. */
export function formatVariant(nominated: readonly NominatedField[]): string {
  return nominated.length === 0 ? '' : JSON.stringify(nominated);
}

function presentedValue(request: Fields, name: string): string | null {
  const value = fieldValue(request, name);
  if (value === undefined) return null;
  if (!tokenListFields.has(name)) return value;
  return listMembers(value).map(withoutSpaces).join(',').toLowerCase();
}

function withoutSpaces(member: string): string {
  return member.split(';').map(trimWhitespace).join(';');
}
