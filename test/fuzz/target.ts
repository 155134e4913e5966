/** What is fuzzed: a parser, and what must hold of it whatever it is given. */

import { isDeepStrictEqual } from 'node:util';
import type { Field, Fields } from '../../src/http/fields.ts';

/** Inputs are texts of octets (latin1). */
export interface Target {
  readonly name: string;
  /** What inputs begin with: one of each form. */
  readonly seeds: readonly string[];
  /** Words of the grammar, to put in. */
  readonly words: readonly string[];
  /** Throws where a promise is broken. The same input has the same result. */
  check(input: string): void;
}

/** Throws unless something holds. */
export function must(isSo: boolean, promise: string): asserts isSo {
  if (!isSo) throw new Error(`broken: ${promise}`);
}

/** Throws unless two values are the same throughout. */
export function mustEqual(got: unknown, want: unknown, promise: string): void {
  if (!isDeepStrictEqual(got, want)) {
    throw new Error(`broken: ${promise}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
  }
}

/** The lines of one field, as a listener gives them: without white space around, without control characters. */
export function linesOf(name: string, input: string): Fields {
  return valuesOf(input).map((value): Field => [name, value]);
}

/** Values of lines, as a listener gives them. */
export function valuesOf(input: string): string[] {
  return input.split('\n').map(asValue);
}

/** Lines of any fields, `name: value`. */
export function fieldsOf(input: string): Fields {
  return input.split('\n').map((line): Field => {
    const colon = line.indexOf(':');
    const name = (colon < 0 ? line : line.slice(0, colon)).toLowerCase().replace(/[^!#$%&'*+.^_`|~\w-]/g, '');
    return [name, asValue(colon < 0 ? '' : line.slice(colon + 1))];
  });
}

function asValue(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: no listener lets them through
  return text.replace(/[\u0000-\u0008\u000a-\u001f\u007f]/g, '').replace(/^[\t ]+|[\t ]+$/g, '');
}
