import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseDictionary, parseStrings } from '../../src/semantics/structured-fields.ts';

/** Formats each member as `key=` and its value, bytes in hexadecimal, or as `key other`. */
function inShort(lines: readonly string[]): string[] | undefined {
  const members = parseDictionary(lines);
  return members === undefined
    ? undefined
    : [...members].map(([key, value]) => {
        if (value.kind === 'other') return `${key} other`;
        return `${key}=${value.kind === 'bytes' ? `:${Buffer.from(value.value).toString('hex')}:` : JSON.stringify(value.value)}`;
      });
}

describe('parseDictionary, RFC 9651 §4.2.2', () => {
  const rows: readonly (readonly [lines: readonly string[], members: readonly string[] | undefined])[] = [
    [[], []],
    [[''], []],
    [['   '], []],
    [['a'], ['a=true']],
    [['a=?0, b=?1'], ['a=false', 'b=true']],
    [['a=60,b=-1 ,\tc=999999999999999'], ['a=60', 'b=-1', 'c=999999999999999']],
    [['a="x, \\"y\\""'], ['a="x, \\"y\\""']],
    [['a=:AQI=:'], ['a=:0102:']],
    [['*a-b_c.d=1'], ['*a-b_c.d=1']],
    // Parameters are ignored.
    [['a;x;y=2, b=1;z="q"'], ['a=true', 'b=1']],
    // The last value of a key counts.
    [['a=1, b=2, a=3'], ['a=3', 'b=2']],
    // All lines are one dictionary.
    [
      ['a=1', 'b=2, c'],
      ['a=1', 'b=2', 'c=true'],
    ],
    // Decimals are not integers, whatever their fraction is.
    [['a=60.0'], ['a other']],
    [['a=60.5'], ['a other']],
    [['a=-0.0;x=1'], ['a other']],
    [['a=1;x=1.5'], ['a=1']],
    [['a;x=1.5, b=2'], ['a=true', 'b=2']],
    [['a="b=1.0, c=1.0", c=1'], ['a="b=1.0, c=1.0"', 'c=1']],
    [['a="\\", b=1.0", b=1'], ['a="\\", b=1.0"', 'b=1']],
    [['a=%"b=1.0, c=1.0\\", c=1'], ['a other', 'c=1']],
    [['a=(1.0 "b=1.0, c=1.0"), c=1'], ['a other', 'c=1']],
    [['a=60.0, a=60'], ['a=60']],
    [['a=60, a=60.0'], ['a other']],
    // Other types.
    [['a=token'], ['a other']],
    [['a=(1 2)'], ['a other']],
    [['a=@1659578233'], ['a other']],
    [['a=%"f%c3%bc"'], ['a other']],
    // Malformed dictionaries.
    [['a,'], undefined],
    [['a', ''], undefined],
    [[',a'], undefined],
    [['A=1'], undefined],
    [['a =1'], undefined],
    [['a= 1'], undefined],
    [['a=1 b=2'], undefined],
    [['a=1, &&&'], undefined],
    [['a='], undefined],
    [['a="x'], undefined],
    [['a="x', 'y"'], ['a="x, y"']],
    [["a='x'"], undefined],
    [['a=1.'], undefined],
    [['a=1000000000000000'], undefined],
    [['a="é"'], undefined],
    [['1=a'], undefined],
  ];
  it.each(rows)('%j', (lines, members) => {
    expect(inShort(lines)).toEqual(members);
  });
});

describe('parseStrings, RFC 9651 §4.2.1', () => {
  const rows: readonly (readonly [lines: readonly string[], strings: readonly string[] | undefined])[] = [
    [[], []],
    [[''], []],
    [['"a"'], ['a']],
    [['"a","b" ,\t"A"'], ['a', 'b', 'A']],
    [
      ['"a"', '"b"'],
      ['a', 'b'],
    ],
    [['"a";x, "b";y=1'], ['a', 'b']],
    [['"a, \\"b\\" \\\\"'], ['a, "b" \\']],
    [['""'], ['']],
    // A member that is no String makes the field invalid.
    [['"a", b'], undefined],
    [['"a", 1'], undefined],
    [['("a" "b")'], undefined],
    [[':AQI=:'], undefined],
    // Malformed lists.
    [['"a",'], undefined],
    [['"a" "b"'], undefined],
    [['"a'], undefined],
    [['"é"'], undefined],
    [['"\\a"'], undefined],
  ];
  it.each(rows)('%j', (lines, strings) => {
    expect(parseStrings(lines)).toEqual(strings);
  });
});

describe('parseDictionary and parseStrings, any text', () => {
  const parts = [
    'a',
    'b',
    '=',
    ',',
    ' ',
    ';',
    '"',
    '\\',
    '(',
    ')',
    '?1',
    '@9',
    '%"',
    '%',
    ':',
    'AA',
    '1',
    '.',
    '-',
    '\t',
  ];
  const near = fc.array(fc.constantFrom(...parts), { maxLength: 20 }).map((texts) => texts.join(''));
  const lines = fc.array(fc.oneof(near, fc.string({ unit: 'binary' })), { maxLength: 3 });

  it('never throw, and give the same for several lines as for the joined text', () => {
    fc.assert(
      fc.property(lines, (texts) => {
        expect(parseDictionary(texts)).toEqual(parseDictionary([texts.join(', ')]));
        expect(parseStrings(texts)).toEqual(parseStrings([texts.join(', ')]));
      }),
      { numRuns: 2000 },
    );
  });

  const number = fc.constantFrom('0', '60', '-1', '60.0', '1.5', '-2.25');
  const text = fc.constantFrom('"x"', '"a=1.0, b=2"', '"\\", a=1.0"', '%"a=1.0, b=1.0\\"', 'a1.0', '?1', '(1.0 2)');
  const member = fc.record({
    key: fc.constantFrom('a', 'b', 'c.1'),
    value: fc.oneof(number, text),
    parameters: fc.constantFrom('', ';x', ';x=1.5', ';x="a=1.0, b=1.0"'),
  });

  it('give integers exactly for members that are written as integers', () => {
    fc.assert(
      fc.property(fc.array(member, { maxLength: 5 }), (members) => {
        const dictionary = parseDictionary(members.map(({ key, value, parameters }) => `${key}=${value}${parameters}`));
        const integers = [...new Map(members.map(({ key, value }) => [key, value]))]
          .filter(([, value]) => /^-?\d+$/.test(value))
          .map(([key, value]) => [key, Number(value)]);
        const got = [...(dictionary ?? [])].flatMap(([key, value]) =>
          value.kind === 'integer' ? [[key, value.value]] : [],
        );
        expect(got).toEqual(integers);
      }),
      { numRuns: 1000 },
    );
  });
});
