/** The flag that gives a request its fields, as commander reads it. */

import { InvalidArgumentError } from 'commander';
import { parseHeaderFlag } from './explain-flags.ts';

type Fields = readonly (readonly [name: string, value: string])[];

/** One more field, after those before. Throws `InvalidArgumentError` for what is none. */
export function collectHeader(text: string, before: Fields = []): Fields {
  const field = parseHeaderFlag(text);
  if (field === undefined) throw new InvalidArgumentError("Expected 'Name: value'.");
  return [...before, field];
}
