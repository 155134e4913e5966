import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  groupsToInvalidate,
  groupTag,
  maxGroupLength,
  maxGroups,
  parseCacheGroups,
} from '../../src/semantics/invalidation.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

describe('parseCacheGroups, RFC 9875 §2', () => {
  const rows: readonly (readonly [lines: readonly string[], groups: readonly string[]])[] = [
    [[], []],
    [['Cache-Groups:'], []],
    [['Cache-Groups: "scripts"'], ['scripts']],
    [
      ['Cache-Groups: "a", "b"', 'Cache-Groups: "c"'],
      ['a', 'b', 'c'],
    ],
    [['Cache-Groups: "a";revalidate, "b";x=1'], ['a', 'b']],
    [['Cache-Groups: "a", "A", "a", " a"'], ['a', 'A', ' a']],
    [['Cache-Groups: ""'], ['']],
    [['Cache-Groups: "x, \\"y\\""'], ['x, "y"']],
    [['Cache-Group-Invalidation: "a"'], []],
    // A field that is no List of Strings is ignored as a whole.
    [['Cache-Groups: "a", b'], []],
    [['Cache-Groups: ("a" "b")'], []],
    [['Cache-Groups: "a", 1'], []],
    [['Cache-Groups: "a",'], []],
    [['Cache-Groups: "a'], []],
    [['Cache-Groups: "a"', 'Cache-Groups: !'], []],
  ];
  it.each(rows)('%j', (lines, groups) => {
    expect(parseCacheGroups(fieldsOf(...lines))).toEqual(groups);
  });

  it('accepts groups up to the maximum number and length, which are at least those of the RFC', () => {
    const groups = (count: number, length: number) =>
      Array.from({ length: count }, (_, index) => `${index}-`.padEnd(length, 'x'));
    const read = (texts: readonly string[]) =>
      parseCacheGroups([['cache-groups', texts.map((text) => `"${text}"`).join(', ')]]);
    const allowed = groups(maxGroups, maxGroupLength);
    expect(maxGroups).toBeGreaterThanOrEqual(32);
    expect(maxGroupLength).toBeGreaterThanOrEqual(32);
    expect(read(allowed)).toEqual(allowed);
    expect(read([...allowed, 'more'])).toEqual(allowed);
    expect(read(['a', ...groups(2, maxGroupLength + 1), 'b'])).toEqual(['a', 'b']);
  });
});

describe('groupsToInvalidate, RFC 9875 §3', () => {
  const field = 'Cache-Group-Invalidation: "a", "b";x';
  const rows: readonly (readonly [
    method: string,
    status: number,
    lines: readonly string[],
    groups: readonly string[],
  ])[] = [
    ['POST', 200, [field], ['a', 'b']],
    ['PUT', 201, [field], ['a', 'b']],
    ['DELETE', 204, [field], ['a', 'b']],
    ['PATCH', 303, [field], ['a', 'b']],
    ['M-SEARCH', 200, [field], ['a', 'b']],
    ['get', 200, [field], ['a', 'b']],
    ['POST', 200, [], []],
    ['POST', 200, ['Cache-Groups: "a"'], []],
    ['POST', 200, ['Cache-Group-Invalidation: a'], []],
    // Safe methods.
    ['GET', 200, [field], []],
    ['HEAD', 200, [field], []],
    ['OPTIONS', 204, [field], []],
    ['TRACE', 200, [field], []],
    // Errors.
    ['POST', 103, [field], []],
    ['POST', 400, [field], []],
    ['POST', 403, [field], []],
    ['POST', 500, [field], []],
  ];
  it.each(rows)('%s %d %j', (method, status, lines, groups) => {
    expect(groupsToInvalidate({ method, response: { status, fields: fieldsOf(...lines) } })).toEqual(groups);
  });
});

describe('groupTag', () => {
  it('differs for each group of each origin', () => {
    const text = fc.oneof(fc.constantFrom('https://a', 'https://a:8080', '"', '","', 'a', ''), fc.string());
    fc.assert(
      fc.property(text, text, text, text, (origin, group, otherOrigin, otherGroup) => {
        const isSame = origin === otherOrigin && group === otherGroup;
        expect(groupTag(origin, group) === groupTag(otherOrigin, otherGroup)).toBe(isSame);
      }),
    );
    expect(groupTag('https://example.com', 'a')).toBe('["https://example.com","a"]');
  });
});

it('never throws for a field of groups', () => {
  const parts = ['"a"', '"', ',', ' ', ';', 'a', '=', '(', ')', '1'];
  const near = fc.array(fc.constantFrom(...parts), { maxLength: 10 }).map((texts) => texts.join(''));
  fc.assert(
    fc.property(fc.oneof(near, fc.string({ unit: 'binary' })), (text) => {
      const groups = parseCacheGroups([['cache-groups', text]]);
      expect(new Set(groups).size).toBe(groups.length);
      const response = { status: 200, fields: [['cache-group-invalidation', text]] as const };
      expect(groupsToInvalidate({ method: 'POST', response })).toEqual(groups);
    }),
    { numRuns: 1000 },
  );
});
