/** Cache directives that a response has for this cache alone (RFC 9213). */

import { type Fields, fieldLines, hasField } from '../http/fields.ts';
import type { CacheDirective } from './cache-directives.ts';
import { parseDictionary, type StructuredValue } from './structured-fields.ts';
import { deviceToken, parseSurrogateControl, surrogateControlField } from './surrogate-control.ts';

/** The directives of the one field that decides about a response. */
export interface TargetedDirectives {
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
