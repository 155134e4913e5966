/** Variants: fields that Vary nominates, and fields and cookies that the cache key selects. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { NominatedField } from '../../src/http/stored-response.ts';
import {
  formatVariant,
  matchesVariant,
  nominatedFields,
  selectedValues,
  type VariantPolicy,
  variantDifferences,
  variantName,
} from '../../src/semantics/vary.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

const nothing: VariantPolicy = { fields: [], cookies: [] };

describe('selectedValues', () => {
  it.each<[policy: Partial<VariantPolicy>, lines: readonly string[], want: readonly NominatedField[] | undefined]>([
    [{}, ['A: 1', 'Cookie: a=1'], undefined],
    [{ fields: ['a'] }, [], [['a', null]]],
    [{ fields: ['a'] }, ['A:'], [['a', '']]],
    [{ fields: ['a'] }, ['A: 1', 'B: 2', 'A: 3'], [['a', '1,3']]],
    [
      { fields: ['b', 'accept-language'] },
      ['Accept-Language: DE, en', 'B: X'],
      [
        ['accept-language', 'de,en'],
        ['b', 'X'],
      ],
    ],
    [{ cookies: ['lang'] }, [], [['cookie:lang', null]]],
    [{ cookies: ['lang'] }, ['Cookie: LANG=de; x=lang'], [['cookie:lang', null]]],
    [{ cookies: ['lang'] }, ['Cookie: lang='], [['cookie:lang', 'lang=']]],
    [{ cookies: ['lang'] }, ['Cookie: lang'], [['cookie:lang', 'lang']]],
    [{ cookies: ['lang'] }, ['Cookie: x=1; lang=de;y', 'Cookie: lang=en'], [['cookie:lang', 'lang=de; lang=en']]],
    [
      { cookies: ['b', 'a'], fields: ['z'] },
      ['Cookie: b=2; a=1', 'Z: 0'],
      [
        ['z', '0'],
        ['cookie:a', 'a=1'],
        ['cookie:b', 'b=2'],
      ],
    ],
  ])('%j of %j', (policy, lines, want) => {
    expect(selectedValues(fieldsOf(...lines), { ...nothing, ...policy })).toEqual(want);
  });
});

describe('matchesVariant', () => {
  const stored = (lines: readonly string[], policy: Partial<VariantPolicy>, vary = '') => {
    const request = fieldsOf(...lines);
    const selected = selectedValues(request, { ...nothing, ...policy });
    return {
      nominated: nominatedFields(vary === '' ? [] : [['vary', vary]], request),
      ...(selected === undefined ? {} : { selected }),
    };
  };

  it.each<
    [
      storedFor: readonly string[],
      under: Partial<VariantPolicy>,
      asked: readonly string[],
      now: Partial<VariantPolicy>,
      vary: string,
      want: boolean,
    ]
  >([
    [[], {}, ['A: 1'], {}, '', true],
    [['A: 1'], {}, ['A: 1'], {}, 'A', true],
    [['A: 1'], {}, ['A: 2'], {}, 'A', false],
    [['A: 1'], {}, ['A: 1'], {}, '*', false],
    [['A: 1'], { fields: ['a'] }, ['A: 1', 'B: 1'], { fields: ['a'] }, '', true],
    [['A: 1'], { fields: ['a'] }, ['A: 2'], { fields: ['a'] }, '', false],
    [['A: 1'], { fields: ['a'] }, ['A: 1'], { fields: ['a'] }, 'B', true],
    [['A: 1'], { fields: ['a'] }, ['A: 1', 'B: 1'], { fields: ['a'] }, 'B', false],
    [[], { cookies: ['a'] }, ['Cookie: b=1'], { cookies: ['a'] }, '', true],
    [[], { cookies: ['a'] }, ['Cookie: a='], { cookies: ['a'] }, '', false],
    [['Cookie: a=1'], { cookies: ['a'] }, ['Cookie: a=1; b=1'], { cookies: ['a'] }, 'Cookie', false],
    // Responses that were stored under another selection.
    [[], {}, [], { fields: ['a'] }, '', false],
    [[], {}, [], { cookies: ['a'] }, '', false],
    [['A: 1'], { fields: ['a'] }, ['A: 1'], {}, '', false],
    [['Cookie: a=1; b=1'], { cookies: ['a'] }, ['Cookie: a=1'], { cookies: ['a', 'b'] }, '', false],
    [['Cookie: a=1'], { fields: ['cookie'] }, ['Cookie: a=1'], { cookies: ['a'] }, '', false],
    [['Cookie: a=1; b=1'], { cookies: ['a', 'b'] }, ['Cookie: b=1; a=1'], { cookies: ['b', 'a'] }, '', true],
  ])('%j stored under %j, request with %j under %j, Vary %j', (storedFor, under, asked, now, vary, want) => {
    const policy = { ...nothing, ...now };
    const variant = stored(storedFor, under, vary);
    expect(matchesVariant(variant, fieldsOf(...asked), policy)).toBe(want);
    expect(variantDifferences(variant, fieldsOf(...asked), policy).length === 0).toBe(want);
  });

  it.each<[Partial<VariantPolicy>, readonly string[], Partial<VariantPolicy>, string, readonly string[]]>([
    [{}, ['A: 2', 'B: 1'], {}, 'A, B', ['a']],
    [{}, ['A: 1', 'B: 2'], {}, 'B, A, *', ['*', 'b']],
    [{ fields: ['a'], cookies: ['c'] }, ['A: 1', 'B: 2'], { fields: ['a'], cookies: ['c'] }, 'B', ['b', 'cookie:c']],
    [{ fields: ['a'] }, ['A: 2', 'B: 1'], { fields: ['a'] }, 'A', ['a']],
    [{ fields: ['a'] }, ['A: 1', 'B: 1'], { fields: ['b'] }, '', ['a', 'b']],
  ])('stored under %j, request with %j under %j, Vary %s: %j differ', (under, asked, now, vary, want) => {
    const variant = stored(['A: 1', 'B: 1', 'Cookie: c=1'], under, vary);
    expect(variantDifferences(variant, fieldsOf(...asked), { ...nothing, ...now })).toEqual(want);
  });
});

describe('variantName', () => {
  it('is that of the nominated fields where nothing is selected', () => {
    expect(variantName({ nominated: [] })).toBe('');
    expect(variantName({ nominated: [['a', '1']] })).toBe(formatVariant([['a', '1']]));
  });

  it('is the same exactly for variants that match the same requests', () => {
    const pair = fc.constantFrom('a=1', 'a=', 'a', 'b=1', 'b=a=1', 'c', 'a=1, a=2', 'a = 1');
    const cookie = fc.array(pair, { maxLength: 3 }).map((pairs) => `Cookie: ${pairs.join('; ')}`);
    const line = fc.oneof(fc.constantFrom('A: 1', 'A: 1, 2', 'A: 2', 'B: 1'), cookie);
    const request = fc.array(line, { maxLength: 3 }).map((lines) => fieldsOf(...lines));
    const names = fc.subarray(['a', 'b']);
    const policy = fc.record({ fields: names, cookies: names });
    fc.assert(
      fc.property(request, request, policy, policy, fc.boolean(), (one, other, under, otherUnder, isSamePolicy) => {
        const [first, second] = [selectedValues(one, under), selectedValues(other, isSamePolicy ? under : otherUnder)];
        const variants = [first, second].map((selected) => ({ nominated: [], ...(selected && { selected }) }));
        const [variant = { nominated: [] }] = variants;
        const matches = matchesVariant(variant, other, isSamePolicy ? under : otherUnder);
        expect(new Set(variants.map(variantName)).size === 1).toBe(matches);
      }),
      { numRuns: 3000 },
    );
  });
});

describe('the values of a request', () => {
  it('are read once, however many stored responses are compared with it', () => {
    let reads = 0;
    const field: [string, string] = ['x-long', ''];
    Object.defineProperty(field, 1, {
      get: () => {
        reads += 1;
        return 'a ,b';
      },
    });
    const policy = { fields: ['x-long'], cookies: [] };
    const variants = Array.from({ length: 200 }, (_, index) => ({
      nominated: [['x-long', `a,${index}`]] as const,
      selected: [['x-long', index === 199 ? 'a,b' : `${index}`]] as const,
    }));
    const request = [field];
    matchesVariant({ nominated: [['x-long', 'a,b']], selected: [['x-long', 'a,b']] }, request, policy);
    const readsOfOne = reads;
    expect(readsOfOne).toBeGreaterThan(0);
    expect(variants.filter((variant) => matchesVariant(variant, request, policy))).toEqual([]);
    expect(reads).toBe(readsOfOne);
  });
});
