/** The memory of how often keys were asked for: it counts, it is bounded, and it forgets. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createUseCounts } from '../../src/cache/lookup/hit-for-pass.ts';

/** Notes the keys one after the other; gives what was told. */
function noteAll(maxKeys: number, keys: readonly string[]): number[] {
  const uses = createUseCounts({ maxKeys });
  return keys.map((key) => uses.note(key));
}

describe('the counts of keys', () => {
  const rows: readonly [maxKeys: number, keys: string, want: number[]][] = [
    [8, 'a', [1]],
    [8, 'aaa', [1, 2, 3]],
    [8, 'abab', [1, 1, 2, 2]],
    [8, 'abcda', [1, 1, 1, 1, 2]],
    // Full: a b c d become the older generation, and are known still.
    [8, 'abcdea', [1, 1, 1, 1, 1, 2]],
    // What was asked for again moved to the younger one, and outlives the others.
    [8, 'abcdeafghiab', [1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 3, 1]],
    [8, 'abcdefghia', [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]],
    [2, 'aabab', [1, 2, 1, 3, 2]],
    [2, 'abca', [1, 1, 1, 1]],
    [1, 'aaa', [1, 2, 3]],
    [0, 'aa', [1, 2]],
  ];
  it.each(rows)('of at most %i: %s', (maxKeys, keys, want) => expect(noteAll(maxKeys, [...keys])).toEqual(want));

  it('can be looked at without a use', () => {
    const uses = createUseCounts({ maxKeys: 8 });
    expect(uses.count('a')).toBe(0);
    uses.note('a');
    uses.note('a');
    expect([uses.count('a'), uses.count('a'), uses.count('b')]).toEqual([2, 2, 0]);
    expect(uses.note('a')).toBe(3);
  });

  it('never exceed the uses there were, and are exact for as many keys as half the memory', () => {
    const keys = fc.array(fc.nat(11).map(String), { maxLength: 100 });
    fc.assert(
      fc.property(keys, fc.integer({ min: 1, max: 16 }), (asked, half) => {
        const told = noteAll(2 * half, asked);
        for (const [at, count] of told.entries()) {
          const before = asked.slice(0, at + 1);
          const uses = before.filter((key) => key === asked[at]).length;
          const previous = before.slice(0, at).lastIndexOf(asked[at] ?? '');
          const between = new Set(previous < 0 ? [] : before.slice(previous + 1, at));
          expect(count).toBeLessThanOrEqual(uses);
          if (previous >= 0 && between.size < half) expect(count).toBe((told[previous] ?? 0) + 1);
        }
      }),
    );
  });
});
