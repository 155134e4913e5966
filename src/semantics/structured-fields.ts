/** Structured fields (RFC 9651): parses a field as a dictionary or as a list of strings. An invalid field gives undefined. */

import { type InnerList, type Item, parseList, parseDictionary as parseMembers } from 'structured-headers';
import { trimWhitespace } from '../http/fields.ts';

/** A dictionary member by its type (RFC 9651 §3.3), without its parameters. */
export type StructuredValue =
  /** At most 15 digits. */
  | { readonly kind: 'integer'; readonly value: number }
  | { readonly kind: 'string'; readonly value: string }
  | { readonly kind: 'boolean'; readonly value: boolean }
  | { readonly kind: 'bytes'; readonly value: Uint8Array }
  /** An inner list, or an item of a type that no field read here uses. */
  | { readonly kind: 'other' };

/**
 * Parses a dictionary from all lines of a field together. Returns its members by key; the last member of a key counts
 * (RFC 9651 §4.2.2). Empty when there is no line. Undefined when the text is not a dictionary: such a field is ignored as a
 * whole (§4.2). Never throws.
 */
export function parseDictionary(lines: readonly string[]): ReadonlyMap<string, StructuredValue> | undefined {
  const text = lines.join(', ');
  try {
    const members = [...parseMembers(text)];
    const decimals = decimalKeys(text);
    return new Map(members.map(([key, member]) => [key, decimals.has(key) ? { kind: 'other' } : typed(member)]));
  } catch {
    return undefined;
  }
}

/**
 * Parses a List of Strings from all lines of a field together. Empty when there is no line. Undefined when the text is not a
 * list or a member is not a String: a field that violates its own constraints is ignored like one that cannot be parsed, unless
 * its definition says otherwise (RFC 9651 §2). Never throws.
 */
export function parseStrings(lines: readonly string[]): readonly string[] | undefined {
  try {
    const values = parseList(lines.join(', ')).map(([value]) => value);
    return values.every((value) => typeof value === 'string') ? values : undefined;
  } catch {
    return undefined;
  }
}

function typed([value]: Item | InnerList): StructuredValue {
  if (typeof value === 'number') return { kind: 'integer', value };
  if (typeof value === 'string') return { kind: 'string', value };
  if (typeof value === 'boolean') return { kind: 'boolean', value };
  return value instanceof ArrayBuffer ? { kind: 'bytes', value: new Uint8Array(value) } : { kind: 'other' };
}

/** One member of a valid dictionary. A comma separates members, except inside a string or a display string. */
const memberText = /(?:%"[^"]*"|"(?:[^"\\]|\\.)*"|[^",])+/g;
const decimalMember = /^([^=;]+)=-?\d+\./;

/**
 * Returns the keys whose value is a Decimal. structured-headers returns the number 60 for both `60` and `60.0`, which are of
 * different types (RFC 9651 §3.3.1, §3.3.2); only the text shows the difference.
 */
function decimalKeys(text: string): ReadonlySet<string> {
  const keys = new Set<string>();
  if (!text.includes('.')) return keys;
  for (const [member] of text.matchAll(memberText)) {
    const trimmed = trimWhitespace(member);
    const key = decimalMember.exec(trimmed)?.[1];
    if (key !== undefined) keys.add(key);
    else keys.delete(/^[^=;]*/.exec(trimmed)?.[0] ?? '');
  }
  return keys;
}
