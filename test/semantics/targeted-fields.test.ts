import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  parseCacheControl,
  parseDeltaSeconds,
  readCacheControl,
  selectTargetedDirectives,
} from '../../src/semantics/cache-control.ts';
import { inShort } from '../support/values/directives-in-short.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

const names = ['rangeway-cache-control', 'cdn-cache-control'];

/** Returns the field that applies, and its formatted directives. */
function selected(lines: readonly string[], among: readonly string[] = names): readonly [string, string[]] | undefined {
  const targeted = selectTargetedDirectives(fieldsOf(...lines), among);
  return targeted === undefined ? undefined : [targeted.field, targeted.directives.map(inShort)];
}

describe('the directives of a targeted field, RFC 9213 §2.1', () => {
  const rows: readonly (readonly [value: string, directives: readonly string[] | undefined])[] = [
    ['max-age=60', ['max-age=60']],
    ['max-age=60, must-revalidate,no-cache', ['max-age=60', 'must-revalidate', 'no-cache']],
    [
      's-maxage=5, stale-while-revalidate=6, stale-if-error=7',
      ['s-maxage=5', 'stale-while-revalidate=6', 'stale-if-error=7'],
    ],
    ['no-store, private, public, immutable', ['no-store', 'private', 'public', 'immutable']],
    ['proxy-revalidate, must-understand', ['proxy-revalidate', 'must-understand']],
    ['max-age=0', ['max-age=0']],
    ['max-age=-0', ['max-age=0']],
    ['max-age=0060', ['max-age=60']],
    ['max-age=99999999999', ['max-age=99999999999']],
    ['no-cache="set-cookie, X"', ['no-cache="set-cookie, X"']],
    ['private="x"', ['private="x"']],
    // Parameters are ignored.
    ['max-age=60;x;y="no-store"', ['max-age=60']],
    ['max-age=60; private', ['max-age=60']],
    // The last value of a key counts (RFC 9651 §3.2).
    ['max-age=1, max-age=1800', ['max-age=1800']],
    ['max-age=1800, max-age=1', ['max-age=1']],
    // Extensions are ignored, but the field applies.
    ['none', []],
    ['foobar, max-age=3600', ['max-age=3600']],
    ['foo=bar, baz="x", constructor', []],
    // False means that the directive is absent.
    ['no-store=?0, max-age=60', ['max-age=60']],
    ['no-cache=?0, private=?0, max-age=?0', []],
    ['no-store=?1', ['no-store']],
    // A value of another type makes the directive malformed.
    ['max-age="60"', ['!max-age']],
    ['max-age=60.0', ['!max-age']],
    ['max-age=60.5', ['!max-age']],
    ['max-age=-1', ['!max-age']],
    ['max-age=token', ['!max-age']],
    ['max-age', ['!max-age']],
    ['max-age=(60)', ['!max-age']],
    ['max-age=:PA==:', ['!max-age']],
    ['stale-while-revalidate="60"', ['!stale-while-revalidate']],
    ['no-store=5', ['!no-store']],
    ['no-store="x"', ['!no-store']],
    ['must-revalidate=1', ['!must-revalidate']],
    ['public=yes', ['!public']],
    ['no-cache=foo', ['!no-cache']],
    ['private=5', ['!private']],
    // An empty or malformed field does not apply.
    ['', undefined],
    [' ', undefined],
    ['MaX-aGe=60', undefined],
    ['max-age =100', undefined],
    ['max-age= 100', undefined],
    ['max-age=60, &&&&&', undefined],
    ['max-age=60,', undefined],
    ['max-age=60 private', undefined],
    ["max-age='60'", undefined],
    ['max-age=', undefined],
    ['max-age=60s', undefined],
    ['no-cache="x', undefined],
    ['max-age=1000000000000000', undefined],
  ];
  it.each(rows)('%s', (value, directives) => {
    const want = directives === undefined ? undefined : ['cdn-cache-control', directives];
    expect(selected([`CDN-Cache-Control: ${value}`])).toEqual(want);
  });

  it('are read as at most 2147483648 seconds', () => {
    const targeted = selectTargetedDirectives(fieldsOf('CDN-Cache-Control: max-age=999999999999999'), names);
    expect(parseDeltaSeconds(targeted?.directives[0]?.argument)).toBe(2_147_483_648);
  });
});

