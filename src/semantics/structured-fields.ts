/** Structured fields (RFC 9651): a field read as the dictionary or the list that it must be, or not at all. */

import { type InnerList, type Item, parseList, parseDictionary as parseMembers } from 'structured-headers';
import { trimWhitespace } from '../http/fields.ts';

declare global {
  /** A type of browsers that the declarations of structured-headers name; without it they do not compile on Node. */
  type BufferSource = NodeJS.BufferSource;
}

/** A member of a dictionary by its type (RFC 9651 §3.3), its parameters left out. */
export type StructuredValue =
  /** Of at most 15 digits. */
  | { readonly kind: 'integer'; readonly value: number }
  | { readonly kind: 'string'; readonly value: string }
  | { readonly kind: 'boolean'; readonly value: boolean }
  | { readonly kind: 'bytes'; readonly value: Uint8Array }
  /** An inner list, or an item of a type that no field read here has. */
  | { readonly kind: 'other' };

/**
 * The members of a dictionary by their keys, the last of a key (RFC 9651 §4.2.2), from all lines of the field together;
 * none where there is no line. Undefined when the text is no dictionary: such a field is ignored as a whole (§4.2).
 * Never throws.
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
 * The members of a List of Strings, from all lines of the field together; none where there is no line. Undefined when
 * the text is no list, and when a member is no String: a field that breaks its own constraints is ignored as one that
 * cannot be parsed, unless its definition says otherwise (RFC 9651 §2). Never throws.
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

/** A member of a sound dictionary: a comma separates unless it stands in a display string or a string. */
const memberText = /(?:%"[^"]*"|"(?:[^"\\]|\\.)*"|[^",])+/g;
const decimalMember = /^([^=;]+)=-?\d+\./;

/**
 * The keys whose value is a Decimal. The package gives the number 60 for `60` and for `60.0`, which are of different
 * types (RFC 9651 §3.3.1, §3.3.2); only the text tells.
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
