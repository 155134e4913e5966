/** Selection and look-up of query parameters. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hasParameter, looksSigned, type QuerySelection, selectParameters } from '../../src/semantics/query.ts';

const keep = (...names: string[]): QuerySelection => ({ keep: names });
const ignore = (...names: string[]): QuerySelection => ({ ignore: names });

describe('selectParameters', () => {
  it.each<[query: string, selection: QuerySelection, want: string]>([
    ['', 'all', ''],
    ['?', 'all', '?'],
    ['?b=2&a=1', 'all', '?b=2&a=1'],
    ['?b=2&a=1', 'none', ''],
    ['?', 'none', ''],
    ['?a;b', 'none', ''],
    ['', keep('a'), ''],
    ['?', keep('a'), ''],
    ['?b=2&a=1', keep('a'), '?a=1'],
    ['?b=2&a=1', keep('a', 'b'), '?b=2&a=1'],
    ['?b=2', keep('a'), ''],
    ['?b=2', keep(), ''],
    ['?a=2&b=0&a=1&a', keep('a'), '?a=2&a=1&a'],
    ['?A=1', keep('a'), ''],
    ['?ab=1&b=a', keep('a'), ''],
    ['?p_1=1&p_=2&p=3', keep('p_*'), '?p_1=1&p_=2'],
    ['?a=b=c', keep('a'), '?a=b=c'],
    ['?%61=1&a%20=2&%2561=3', keep('a', 'a '), '?%61=1&a%20=2'],
    ['?%e4=1&%=2&%zz=3', keep('%e4', '%'), '?%e4=1&%=2'],
    ['?a=1?b=2', keep('b'), ''],
    ['?x=1;a=2&y=3', keep('a'), '?x=1;a=2'],
    ['', ignore('a'), ''],
    ['?', ignore('a'), '?'],
    ['?b=2&a=1', ignore('a'), '?b=2'],
    ['?a=1', ignore('a'), ''],
    ['?a=1&a=2', ignore('a'), ''],
    ['?a=1', ignore(), '?a=1'],
    ['?utm_source=x&b=2&utm_=y&utm=z', ignore('utm_*'), '?b=2&utm=z'],
    ['?%75tm_x=1&b', ignore('utm_*'), '?b'],
    ['?b&&a=1&', ignore('a'), '?b&&'],
    ['?utm_x=1;id=2', ignore('utm_*'), '?utm_x=1;id=2'],
  ])('%s by %j', (query, selection, want) => expect(selectParameters(query, selection)).toBe(want));

  it('gives different results exactly where selected parameters differ', () => {
    const parameter = fc.record({
      name: fc.constantFrom('a', 'b', 'utm_x', ''),
      value: fc.constantFrom('', '=', '=1'),
    });
    const parameters = fc.array(parameter, { maxLength: 4 });
    const queryOf = (list: readonly { name: string; value: string }[]) =>
      list.length === 0 ? '' : `?${list.map(({ name, value }) => name + value).join('&')}`;
    const selections: readonly (readonly [QuerySelection, (name: string) => boolean])[] = [
      ['all', () => true],
      ['none', () => false],
      [keep('a', 'utm_*'), (name) => name === 'a' || name === 'utm_x'],
      [ignore('a', 'utm_*'), (name) => name === 'b' || name === ''],
    ];
    fc.assert(
      fc.property(parameters, parameters, fc.constantFrom(...selections), (one, other, [selection, counts]) => {
        const [want, otherWant] = [one, other].map((list) => list.filter(({ name }) => counts(name)));
        const isSame = selectParameters(queryOf(one), selection) === selectParameters(queryOf(other), selection);
        expect(isSame).toBe(JSON.stringify(want) === JSON.stringify(otherWant));
      }),
      { numRuns: 3000 },
    );
  });
});

describe('hasParameter', () => {
  it.each<[query: string, names: readonly string[], want: boolean]>([
    ['', ['a'], false],
    ['?', ['a'], false],
    ['?a', [], false],
    ['?a', ['a'], true],
    ['?b=a', ['a'], false],
    ['?b=1&a=', ['a'], true],
    ['?b=1;a=1', ['a'], true],
    ['?%61', ['a'], true],
    ['?A', ['a'], false],
    ['?preview_id=3', ['preview_*'], true],
    ['?preview=3', ['preview_*'], false],
  ])('%s, %j', (query, names, want) => expect(hasParameter(query, names)).toBe(want));
});

describe('a query that looks as if it held a token or a signature', () => {
  it.each<[string, boolean]>([
    ['token=1', true],
    ['a=1&Expires=1700000000', true],
    ['X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=ab', true],
    ['x-goog-signature=00', true],
    ['sv=2024-01-01&sig=a%3D', true],
    ['downloadToken=x', true],
    ['md5=abc&expires=1', true],
    ['f=9f86d081884c7d659a2feaa0c55ad015', true],
    ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0', true],
    ['', false],
    ['v=3', false],
    ['id=12345678901234567890', false],
    ['name=a-film-with-a-long-title', false],
    ['page=2&sort=name', false],
    ['w=1920&h=1080&format=webp', false],
  ])('%s: %s', (query, expected) => expect(looksSigned(query)).toBe(expected));
});
