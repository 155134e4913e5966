/** What a planted fault is. */

import type { WireName } from '../support/wire/wire-names.ts';

/** A fault, and the tests that must find it. */
export interface PlantedFault {
  /** In words with hyphens, for `--only`. */
  readonly name: string;
  /** The source file, from the root of the project. */
  readonly file: string;
  /** Text that the file has exactly once, and what replaces it. */
  readonly text: string;
  readonly replacement: string;
  /** What is wrong with the fault, as a sentence. */
  readonly breaks: string;
  /** The test files, from `test/`. At least one test of them must fail. */
  readonly tests: readonly string[];
  /** The wire that the tests run over; without one by default. */
  readonly wire?: WireName;
}

/** Returns a source text with the fault. Throws where it does not have the replaced text exactly once. */
export function withFault(source: string, { name, file, text, replacement }: PlantedFault): string {
  const times = source.split(text).length - 1;
  if (times !== 1) throw new Error(`${name}: ${file} has the text that is to be replaced ${times} times`);
  return source.replace(text, () => replacement);
}