describe('selectTargetedDirectives, RFC 9213 §2.2', () => {
  const rows: readonly (readonly [lines: readonly string[], want: readonly [string, readonly string[]] | undefined])[] =
    [
      [[], undefined],
      [['Cache-Control: max-age=60'], undefined],
      [['Other-Cache-Control: max-age=60'], undefined],
      [
        ['Cache-Control: no-store', 'CDN-Cache-Control: max-age=60'],
        ['cdn-cache-control', ['max-age=60']],
      ],
      [
        ['CDN-Cache-Control: max-age=1', 'Rangeway-Cache-Control: max-age=2'],
        ['rangeway-cache-control', ['max-age=2']],
      ],
      // All lines of a field are read as one.
      [
        ['CDN-Cache-Control: max-age=1', 'CDN-Cache-Control: private'],
        ['cdn-cache-control', ['max-age=1', 'private']],
      ],
      [
        ['CDN-Cache-Control: max-age=1', 'CDN-Cache-Control: max-age=2'],
        ['cdn-cache-control', ['max-age=2']],
      ],
      [['CDN-Cache-Control: max-age=1', 'CDN-Cache-Control: !'], undefined],
      // An empty or malformed field does not apply, and the next field counts.
      [
        ['Rangeway-Cache-Control:', 'CDN-Cache-Control: max-age=1'],
        ['cdn-cache-control', ['max-age=1']],
      ],
      [
        ['Rangeway-Cache-Control: A', 'CDN-Cache-Control: max-age=1'],
        ['cdn-cache-control', ['max-age=1']],
      ],
      [
        ['Rangeway-Cache-Control: none', 'CDN-Cache-Control: max-age=1'],
        ['rangeway-cache-control', []],
      ],
      [
        ['Rangeway-Cache-Control: max-age="1"', 'CDN-Cache-Control: max-age=1'],
        ['rangeway-cache-control', ['!max-age']],
      ],
    ];
  it.each(rows)('%j', (lines, want) => {
    expect(selected(lines)).toEqual(want);
  });

  it('parses Surrogate-Control by its own syntax, where it is listed', () => {
    const lines = ['Surrogate-Control: Max-Age=60+30;rangeway', 'CDN-Cache-Control: max-age=1'];
    expect(selected(lines, ['surrogate-control', 'cdn-cache-control'])).toEqual([
      'surrogate-control',
      ['max-age=60', 'stale-while-revalidate=30'],
    ]);
    expect(selected(lines, ['cdn-cache-control', 'surrogate-control'])).toEqual(['cdn-cache-control', ['max-age=1']]);
    expect(
      selected(['Surrogate-Control: content="ESI/1.0"', ...lines.slice(1)], ['surrogate-control', ...names]),
    ).toEqual(['cdn-cache-control', ['max-age=1']]);
  });

  it('selects no field with an empty list', () => {
    expect(selected(['CDN-Cache-Control: max-age=60'], [])).toBeUndefined();
  });
});

describe('readCacheControl, any response', () => {
  const parts = ['max-age', 'no-store', 'private', 'x', '=', '60', '"', ',', ' ', ';', '?0', '.0', '(', 'A', '-1', '+'];
  const near = fc.array(fc.constantFrom(...parts), { maxLength: 12 }).map((texts) => texts.join(''));
  const line = fc.tuple(
    fc.constantFrom('cache-control', 'cdn-cache-control', 'rangeway-cache-control', 'surrogate-control'),
    fc.oneof(near, fc.string({ unit: 'binary' })),
  );

  it('never throws, and reads a listed field that is present, or Cache-Control', () => {
    fc.assert(
      fc.property(fc.array(line, { maxLength: 5 }), (fields) => {
        const targetedFields = ['surrogate-control', ...names];
        const targeted = selectTargetedDirectives(fields, targetedFields);
        if (targeted === undefined) {
          expect(readCacheControl(fields, { targetedFields })).toEqual(parseCacheControl(fields));
        } else {
          expect(fields.map(([name]) => name)).toContain(targeted.field);
          expect(targetedFields).toContain(targeted.field);
        }
      }),
      { numRuns: 2000 },
    );
  });

  /** Well-formed members. */
  const wellFormed = fc.uniqueArray(
    fc.constantFrom('max-age=60', 's-maxage=5', 'no-store', 'no-cache', 'private="a, b"', 'public', 'x', 'y=1'),
    { minLength: 1 },
  );

  it('reads well-formed directives the same in a targeted field and in Cache-Control', () => {
    fc.assert(
      fc.property(wellFormed, (members) => {
        const value = members.join(', ');
        const { field, ...targeted } = readCacheControl([['cdn-cache-control', value]], { targetedFields: names });
        const { field: _, ...plain } = parseCacheControl([['cache-control', value]]);
        expect(field).toBe('cdn-cache-control');
        expect(targeted).toEqual(plain);
      }),
    );
  });
});
