import { describe, expect, it } from 'vitest';
import { parseCacheDirectives, parseDeltaSeconds } from '../../src/semantics/cache-control.ts';
import { inShort } from '../support/values/directives-in-short.ts';

const directivesIn = (lines: readonly string[]): string[] => parseCacheDirectives(lines).map(inShort);

describe('parseCacheDirectives, RFC 9111 §5.2', () => {
  const rows: readonly (readonly [value: string, directives: readonly string[]])[] = [
    ['', []],
    ['no-store', ['no-store']],
    ['No-StOrE', ['no-store']],
    ['max-age=60, public', ['max-age=60', 'public']],
    ['max-age=60,public', ['max-age=60', 'public']],
    [' ,\t, public ,,', ['public']],
    ['max-age="60"', ['max-age="60"']],
    ['private="a, b", public', ['private="a, b"', 'public']],
    ['x="a\\"b, c", public', ['x="a"b, c"', 'public']],
    ['x="\\\\", public', ['x="\\"', 'public']],
    ['x="", public', ['x=""', 'public']],
    ['x="max-age=3600", max-age=1', ['x="max-age=3600"', 'max-age=1']],
    ["max-age='60'", ["max-age='60'"]],
    ['max-age=3600.5', ['max-age=3600.5']],
    // Of a malformed member each word is a directive of its own.
    ['max-age =60', ['!max-age', '!60']],
    ['max-age= 60', ['!max-age', '!60']],
    ['max-age=', ['!max-age']],
    ['=60', ['!60']],
    ['max-age=60; private', ['!max-age', '!60', '!private']],
    ['max-age=60 no-store', ['!max-age', '!60', '!no-store']],
    ['max-age:60', ['!max-age', '!60']],
    ['"no-store"', ['!no-store']],
    ['public="a"b', ['!public', '!a', '!b']],
    // A quote that is never closed, or does not follow `=`, quotes nothing.
    ['x="a, no-store', ['!x', '!a', 'no-store']],
    ['x="a\\", no-store', ['!x', '!a', 'no-store']],
    ['x", no-store, y"', ['!x', 'no-store', '!y']],
    ['x="a", y="b, no-store', ['x="a"', '!y', '!b', 'no-store']],
  ];
  it.each(rows)('%s', (value, directives) => {
    expect(directivesIn([value])).toEqual(directives);
  });

  it('parses each line by itself: a quote opened on one line hides nothing on the next', () => {
    expect(directivesIn(['x="a', 'no-store', 'y="b"'])).toEqual(['!x', '!a', 'no-store', 'y="b"']);
  });
});

describe('parseDeltaSeconds, RFC 9111 §1.2.2', () => {
  const rows: readonly (readonly [text: string | undefined, seconds: number | undefined])[] = [
    ['0', 0],
    ['60', 60],
    ['0060', 60],
    ['2147483647', 2_147_483_647],
    ['2147483648', 2_147_483_648],
    ['2147483649', 2_147_483_648],
    ['9'.repeat(400), 2_147_483_648],
    [undefined, undefined],
    ['', undefined],
    ['-1', undefined],
    ['+1', undefined],
    ['1.5', undefined],
    ['1e3', undefined],
    ['0x10', undefined],
    [' 1', undefined],
    ['60s', undefined],
    ['١', undefined],
  ];
  it.each(rows)('%s', (text, seconds) => {
    expect(parseDeltaSeconds(text)).toBe(seconds);
  });
});
