import { describe, expect, it } from 'vitest';
import { parseCacheControl } from '../../src/semantics/cache-control.ts';
import {
  ageSeconds,
  ageTerms,
  currentAgeMs,
  type FreshnessSource,
  freshnessLifetime,
  isExplicit,
  lifetimeField,
  mayServeStale,
  mayUseHeuristic,
  staleBan,
} from '../../src/semantics/freshness.ts';
import { defaultCaching as policy } from '../support/proxies/default-caching.ts';
import { fieldsOf, sentAt, sentDate, storedWith } from '../support/values/fields-of.ts';

const date = `Date: ${sentDate}`;
const dayBefore = 'Wed, 31 Dec 2025 12:00:00 GMT';
const hourAfter = 'Thu, 01 Jan 2026 13:00:00 GMT';
const hourMs = 3_600_000;

describe('freshnessLifetime, RFC 9111 §4.2.1', () => {
  const rows: readonly (readonly [lines: readonly string[], seconds: number, source: FreshnessSource])[] = [
    [['Cache-Control: s-maxage=9, max-age=60', `Expires: ${hourAfter}`], 9, 's-maxage'],
    [['Cache-Control: s-maxage=x, max-age=60'], 0, 's-maxage'],
    [['Cache-Control: max-age=60', `Expires: ${hourAfter}`, date], 60, 'max-age'],
    [['Cache-Control: max-age=60', 'Expires: 0'], 60, 'max-age'],
    [['Cache-Control: max-age=0', `Expires: ${hourAfter}`], 0, 'max-age'],
    [['Cache-Control: max-age=abc', `Expires: ${hourAfter}`], 0, 'max-age'],
    [[date, `Expires: ${hourAfter}`], 3600, 'expires'],
    [[date, `Expires: ${sentDate}`], 0, 'expires'],
    [[date, `Expires: ${dayBefore}`], 0, 'expires'],
    // The lifetime counts from the origin's Date, not from the own clock.
    [[`Date: ${dayBefore}`, `Expires: ${sentDate}`], 86_400, 'expires'],
    [[`Expires: ${hourAfter}`], 3600, 'expires'],
    [['Date: yesterday', `Expires: ${hourAfter}`], 3600, 'expires'],
    // §5.3: an invalid date is in the past. Of several lines the earliest counts.
    [[date, 'Expires: 0'], 0, 'expires'],
    [[date, 'Expires:'], 0, 'expires'],
    [[date, 'Expires: Thu, 01 Jan 2026 13:00:00 UTC'], 0, 'expires'],
    [[date, 'Expires: Thu 01 Jan 2026 13:00:00 GMT'], 0, 'expires'],
    [[date, `Expires: ${hourAfter}`, 'Expires: 0'], 0, 'expires'],
    [[date, 'Expires: Fri, 02 Jan 2026 12:00:00 GMT', `Expires: ${hourAfter}`], 3600, 'expires'],
    [[date, 'Expires: Sun, 21 Nov 2286 04:46:39 GMT'], 2_147_483_648, 'expires'],
    // §4.2: dates are not case-sensitive.
    [[date, 'Expires: THU, 01 Jan 2026 13:00:00 GMT'], 3600, 'expires'],
    [[date, 'Expires: Thu, 01 JAN 2026 13:00:00 gMT'], 3600, 'expires'],
    [[date, 'Expires: thursday, 01-jan-26 13:00:00 gmt'], 3600, 'expires'],
    [[date, 'Expires: THU JAN  1 13:00:00 2026'], 3600, 'expires'],
    // The heuristic, §4.2.2.
    [[date, `Last-Modified: ${dayBefore}`], 8640, 'heuristic'],
    [[`Last-Modified: ${dayBefore}`], 8640, 'heuristic'],
    [[date, `Last-Modified: ${hourAfter}`], 0, 'heuristic'],
    [[date, 'Last-Modified: Wed, 01 Jan 2020 00:00:00 GMT'], 86_400, 'heuristic'],
    [[date, 'Last-Modified: yesterday'], 0, 'none'],
    [[date, 'Cache-Control: public', `Last-Modified: ${dayBefore}`], 8640, 'heuristic'],
    [[date, 'Cache-Control: max-age=0', `Last-Modified: ${dayBefore}`], 0, 'max-age'],
    [[date], 0, 'none'],
    [[date, 'ETag: "a"'], 0, 'none'],
    [[], 0, 'none'],
  ];
  it.each(rows)('%j', (lines, seconds, source) => {
    expect(freshnessLifetime(storedWith(lines), policy)).toEqual({
      lifetimeMs: seconds * 1000,
      source,
    });
  });

  const withDefault: readonly (readonly [lines: readonly string[], seconds: number, source: FreshnessSource])[] = [
    [[date], 300, 'default'],
    [[date, `Last-Modified: ${dayBefore}`], 300, 'default'],
    [[date, 'Cache-Control: max-age=60'], 60, 'max-age'],
    [[date, 'Cache-Control: max-age=0'], 0, 'max-age'],
    [[date, 'Expires: 0'], 0, 'expires'],
  ];
  it.each(withDefault)('with a default of 300 s: %j', (lines, seconds, source) => {
    expect(freshnessLifetime(storedWith(lines), { ...policy, defaultTtlSeconds: 300 })).toEqual({
      lifetimeMs: seconds * 1000,
      source,
    });
  });

  const statuses: readonly (readonly [status: number, plain: FreshnessSource, whenPublic: FreshnessSource])[] = [
    [200, 'heuristic', 'heuristic'],
    [201, 'none', 'heuristic'],
    [202, 'none', 'heuristic'],
    [203, 'heuristic', 'heuristic'],
    [204, 'heuristic', 'heuristic'],
    [300, 'heuristic', 'heuristic'],
    [301, 'heuristic', 'heuristic'],
    [302, 'none', 'heuristic'],
    [308, 'heuristic', 'heuristic'],
    [403, 'none', 'heuristic'],
    [404, 'heuristic', 'heuristic'],
    [405, 'heuristic', 'heuristic'],
    [410, 'heuristic', 'heuristic'],
    [414, 'heuristic', 'heuristic'],
    [500, 'none', 'heuristic'],
    [501, 'heuristic', 'heuristic'],
    [502, 'none', 'heuristic'],
    [599, 'none', 'heuristic'],
  ];
  it.each(statuses)('status %i without explicit lifetime: %s, and when public: %s', (status, plain, whenPublic) => {
    const lines = [date, `Last-Modified: ${dayBefore}`];
    const sourceOf = (extra: string[]) =>
      freshnessLifetime(storedWith([...lines, ...extra], { status }), policy).source;
    expect([sourceOf([]), sourceOf(['Cache-Control: public'])]).toEqual([plain, whenPublic]);
  });

  it('uses the parsed Cache-Control of its caller', () => {
    const control = parseCacheControl(fieldsOf('Cache-Control: max-age=7'));
    expect(freshnessLifetime(storedWith([]), policy, control).lifetimeMs).toBe(7000);
  });
});

