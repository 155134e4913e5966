/** The targets of fuzzing: a parser, and a promise that it must keep for every input. */

import { isDeepStrictEqual } from 'node:util';
import type { Field, Fields } from '../../src/http/fields.ts';

/** A parser with its promise. Inputs are texts of octets (latin1). */
export interface Target {
  readonly name: string;
  /** The first inputs: one of each form. */
  readonly seeds: readonly string[];
  /** Words of the grammar, which are put into inputs. */
  readonly words: readonly string[];
  /** Throws where the input breaks the promise. The same input has the same result. */
  check(input: string): void;
}

/** Throws `broken: …` with the promise where a condition is false. */
export function must(isKept: boolean, promise: string): asserts isKept {
  if (!isKept) throw new Error(`broken: ${promise}`);
}

/** Throws `broken: …` with the promise and both values where they are not deeply equal. */
export function mustEqual(got: unknown, want: unknown, promise: string): void {
  if (!isDeepStrictEqual(got, want)) {
    throw new Error(`broken: ${promise}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
  }
}

/** Returns one field line for each line of the input, as a listener passes it: trimmed, without control characters. */
export function linesOf(name: string, input: string): Fields {
  return valuesOf(input).map((value): Field => [name, value]);
}

/** Returns the field value of each line of the input, as a listener passes it. */
export function valuesOf(input: string): string[] {
  return input.split('\n').map(asValue);
}

/** Returns the field of each line `name: value` of the input. */
export function fieldsOf(input: string): Fields {
  return input.split('\n').map((line): Field => {
    const colon = line.indexOf(':');
    const name = (colon < 0 ? line : line.slice(0, colon)).toLowerCase().replace(/[^!#$%&'*+.^_`|~\w-]/g, '');
    return [name, asValue(colon < 0 ? '' : line.slice(colon + 1))];
  });
}

function asValue(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: no listener passes them on
  return text.replace(/[\u0000-\u0008\u000a-\u001f\u007f]/g, '').replace(/^[\t ]+|[\t ]+$/g, '');
}

/** Returns the text with a–z in upper case; other characters stay, as `ß` would become two letters. */
export function asciiUpperCase(text: string): string {
  return text.replace(/[a-z]+/g, (letters) => letters.toUpperCase());
}
