/** The operator's rules for the fields of responses. */

import { type Fields, withoutFields } from '../http/fields.ts';

/** What the operator decided. Names are in lower case. */
export interface FieldRules {
  readonly remove: readonly string[];
  /** In place of those of the same names. */
  readonly set: Readonly<Record<string, string>>;
  /** Besides those of the same names. */
  readonly add: Readonly<Record<string, string>>;
}

/** Rules that are to be followed. */
export interface FieldChange {
  /** A response with what is set and added, and without what is removed. */
  apply(fields: Fields): Fields;
  /** Without what is removed or set, for a message that is none of those to which fields are given. */
  strip(fields: Fields): Fields;
}

/** Creates the rules; undefined where there are none. */
export function createFieldChange({ remove, set, add }: FieldRules): FieldChange | undefined {
  const given: Fields = [...Object.entries(set), ...Object.entries(add)];
  const gone = new Set([...remove, ...Object.keys(set)]);
  if (gone.size === 0 && given.length === 0) return undefined;
  const strip = (fields: Fields): Fields => withoutFields(fields, gone);
  return { strip, apply: (fields) => [...strip(fields), ...given] };
}