describe('freshnessLifetime with lifetimes by status', () => {
  const own = {
    ...policy,
    defaultTtlSeconds: 300,
    defaultTtlByStatus: { '404': 10, '4xx': 5, '302': 20 },
    overrideTtlByStatus: { '301': 7, '5xx': 1, '503': 2 },
  };
  const explicit = 'Cache-Control: max-age=60';
  const rows: readonly (readonly [status: number, lines: readonly string[], seconds: number, source: string])[] = [
    [200, [], 300, 'default'],
    [302, [], 20, 'default'],
    [303, [], 0, 'none'],
    [404, [], 10, 'default'],
    [410, [], 5, 'default'],
    [410, [explicit], 60, 'max-age'],
    [404, [date, `Expires: ${hourAfter}`], 3600, 'expires'],
    [301, [explicit], 7, 'override'],
    [301, [], 7, 'override'],
    [500, [explicit], 1, 'override'],
    [503, [explicit], 2, 'override'],
    [501, [`Last-Modified: ${dayBefore}`], 1, 'override'],
    [414, ['Cache-Control: public'], 5, 'default'],
  ];
  it.each(rows)('a %i with %j: %d s, %s', (status, lines, seconds, source) => {
    expect(freshnessLifetime(storedWith(lines, { status }), own)).toEqual({ lifetimeMs: seconds * 1000, source });
  });

  it('does not apply defaultTtlSeconds to errors', () => {
    const { defaultTtlByStatus: _, ...rest } = own;
    const sources = [404, 501].map(
      (status) =>
        freshnessLifetime(storedWith([], { status }), { ...rest, defaultTtlByStatus: {}, overrideTtlByStatus: {} })
          .source,
    );
    expect(sources).toEqual(['none', 'none']);
  });
});

