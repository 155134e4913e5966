import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatHttpDate, parseDateField, parseHttpDate } from '../../src/semantics/http-date.ts';

const now = Date.UTC(2026, 6, 1, 12, 0, 0);
const example = Date.UTC(1994, 10, 6, 8, 49, 37);

describe('parseHttpDate, RFC 9110 §5.6.7', () => {
  const valid: readonly (readonly [text: string, wanted: number])[] = [
    // The three formats of the same instant.
    ['Sun, 06 Nov 1994 08:49:37 GMT', example],
    ['Sunday, 06-Nov-94 08:49:37 GMT', example],
    ['Sun Nov  6 08:49:37 1994', example],
    ['Sun Nov 06 08:49:37 1994', example],
    ['Wed Nov 16 08:49:37 1994', Date.UTC(1994, 10, 16, 8, 49, 37)],
    ['Thu, 01 Jan 1970 00:00:00 GMT', 0],
    ['Thu, 29 Feb 2024 23:59:59 GMT', Date.UTC(2024, 1, 29, 23, 59, 59)],
    ['Fri, 31 Dec 9999 23:59:59 GMT', Date.UTC(9999, 11, 31, 23, 59, 59)],
    ['Sat, 01 Jan 0000 00:00:00 GMT', Date.parse('0000-01-01T00:00:00Z')],
    ['Tue, 01 Jan 0050 00:00:00 GMT', Date.parse('0050-01-01T00:00:00Z')],
    // A leap second.
    ['Sat, 31 Dec 2016 23:59:60 GMT', Date.UTC(2017, 0, 1)],
    // The weekday is not compared with the date.
    ['Mon, 06 Nov 1994 08:49:37 GMT', example],
  ];
  it.each(valid)('%j', (text, wanted) => {
    expect(parseHttpDate(text, now)).toBe(wanted);
  });

  const invalid: readonly string[] = [
    '',
    '0',
    '-1',
    'now',
    '784111777',
    '1994-11-06T08:49:37Z',
    'Nov 6 1994',
    '06 Nov 1994 08:49:37 GMT',
    'Sun, 06 Nov 1994 08:49:37',
    'Sun, 06 Nov 1994 08:49:37 UTC',
    'Sun, 06 Nov 1994 08:49:37 +0000',
    'Sun, 06 Nov 1994 09:49:37 CET',
    'Sun, 06 Nov 1994 08:49:37 gmt',
    'sun, 06 Nov 1994 08:49:37 GMT',
    'Sun, 06 nov 1994 08:49:37 GMT',
    'SUN, 06 NOV 1994 08:49:37 GMT',
    'Son, 06 Nov 1994 08:49:37 GMT',
    'Sunday, 06 Nov 1994 08:49:37 GMT',
    'Sun, 06-Nov-94 08:49:37 GMT',
    'Sunday, 06-Nov-1994 08:49:37 GMT',
    'Sunday, 6-Nov-94 08:49:37 GMT',
    'Sun, 06 Nov 94 08:49:37 GMT',
    'Sun, 6 Nov 1994 08:49:37 GMT',
    'Sun, 06 Nov 1994 8:49:37 GMT',
    'Sun, 06 Nov 1994 08:49 GMT',
    'Sun,  06 Nov 1994 08:49:37 GMT',
    'Sun,06 Nov 1994 08:49:37 GMT',
    ' Sun, 06 Nov 1994 08:49:37 GMT',
    'Sun, 06 Nov 1994 08:49:37 GMT ',
    'Sun, 06 Nov 1994 08:49:37 GMT\n',
    'Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT',
    'Sun, 06 Nov 1994 08:49:37.5 GMT',
    'Sun Nov 6 08:49:37 1994',
    'Sun Nov  06 08:49:37 1994',
    'Sun Nov  6 08:49:37 94',
    'Sun Nov  6 08:49:37 1994 GMT',
    // Days and times that do not exist.
    'Sun, 00 Nov 1994 08:49:37 GMT',
    'Sun, 31 Nov 1994 08:49:37 GMT',
    'Sun, 32 Jan 1994 08:49:37 GMT',
    'Sun, 29 Feb 1994 08:49:37 GMT',
    'Sun, 29 Feb 1900 08:49:37 GMT',
    'Sun, 30 Feb 2024 08:49:37 GMT',
    'Monday, 29-Feb-93 08:49:37 GMT',
    'Sun Feb 30 08:49:37 2024',
    'Sun, 06 Nov 1994 24:00:00 GMT',
    'Sun, 06 Nov 1994 08:60:00 GMT',
    'Sun, 06 Nov 1994 08:49:61 GMT',
  ];
  it.each(invalid.map((text) => [text]))('%j is no HTTP-date', (text) => {
    expect(parseHttpDate(text, now)).toBeUndefined();
  });

  const utc = (text: string): number => Date.parse(text);
  const twoDigitYears: readonly (readonly [text: string, now: string, wanted: string])[] = [
    ['Sunday, 06-Nov-94 08:49:37 GMT', '2026-07-01T12:00:00Z', '1994-11-06T08:49:37Z'],
    ['Sunday, 06-Nov-26 08:49:37 GMT', '2026-07-01T12:00:00Z', '2026-11-06T08:49:37Z'],
    ['Sunday, 06-Nov-00 08:49:37 GMT', '2026-07-01T12:00:00Z', '2000-11-06T08:49:37Z'],
    // Fifty years ahead is the future, one second more is the past.
    ['Wednesday, 01-Jul-76 12:00:00 GMT', '2026-07-01T12:00:00Z', '2076-07-01T12:00:00Z'],
    ['Wednesday, 01-Jul-76 12:00:01 GMT', '2026-07-01T12:00:00Z', '1976-07-01T12:00:01Z'],
    ['Wednesday, 01-Jul-77 12:00:00 GMT', '2026-07-01T12:00:00Z', '1977-07-01T12:00:00Z'],
    // Around the turn of a century.
    ['Friday, 01-Jan-05 00:00:00 GMT', '1999-06-01T00:00:00Z', '2005-01-01T00:00:00Z'],
    ['Friday, 01-Jan-60 00:00:00 GMT', '1999-06-01T00:00:00Z', '1960-01-01T00:00:00Z'],
    ['Friday, 01-Jan-10 00:00:00 GMT', '2090-06-01T00:00:00Z', '2110-01-01T00:00:00Z'],
    ['Friday, 01-Jan-80 00:00:00 GMT', '2090-06-01T00:00:00Z', '2080-01-01T00:00:00Z'],
    // 2100 has no 29th of February.
    ['Tuesday, 29-Feb-00 00:00:00 GMT', '2060-06-01T00:00:00Z', '2000-02-29T00:00:00Z'],
    ['Thursday, 29-Feb-24 00:00:00 GMT', '2026-07-01T12:00:00Z', '2024-02-29T00:00:00Z'],
  ];
  it.each(twoDigitYears)('%s read at %s', (text, at, wanted) => {
    expect(parseHttpDate(text, utc(at))).toBe(utc(wanted));
  });

  it('takes a two-digit year for the latest matching year that is at most fifty years ahead', () => {
    const second = fc.integer({ min: utc('1970-01-01') / 1000, max: utc('2400-01-01') / 1000 });
    fc.assert(
      fc.property(second, second, (at, written) => {
        const date = new Date(written * 1000);
        fc.pre(!(date.getUTCMonth() === 1 && date.getUTCDate() === 29));
        const imf = formatHttpDate(written * 1000);
        const text = `Monday, ${imf.slice(5, 7)}-${imf.slice(8, 11)}-${imf.slice(14)}`;
        const got = parseHttpDate(text, at * 1000) ?? Number.NaN;
        const inFiftyYears = new Date(at * 1000).setUTCFullYear(new Date(at * 1000).getUTCFullYear() + 50);
        expect(formatHttpDate(got).slice(14)).toBe(imf.slice(14));
        expect(got).toBeLessThanOrEqual(inFiftyYears);
        expect(new Date(got).setUTCFullYear(new Date(got).getUTCFullYear() + 100)).toBeGreaterThan(inFiftyYears);
      }),
      { numRuns: 1_000 },
    );
  });

  it('never throws, and accepts only formatted dates and the older formats', () => {
    const mutated = fc
      .tuple(fc.integer({ min: 0, max: 4_102_444_800 }), fc.nat(28), fc.constantFrom('', '0', '9', ' ', 'a', ':', '-'))
      .map(([seconds, at, inserted]) => {
        const text = formatHttpDate(seconds * 1000);
        return text.slice(0, at) + inserted + text.slice(at + 1);
      });
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary' }), mutated), (text) => {
        const instant = parseHttpDate(text, now);
        if (instant === undefined || text.endsWith(':60 GMT')) return;
        // All but the weekday is the same.
        expect(formatHttpDate(instant).slice(3)).toBe(text.slice(3));
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('formatHttpDate', () => {
  const rows: readonly (readonly [ms: number, wanted: string])[] = [
    [example, 'Sun, 06 Nov 1994 08:49:37 GMT'],
    [0, 'Thu, 01 Jan 1970 00:00:00 GMT'],
    [999, 'Thu, 01 Jan 1970 00:00:00 GMT'],
    [Date.UTC(9999, 11, 31, 23, 59, 59), 'Fri, 31 Dec 9999 23:59:59 GMT'],
  ];
  it.each(rows)('%i', (ms, wanted) => {
    expect(formatHttpDate(ms)).toBe(wanted);
  });

  it('is parsed by parseHttpDate to the same second', () => {
    const seconds = fc.integer({ min: Date.parse('0000-01-01') / 1000, max: Date.parse('9999-12-31') / 1000 });
    fc.assert(
      fc.property(seconds, fc.nat(999), (second, ms) => {
        expect(parseHttpDate(formatHttpDate(second * 1000 + ms), now)).toBe(second * 1000);
      }),
    );
  });
});

describe('parseDateField', () => {
  it.each([
    [[['date', 'Sun, 06 Nov 1994 08:49:37 GMT']], example],
    [[['expires', 'Sun, 06 Nov 1994 08:49:37 GMT']], undefined],
    [[['date', '0']], undefined],
    [
      [
        ['date', 'Sun, 06 Nov 1994 08:49:37 GMT'],
        ['date', 'Sun, 06 Nov 1994 08:49:37 GMT'],
      ],
      undefined,
    ],
  ] as [[string, string][], number | undefined][])('%j', (fields, wanted) => {
    expect(parseDateField(fields, 'date', now)).toBe(wanted);
  });
});
