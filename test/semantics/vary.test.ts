import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { NominatedField } from '../../src/http/stored-response.ts';
import { formatVariant, matchesNominated, nominatedFields, varyNames } from '../../src/semantics/vary.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

describe('varyNames, RFC 9110 §12.5.5', () => {
  const rows: readonly (readonly [lines: readonly string[], names: readonly string[]])[] = [
    [[], []],
    [['Vary:'], []],
    [['Vary: Accept'], ['accept']],
    [
      ['Vary: Foo, Bar', 'Vary: ,baz,, FOO'],
      ['bar', 'baz', 'foo'],
    ],
    [['Vary: Foo, *'], ['*', 'foo']],
    // A malformed member counts as `*`.
    [['Vary: foo bar'], ['*']],
    [['Vary: : foo'], ['*']],
    [['Vary: "foo"'], ['*']],
    [['Vary: foo; bar'], ['*']],
    [['Vary: foo, b\u00e4r'], ['*', 'foo']],
    [
      ['Vary: foo', 'Vary: bar/baz'],
      ['*', 'foo'],
    ],
    [["Vary: !#$%&'+-.^_`|~0"], ["!#$%&'+-.^_`|~0"]],
  ];
  it.each(rows)('%j', (lines, names) => {
    expect(varyNames(fieldsOf(...lines))).toEqual(names);
  });
});

describe('nominatedFields, RFC 9111 §4.1', () => {
  const rows: readonly (readonly [vary: string, request: readonly string[], nominated: readonly NominatedField[]])[] = [
    ['', ['Foo: 1'], []],
    ['Foo', ['Foo: 1', 'Bar: 2'], [['foo', '1']]],
    [
      'Foo, Bar',
      ['Foo: 1'],
      [
        ['bar', null],
        ['foo', '1'],
      ],
    ],
    ['Foo', ['Foo:'], [['foo', '']]],
    ['Foo', ['Foo: 1', 'Foo: 2'], [['foo', '1,2']]],
    ['User-Agent', ['User-Agent: A (b, C)'], [['user-agent', 'A (b, C)']]],
    ['Accept-Encoding', ['Accept-Encoding: GZip ,\tbr ; Q=1.0,'], [['accept-encoding', 'br,gzip']]],
    ['Accept-Encoding', ['Accept-Encoding: gzip', 'Accept-Encoding: br'], [['accept-encoding', 'br,gzip']]],
    // An empty Accept-Encoding differs from an absent one (RFC 9110 §12.5.3).
    ['Accept-Encoding', ['Accept-Encoding:'], [['accept-encoding', '']]],
    ['Accept-Encoding', [], [['accept-encoding', null]]],
    ['Accept-Language', ['Accept-Language: en;q=0.50, de-CH'], [['accept-language', 'de-ch,en;q=0.5']]],
  ];
  it.each(rows)('Vary: %s for %j', (vary, request, nominated) => {
    expect(nominatedFields(fieldsOf(`Vary: ${vary}`), fieldsOf(...request))).toEqual(nominated);
  });
});