describe('freshnessLifetime by a targeted field, RFC 9213 §2.2', () => {
  const rows: readonly (readonly [lines: readonly string[], seconds: number, source: FreshnessSource])[] = [
    [['CDN-Cache-Control: max-age=9', 'Cache-Control: max-age=60'], 9, 'max-age'],
    [['CDN-Cache-Control: s-maxage=9, max-age=10', 'Cache-Control: max-age=60'], 9, 's-maxage'],
    // A targeted field replaces Expires, too.
    [['CDN-Cache-Control: public', `Expires: ${hourAfter}`, date], 0, 'none'],
    [['CDN-Cache-Control: public', `Expires: ${hourAfter}`, date, `Last-Modified: ${dayBefore}`], 8640, 'heuristic'],
    [['CDN-Cache-Control: max-age=9', 'Rangeway-Cache-Control: max-age=8'], 8, 'max-age'],
    [['CDN-Cache-Control: max-age=9', 'Rangeway-Cache-Control: ???'], 9, 'max-age'],
    [['CDN-Cache-Control: ', 'Cache-Control: max-age=60'], 60, 'max-age'],
  ];
  it.each(rows)('%j', (lines, seconds, source) => {
    expect(freshnessLifetime(storedWith(lines), policy)).toEqual({ lifetimeMs: seconds * 1000, source });
  });
});

describe('isExplicit and mayGuess, RFC 9111 §4.2.2', () => {
  it('tell stated lifetimes from heuristic and configured ones', () => {
    const sources = ['s-maxage', 'max-age', 'expires', 'heuristic', 'default', 'none'] as const;
    expect(sources.filter(isExplicit)).toEqual(['s-maxage', 'max-age', 'expires']);
  });

  it.each([201, 302, 403, 503, 599])('allow a heuristic lifetime for a %i only where it is public', (status) => {
    const mayGuessFor = (value: string) =>
      mayUseHeuristic(status, parseCacheControl(fieldsOf(`Cache-Control: ${value}`)));
    expect([mayGuessFor('public'), mayGuessFor('public=1'), mayGuessFor('')]).toEqual([true, false, false]);
  });
});

