import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type CacheControl,
  parseCacheControl,
  parseRequestDirectives,
  type RequestDirectives,
} from '../../src/semantics/cache-control.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

const noDirectives: CacheControl = {
  field: 'cache-control',
  maxAge: undefined,
  sMaxage: undefined,
  noStore: false,
  noCache: false,
  private: false,
  mustRevalidate: false,
  proxyRevalidate: false,
  public: false,
  mustUnderstand: false,
  staleWhileRevalidate: undefined,
  staleIfError: undefined,
  immutable: false,
};

describe('parseCacheControl, RFC 9111 §5.2.2', () => {
  const rows: readonly (readonly [value: string, directives: Partial<CacheControl>])[] = [
    ['', {}],
    ['foobar, foo=bar', {}],
    ['max-age=60', { maxAge: 60 }],
    ['MaX-aGe=60', { maxAge: 60 }],
    ['stale-while-revalidate=5, stale-if-error=6', { staleWhileRevalidate: 5, staleIfError: 6 }],
    ['stale-while-revalidate=5, stale-while-revalidate=4', { staleWhileRevalidate: 4 }],
    // A malformed permission permits nothing.
    ['stale-while-revalidate, stale-if-error=-1', { staleWhileRevalidate: 0, staleIfError: 0 }],
    ['immutable', { immutable: true }],
    ['immutable=1', {}],
    ['s-maxage=60, max-age=1', { sMaxage: 60, maxAge: 1 }],
    ['no-store', { noStore: true }],
    ['must-revalidate, proxy-revalidate', { mustRevalidate: true, proxyRevalidate: true }],
    ['public, must-understand', { public: true, mustUnderstand: true }],
    // Token and quoted-string are both valid for an argument, §5.2.
    ['max-age="60"', { maxAge: 60 }],
    ['extension="max-age=3600", max-age=1', { maxAge: 1 }],
    ['max-age=1, extension="max-age=3600"', { maxAge: 1 }],
    // Of duplicates and conflicts the most restrictive applies, §4.2.1.
    ['max-age=1800, max-age=1', { maxAge: 1 }],
    ['max-age=1, max-age=1800', { maxAge: 1 }],
    ['max-age=60, max-age=abc', { maxAge: 0 }],
    ['public, private', { public: true, private: true }],
    // A malformed lifetime is stale, §4.2.1.
    ['max-age', { maxAge: 0 }],
    ['max-age=', { maxAge: 0 }],
    ['max-age=abc', { maxAge: 0 }],
    ['max-age=-60', { maxAge: 0 }],
    ['max-age=60.0', { maxAge: 0 }],
    ['max-age=60s', { maxAge: 0 }],
    ["max-age='60'", { maxAge: 0 }],
    ['max-age =60', { maxAge: 0 }],
    ['max-age= 60', { maxAge: 0 }],
    ['max-age=60 public', { maxAge: 0 }],
    ['s-maxage=abc, max-age=60', { sMaxage: 0, maxAge: 60 }],
    ['max-age=99999999999', { maxAge: 2_147_483_648 }],
    // A malformed restriction applies; a malformed permission does not.
    ['no-store=x', { noStore: true }],
    ['no-store; max-age=60', { noStore: true, maxAge: 0 }],
    ['max-age=60; private', { maxAge: 0, private: true }],
    ['x="never closed, no-store', { noStore: true }],
    ['must-revalidate=1', { mustRevalidate: true }],
    ['public=yes', {}],
    ['public must-understand', {}],
    // Field names, §5.2.2.4 and §5.2.2.7.
    ['no-cache', { noCache: true }],
    ['no-cache="Foo"', { noCache: ['foo'] }],
    ['no-cache="b, A ,,b"', { noCache: ['a', 'b'] }],
    ['private="set-cookie"', { private: ['set-cookie'] }],
    ['private="a", private="b"', { private: ['a', 'b'] }],
    ['private="a", private', { private: true }],
    ['no-cache, no-cache="a"', { noCache: true }],
    // An empty or malformed list, or a token, restricts the whole response.
    ['private=""', { private: true }],
    ['private=" , "', { private: true }],
    ['private="', { private: true }],
    ['private="a b"', { private: true }],
    ['private=a', { private: true }],
    ['private=true', { private: true }],
    ['no-cache=""', { noCache: true }],
    ['no-cache=a', { noCache: true }],
    // Without these fields the response could not be reused correctly.
    ['private="Vary"', { private: true }],
    ['no-cache="x, cache-control"', { noCache: true }],
    ['private="content-encoding"', { private: true }],
  ];
  it.each(rows)('%s', (value, directives) => {
    expect(parseCacheControl(fieldsOf(`Cache-Control: ${value}`))).toEqual({ ...noDirectives, ...directives });
  });

  it('reads all lines, and no other field', () => {
    const fields = fieldsOf(
      'Cache-Control: max-age=60',
      'Pragma: no-cache',
      'Cache-Control: private="a',
      'Cache-Control: b"',
    );
    expect(parseCacheControl(fields)).toEqual({ ...noDirectives, maxAge: 60, private: true });
  });

  it('returns no directive without the field', () => {
    expect(parseCacheControl([])).toEqual(noDirectives);
  });
});