describe('matchesNominated, RFC 9111 §4.1', () => {
  const rows: readonly (readonly [
    vary: string,
    first: readonly string[],
    second: readonly string[],
    matches: boolean,
  ])[] = [
    ['', ['Foo: 1'], ['Foo: 2'], true],
    ['Foo', ['Foo: 1'], ['Foo: 1', 'Other: 2'], true],
    ['Foo', ['Foo: 1'], ['Foo: 2'], false],
    // An absent field matches only an absent one.
    ['Foo', ['Foo: 1'], [], false],
    ['Foo', [], ['Foo: 1'], false],
    ['Foo', [], ['Foo:'], false],
    ['Foo', [], [], true],
    ['Foo, Bar', ['Foo: 1', 'Bar: 2'], ['Bar: 2', 'Foo: 1'], true],
    ['Foo, Bar', ['Foo: 1', 'Bar: 2'], ['Foo: 1', 'Bar: 3'], false],
    // Lines are combined.
    ['Foo', ['Foo: 1, 2'], ['Foo: 1', 'Foo: 2'], true],
    ['Foo', ['Foo: 1, 2'], ['Foo: 2', 'Foo: 1'], false],
    // Values that mean the same.
    ['Foo', ['Foo: 1,2'], ['Foo: 1, 2'], true],
    ['Foo', ['Foo: "1,2"'], ['Foo: "1, 2"'], false],
    ['Accept-Encoding', ['Accept-Encoding: gzip, br'], ['Accept-Encoding: GZIP,br'], true],
    ['Accept-Encoding', ['Accept-Encoding: gzip, br'], ['Accept-Encoding: br', 'Accept-Encoding: x-gzip'], true],
    ['Accept-Encoding', ['Accept-Encoding: gzip, br'], ['Accept-Encoding: gzip, br;q=0.9'], false],
    ['Accept-Encoding', ['Accept-Encoding: gzip'], [], false],
    ['Accept-Encoding', ['Accept-Encoding:'], [], false],
    ['Accept-Language', ['Accept-Language: en, de'], ['Accept-Language: de, en;q=1.0'], true],
    ['Accept-Language', ['Accept-Language: en, de'], ['Accept-Language: fr;q=0.5, de;q=1.0'], false],
    ['Accept', ['Accept: text/html, */*;q=0.1'], ['Accept: Text/HTML,*/*;q=0.10'], true],
    ['Accept', ['Accept: text/html, text/plain'], ['Accept: text/plain, text/html'], false],
    // `*` never matches, even with a field named `*`.
    ['*', [], [], false],
    ['*', ['*: 1'], ['*: 1'], false],
    ['Foo, *', ['Foo: 1'], ['Foo: 1'], false],
    ['foo bar', [], [], false],
    [': foo', [], [], false],
  ];
  it.each(rows)('Vary: %s, stored for %j, request with %j: %s', (vary, first, second, matches) => {
    const nominated = nominatedFields(fieldsOf(`Vary: ${vary}`), fieldsOf(...first));
    expect(matchesNominated(nominated, fieldsOf(...second))).toBe(matches);
  });
});

describe('matchesNominated with values in the form of an earlier version', () => {
  const rows: readonly (readonly [name: string, stored: string | null, asked: readonly string[], matches: boolean])[] =
    [
      ['accept-encoding', 'gzip,br;q=1.0', ['Accept-Encoding: gzip, br'], true],
      ['accept-encoding', 'gzip,br', ['Accept-Encoding: gzip'], false],
      ['accept-language', 'en,de', ['Accept-Language: en, de'], true],
      ['foo', '1, 2', ['Foo: 1, 2'], true],
      ['foo', '', [], false],
      ['foo', null, ['Foo:'], false],
      ['*', '', ['*:'], false],
      ['foo bar', null, [], false],
    ];
  it.each(rows)('%s: %j, request with %j: %s', (name, stored, asked, matches) => {
    expect(matchesNominated([[name, stored]], fieldsOf(...asked))).toBe(matches);
  });
});

describe('formatVariant', () => {
  it('is empty when nothing is nominated', () => {
    expect(formatVariant([])).toBe('');
  });

  it('does not depend on order, case and lines of Vary', () => {
    const request = fieldsOf('A: 1', 'B: 2');
    const one = nominatedFields(fieldsOf('Vary: a, B'), request);
    const two = nominatedFields(fieldsOf('Vary: b', 'Vary: A, a'), request);
    expect(formatVariant(two)).toBe(formatVariant(one));
  });

  it('tells any two different nominations apart', () => {
    const nominated = fc.array(
      fc.tuple(fc.constantFrom('a', 'b', 'a=b'), fc.option(fc.constantFrom('', 'null', '"', ',', '],["b"', 'a'))),
      { maxLength: 3 },
    );
    fc.assert(
      fc.property(nominated, nominated, (one, two) => {
        const isSame =
          one.length === two.length &&
          one.every(([name, value], index) => {
            const other = two[index];
            return other !== undefined && other[0] === name && other[1] === value;
          });
        expect(formatVariant(one) === formatVariant(two)).toBe(isSame);
      }),
    );
  });
});
