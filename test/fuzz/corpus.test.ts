/** Replays what fuzzing has found, and tries random inputs without measuring coverage. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readCorpus } from './corpus.ts';
import { slowness } from './fuzzer.ts';
import { createChance, stretch } from './mutator.ts';
import { targets } from './targets.ts';

const { RANGEWAY_TEST_RUNS = '100' } = process.env;
const runs = Number(RANGEWAY_TEST_RUNS);

/** Signs that stand between the words of most grammars. */
const signs = [' ', '\t', ',', ';', '=', '"', '\\', ':', '/', '\n', '-', '%', '0', '1', 'a', '\xff'];

describe.each(targets)('$name', (target) => {
  it('keeps its promise for its seeds and its corpus', () => {
    const inputs = [...target.seeds, ...readCorpus(target.name)];
    for (const input of inputs) expect(() => target.check(input), JSON.stringify(input)).not.toThrow();
  });

  it('keeps its promise for random sentences of its words', { timeout: 60_000 + 20 * runs }, () => {
    const word = fc.oneof(
      { weight: 3, arbitrary: fc.constantFrom(...target.words) },
      { weight: 2, arbitrary: fc.constantFrom(...target.seeds) },
      { weight: 2, arbitrary: fc.constantFrom(...signs) },
    );
    const sentence = fc.array(word, { maxLength: 30 }).map((words) => words.join(''));
    fc.assert(
      fc.property(sentence, (input) => target.check(input)),
      { numRuns: runs },
    );
  });

  it('takes time in proportion to the length, up to 64 KB', () => {
    const chance = createChance(1);
    const pool = [...target.seeds, ...readCorpus(target.name)];
    for (let count = 0; count < 8; count += 1) {
      const input = stretch(pool, target.words, chance);
      expect(slowness(target, input)?.message, input.slice(0, 200)).toBeUndefined();
    }
  });
});
