/** The corpus: inputs that reach code which other inputs do not, and inputs that once broke a promise. */

import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Returns the path of a target's file. Each line is one input as a JSON string, so that no editor changes its octets. */
export function corpusFile(target: string): string {
  return fileURLToPath(new URL(`corpus/${target}.txt`, import.meta.url));
}

/** Returns the inputs that are kept for a target; none where there is no file. */
export function readCorpus(target: string): readonly string[] {
  const file = corpusFile(target);
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => String(JSON.parse(line)));
}

/** Adds inputs to the file of a target, without those that are there. */
export function addToCorpus(target: string, inputs: readonly string[]): void {
  const kept = new Set(readCorpus(target));
  const lines = inputs.filter((input) => !kept.has(input)).map((input) => `${escaped(input)}\n`);
  if (lines.length > 0) appendFileSync(corpusFile(target), lines.join(''));
}

/** Returns the input as JSON in printable ASCII, so that a diff can be read. */
function escaped(input: string): string {
  return JSON.stringify(input).replace(/[\x7f-\uffff]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}
