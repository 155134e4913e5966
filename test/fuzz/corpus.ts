/** What was found before: inputs that reach code which others do not, and those that once broke a promise. */

import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** One file for each target, with a text in JSON in each line: octets that no editor breaks. */
export function corpusFile(target: string): string {
  return fileURLToPath(new URL(`corpus/${target}.txt`, import.meta.url));
}

/** The inputs that are kept for a target; none where there is no file. */
export function readCorpus(target: string): readonly string[] {
  const file = corpusFile(target);
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => String(JSON.parse(line)));
}

/** Keeps inputs for a target from now on. */
export function addToCorpus(target: string, inputs: readonly string[]): void {
  const kept = new Set(readCorpus(target));
  const lines = inputs.filter((input) => !kept.has(input)).map((input) => `${escaped(input)}\n`);
  if (lines.length > 0) appendFileSync(corpusFile(target), lines.join(''));
}

/** Printable, so that a difference can be read. */
function escaped(input: string): string {
  return JSON.stringify(input).replace(/[\x7f-\uffff]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}