const directiveText = fc.oneof(
  fc.constantFrom('no-store', 'no-cache', 'private', 'public', 'must-understand', 'must-revalidate', 'max-age=60'),
  fc.constantFrom(
    'max-age=1',
    's-maxage=5',
    's-maxage="7"',
    'max-age=x',
    'private="a, b"',
    'private="c"',
    'private=""',
  ),
  fc.constantFrom('no-cache="a"', 'no-cache="vary"', 'x="no-store"', 'max-age =3', 'public private', 'foo', ''),
);

describe('parseCacheControl, any text', () => {
  it('never throws', () => {
    const nearly = fc.array(fc.constantFrom('max-age', 'private', 'no-cache', '=', '"', '\\', ',', ';', ' ', '1', 'é'));
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      nearly.map((parts) => parts.join('')),
    );
    fc.assert(
      fc.property(fc.array(text), (lines) => {
        const fields = lines.map((line) => ['cache-control', line] as const);
        parseCacheControl(fields);
        parseRequestDirectives(fields);
      }),
    );
  });

  it('does not throw for more directives than a call takes arguments', () => {
    expect(parseCacheControl([['cache-control', 'max-age=1,'.repeat(200_000)]]).maxAge).toBe(1);
  });

  it('does not depend on the order of directives or on their lines', () => {
    const arrangements = fc
      .array(directiveText, { maxLength: 8 })
      .chain((directives) =>
        fc.tuple(
          fc.constant(directives),
          fc.shuffledSubarray(directives, { minLength: directives.length, maxLength: directives.length }),
          fc.integer({ min: 0, max: directives.length }),
        ),
      );
    fc.assert(
      fc.property(arrangements, ([directives, shuffled, cut]) => {
        const one = parseCacheControl([['cache-control', directives.join(', ')]]);
        const two = parseCacheControl([
          ['cache-control', shuffled.slice(0, cut).join(',')],
          ['cache-control', shuffled.slice(cut).join(' , ')],
        ]);
        expect(two).toEqual(one);
      }),
    );
  });

  it('never permits more when a directive is added', () => {
    const lifetime = (seconds: number | undefined) => seconds ?? Number.POSITIVE_INFINITY;
    fc.assert(
      fc.property(fc.array(directiveText, { maxLength: 5 }), directiveText, (directives, added) => {
        const before = parseCacheControl([['cache-control', directives.join(',')]]);
        const after = parseCacheControl([['cache-control', [...directives, added].join(',')]]);
        expect(lifetime(after.maxAge)).toBeLessThanOrEqual(lifetime(before.maxAge));
        expect(lifetime(after.sMaxage)).toBeLessThanOrEqual(lifetime(before.sMaxage));
        expect(after.noStore || !before.noStore).toBe(true);
        expect(after.private === true || before.private !== true).toBe(true);
        expect(after.noCache === true || before.noCache !== true).toBe(true);
      }),
    );
  });
});

describe('parseRequestDirectives, RFC 9111 §5.2.1', () => {
  const noDemands: RequestDirectives = {
    noStore: false,
    noCache: false,
    onlyIfCached: false,
    maxAge: undefined,
    minFresh: undefined,
    maxStale: undefined,
    staleIfError: undefined,
  };
  const rows: readonly (readonly [lines: readonly string[], demands: Partial<RequestDirectives>])[] = [
    [[], {}],
    [['Cache-Control: no-cache'], { noCache: true }],
    [['Cache-Control: no-store'], { noStore: true }],
    [['Cache-Control: only-if-cached'], { onlyIfCached: true }],
    [['Cache-Control: max-age=0'], { maxAge: 0 }],
    [['Cache-Control: max-age=60, max-age=30'], { maxAge: 30 }],
    [['Cache-Control: max-age=abc'], { maxAge: 0 }],
    [['Cache-Control: min-fresh=30, min-fresh=60'], { minFresh: 60 }],
    [['Cache-Control: min-fresh'], { minFresh: 2_147_483_648 }],
    [['Cache-Control: max-stale'], { maxStale: 'any' }],
    [['Cache-Control: max-stale=60'], { maxStale: 60 }],
    [['Cache-Control: max-stale="60"'], { maxStale: 60 }],
    [['Cache-Control: max-stale, max-stale=60'], { maxStale: 60 }],
    [['Cache-Control: max-stale=60, max-stale=30'], { maxStale: 30 }],
    [['Cache-Control: max-stale=abc'], {}],
    [['Cache-Control: max-stale=60, max-stale=abc'], {}],
    [['Cache-Control: max-stale max-age=1'], { maxAge: 0 }],
    // Pragma, §5.4.
    [['Pragma: no-cache'], { noCache: true }],
    [['Pragma: foo, No-Cache'], { noCache: true }],
    [['Pragma: foo'], {}],
    [['Pragma: no-cache', 'Cache-Control: max-age=60'], { maxAge: 60 }],
  ];
  it.each(rows)('%j', (lines, demands) => {
    expect(parseRequestDirectives(fieldsOf(...lines))).toEqual({ ...noDemands, ...demands });
  });
});