describe('currentAgeMs, RFC 9111 §4.2.3', () => {
  interface Row {
    readonly name: string;
    readonly lines: readonly string[];
    readonly requestAt?: number;
    readonly responseAt?: number;
    readonly now: number;
    readonly ageMs: number;
  }
  const rows: readonly Row[] = [
    { name: 'directly from the origin', lines: [date], now: sentAt, ageMs: 0 },
    { name: 'includes the resident time', lines: [date], now: sentAt + 5000, ageMs: 5000 },
    { name: 'includes the Age as received', lines: [date, 'Age: 30'], now: sentAt + 5000, ageMs: 35_000 },
    { name: 'includes the response delay', lines: [date], requestAt: sentAt - 2000, now: sentAt, ageMs: 2000 },
    {
      name: 'includes both Age and response delay',
      lines: [date, 'Age: 30'],
      requestAt: sentAt - 2000,
      now: sentAt,
      ageMs: 32_000,
    },
    {
      name: 'includes the time since a Date in the past',
      lines: ['Date: Thu, 01 Jan 2026 11:59:00 GMT'],
      now: sentAt,
      ageMs: 60_000,
    },
    {
      name: 'takes Age where it is larger than the time since Date',
      lines: ['Date: Thu, 01 Jan 2026 11:59:00 GMT', 'Age: 90'],
      now: sentAt,
      ageMs: 90_000,
    },
    {
      name: 'takes the time since Date where it is larger than Age',
      lines: ['Date: Thu, 01 Jan 2026 11:59:00 GMT', 'Age: 9'],
      now: sentAt,
      ageMs: 60_000,
    },
    { name: "is not negative where the origin's clock is ahead", lines: [`Date: ${hourAfter}`], now: sentAt, ageMs: 0 },
    { name: 'counts from the arrival without Date', lines: [], now: sentAt + 1000, ageMs: 1000 },
    { name: 'counts from the arrival with an invalid Date', lines: ['Date: today'], now: sentAt + 1000, ageMs: 1000 },
    {
      name: 'ignores less than a second since Date',
      lines: [date],
      requestAt: sentAt + 900,
      responseAt: sentAt + 999,
      now: sentAt + 999,
      ageMs: 99,
    },
    {
      name: 'counts a full second since Date',
      lines: [date],
      requestAt: sentAt + 1900,
      responseAt: sentAt + 1999,
      now: sentAt + 1999,
      ageMs: 1000,
    },
    {
      name: 'is not below Age after the clock was set back',
      lines: [date, 'Age: 30'],
      now: sentAt - hourMs,
      ageMs: 30_000,
    },
    {
      name: 'is not negative where the clock was set back during the exchange',
      lines: [date],
      requestAt: sentAt + 5000,
      now: sentAt,
      ageMs: 0,
    },
    // §5.1: the first member counts; an invalid one is ignored.
    { name: 'Age: 7200,0', lines: [date, 'Age: 7200,0'], now: sentAt, ageMs: 7_200_000 },
    { name: 'Age: 0, 7200', lines: [date, 'Age: 0, 7200'], now: sentAt, ageMs: 0 },
    { name: 'Age twice', lines: [date, 'Age: 30', 'Age: 0'], now: sentAt, ageMs: 30_000 },
    { name: 'Age: abc', lines: [date, 'Age: abc'], now: sentAt, ageMs: 0 },
    { name: 'Age: -7200', lines: [date, 'Age: -7200'], now: sentAt, ageMs: 0 },
    { name: 'Age: 7200.0', lines: [date, 'Age: 7200.0'], now: sentAt, ageMs: 0 },
    { name: 'Age beyond bounds', lines: [date, 'Age: 99999999999999999999'], now: sentAt, ageMs: 2 ** 31 * 1000 },
  ];
  it.each(rows)('$name', ({ lines, requestAt = sentAt, responseAt = sentAt, now, ageMs }) => {
    expect(currentAgeMs(storedWith(lines, { requestAt, responseAt }), now)).toBe(ageMs);
  });
});

describe('ageTerms, RFC 9111 §4.2.3', () => {
  it('are the terms of the current age', () => {
    const stored = storedWith(['Date: Thu, 01 Jan 2026 11:59:00 GMT', 'Age: 59'], { requestAt: sentAt - 2000 });
    const terms = { ageFieldMs: 59_000, responseDelayMs: 2000, apparentAgeMs: 60_000, residentMs: 5000, ageMs: 66_000 };
    expect(ageTerms(stored, sentAt + 5000)).toEqual(terms);
  });
});

describe('lifetimeField', () => {
  it.each<[FreshnessSource, string | undefined]>([
    ['s-maxage', 'cdn-cache-control'],
    ['max-age', 'cdn-cache-control'],
    ['expires', 'expires'],
    ['heuristic', 'last-modified'],
    ['override', undefined],
    ['default', undefined],
    ['none', undefined],
  ])('of a lifetime by %s: %s', (source, field) =>
    expect(lifetimeField(source, { field: 'cdn-cache-control' })).toBe(field),
  );
});

describe('ageSeconds, RFC 9111 §5.1', () => {
  it.each([
    [0, 0],
    [999, 0],
    [1000, 1],
    [61_500, 61],
  ])('%i ms: %i', (ms, seconds) => {
    expect(ageSeconds(storedWith([date]), sentAt + ms)).toBe(seconds);
  });
});

describe('mayServeStale and staleBan, RFC 9111 §4.2.4', () => {
  it.each([
    ['', undefined],
    ['max-age=60', undefined],
    ['public, max-age=60', undefined],
    ['no-cache="a"', undefined],
    ['private="a"', undefined],
    ['must-revalidate', 'must-revalidate'],
    ['proxy-revalidate', 'proxy-revalidate'],
    ['s-maxage=60', 's-maxage'],
    ['no-cache', 'no-cache'],
    ['private', 'private'],
    ['no-store', 'no-store'],
    ['no-store, must-revalidate', 'must-revalidate'],
  ])('%s: forbidden by %s', (value, ban) => {
    const control = parseCacheControl(fieldsOf(`Cache-Control: ${value}`));
    expect(staleBan(control)).toBe(ban);
    expect(mayServeStale(control)).toBe(ban === undefined);
  });
});
