/** Use counts of keys: they count, they are bounded, and they forget old keys. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createUseCounts } from '../../src/cache/lookup/hit-for-pass.ts';

/** Notes the keys one after the other. Returns the count that each note gave. */
function noteAll(maxKeys: number, keys: readonly string[]): number[] {
  const uses = createUseCounts({ maxKeys });
  return keys.map((key) => uses.note(key));
}

describe('use counts', () => {
  const rows: readonly [maxKeys: number, keys: string, want: number[]][] = [
    [8, 'a', [1]],
    [8, 'aaa', [1, 2, 3]],
    [8, 'abab', [1, 1, 2, 2]],
    [8, 'abcda', [1, 1, 1, 1, 2]],
    // The younger generation is full: a b c d become the older one, and still count.
    [8, 'abcdea', [1, 1, 1, 1, 1, 2]],
    // A key that is used again moves to the younger generation, and outlives the others.
    [8, 'abcdeafghiab', [1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 3, 1]],
    [8, 'abcdefghia', [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]],
    [2, 'aabab', [1, 2, 1, 3, 2]],
    [2, 'abca', [1, 1, 1, 1]],
    [1, 'aaa', [1, 2, 3]],
    [0, 'aa', [1, 2]],
  ];
  it.each(rows)('of at most %i keys: %s', (maxKeys, keys, want) => expect(noteAll(maxKeys, [...keys])).toEqual(want));

  it('can be read without counting a use', () => {
    const uses = createUseCounts({ maxKeys: 8 });
    expect(uses.count('a')).toBe(0);
    uses.note('a');
    uses.note('a');
    expect([uses.count('a'), uses.count('a'), uses.count('b')]).toEqual([2, 2, 0]);
    expect(uses.note('a')).toBe(3);
  });

  it('never exceed the real uses, and are exact while fewer than half of maxKeys other keys are used in between', () => {
    const keys = fc.array(fc.nat(11).map(String), { maxLength: 100 });
    fc.assert(
      fc.property(keys, fc.integer({ min: 1, max: 16 }), (asked, half) => {
        const counts = noteAll(2 * half, asked);
        for (const [at, count] of counts.entries()) {
          const before = asked.slice(0, at + 1);
          const uses = before.filter((key) => key === asked[at]).length;
          const previous = before.slice(0, at).lastIndexOf(asked[at] ?? '');
          const between = new Set(previous < 0 ? [] : before.slice(previous + 1, at));
          expect(count).toBeLessThanOrEqual(uses);
          if (previous >= 0 && between.size < half) expect(count).toBe((counts[previous] ?? 0) + 1);
        }
      }),
    );
  });
});
