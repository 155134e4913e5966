import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  groupTag,
  hasTagField,
  isTag,
  maxTagFieldLength,
  maxTagLength,
  maxTags,
  parseTags,
  storedTag,
  tagOfStored,
} from '../../src/semantics/invalidation.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

describe('parseTags', () => {
  const rows: readonly (readonly [lines: readonly string[], tags: readonly string[]])[] = [
    [[], []],
    [['Surrogate-Key:'], []],
    [['Cache-Tag:'], []],
    [['Surrogate-Key: a'], ['a']],
    [['Surrogate-Key: a b\tc'], ['a', 'b', 'c']],
    [['Surrogate-Key:   a   b  '], ['a', 'b']],
    [
      ['Surrogate-Key: a', 'Surrogate-Key: b'],
      ['a', 'b'],
    ],
    [['Surrogate-Key: a a A'], ['a', 'A']],
    // A comma is part of a Surrogate-Key, and a space is part of a Cache-Tag.
    [['Surrogate-Key: a,b "c" d;e'], ['a,b', '"c"', 'd;e']],
    [['Cache-Tag: a,b'], ['a', 'b']],
    [['Cache-Tag: a , b\t,\tc'], ['a', 'b', 'c']],
    [['Cache-Tag: a b,c'], ['a b', 'c']],
    [['Cache-Tag: ,,a,,, b,'], ['a', 'b']],
    [
      ['Cache-Tag: a', 'Cache-Tag: b,c'],
      ['a', 'b', 'c'],
    ],
    [
      ['Cache-Tag: b, c', 'Surrogate-Key: a b'],
      ['a', 'b', 'c'],
    ],
    [['Cache-Tag: \u00e4\u00ff'], ['\u00e4\u00ff']],
    [['Cache-Tags: a', 'X-Cache-Tag: b', 'Surrogate-Keys: c', 'Surrogate-Control: d', 'Cache-Groups: "e"'], []],
    [['Surrogate-Key: __proto__ constructor'], ['__proto__', 'constructor']],
  ];
  it.each(rows)('%j', (lines, tags) => {
    expect(parseTags(fieldsOf(...lines))).toEqual(tags);
  });

  const numbered = (count: number, length = 0) =>
    Array.from({ length: count }, (_, index) => `${index}`.padEnd(length, 'x'));

  it('accepts tags up to the maximum number', () => {
    const tags = numbered(maxTags + 10);
    expect(parseTags([['surrogate-key', tags.join(' ')]])).toEqual(tags.slice(0, maxTags));
    expect(parseTags([['cache-tag', tags.join(',')]])).toEqual(tags.slice(0, maxTags));
    const both = parseTags([
      [
        'cache-tag',
        numbered(900)
          .map((tag) => `t${tag}`)
          .join(),
      ],
      ['surrogate-key', numbered(900).join(' ')],
    ]);
    expect(both).toHaveLength(maxTags);
    expect(both[0]).toBe('0');
  });

  it.each([
    ['surrogate-key', ' '],
    ['cache-tag', ','],
  ])('accepts tags of %s up to the maximum length, and leaves out only longer ones', (name, separator) => {
    const [longest = '', tooLong = ''] = ['x'.repeat(maxTagLength), 'y'.repeat(maxTagLength + 1)];
    expect(parseTags([[name, ['a', tooLong, longest, 'b'].join(separator)]])).toEqual(['a', longest, 'b']);
  });

  it.each([
    ['surrogate-key', ' '],
    ['cache-tag', ','],
  ])('accepts the tags of a long %s that end before its limit', (name, separator) => {
    const length = 63;
    const fitting = maxTagFieldLength / (length + 1);
    const tags = numbered(fitting + 10, length);
    expect(parseTags([[name, tags.join(separator)]])).toEqual(tags.slice(0, fitting));
    // The separator after the last one is behind the limit.
    const shifted = ['z', ...tags];
    expect(parseTags([[name, shifted.join(separator)]])).toEqual(shifted.slice(0, fitting));
    const inLines = tags.map((tag) => [name, tag] as const);
    expect(parseTags(inLines)).toEqual(tags.slice(0, fitting));
    expect(parseTags([[name, 'x'.repeat(1_000_000)]])).toEqual([]);
  });

  it('never throws, and returns valid tags, each once', () => {
    const parts = ['a', 'B', ',', ' ', '\t', '"', 'tag:', '[', '\u00ff', 'x'.repeat(1000)];
    const near = fc.array(fc.constantFrom(...parts), { maxLength: 40 }).map((texts) => texts.join(''));
    const value = fc.oneof(near, fc.string({ unit: 'binary' }));
    fc.assert(
      fc.property(fc.constantFrom('surrogate-key', 'cache-tag'), fc.array(value, { maxLength: 4 }), (name, values) => {
        const tags = parseTags(values.map((text) => [name, text] as const));
        expect(new Set(tags).size).toBe(tags.length);
        expect(tags.every(isTag)).toBe(true);
        for (const tag of tags) expect(values.some((text) => text.includes(tag))).toBe(true);
      }),
      { numRuns: 1000 },
    );
  });

  it('takes linear time for spaces, commas and tags', () => {
    // Quadratic time would be minutes, longer than a test may take.
    const size = 2_000_000;
    for (const text of [' '.repeat(size), ','.repeat(size), ' a'.repeat(size / 2), `a${' '.repeat(size)}b`]) {
      parseTags([
        ['surrogate-key', text],
        ['cache-tag', text],
      ]);
    }
  });
});

describe('hasTagField', () => {
  it.each([
    [['Surrogate-Key:'], true],
    [['Cache-Tag: a'], true],
    [['Cache-Tags: a'], false],
    [[], false],
  ])('%j: %s', (lines, has) => {
    expect(hasTagField(fieldsOf(...lines))).toBe(has);
  });
});

describe('storedTag', () => {
  it('is decoded to its tag, and never equals that of a group', () => {
    const text = fc.oneof(fc.constantFrom('["https://a","g"]', 'tag:', '[', ''), fc.string());
    fc.assert(
      fc.property(text, text, text, (tag, origin, group) => {
        expect(storedTag(tag)).not.toBe(groupTag(origin, group));
        expect(tagOfStored(storedTag(tag))).toBe(tag);
        expect(tagOfStored(groupTag(origin, group))).toBeUndefined();
      }),
    );
  });
});
