import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { completeRange, parseFieldLines, parseUrlLines } from '../../dashboard/src/model/field-lines.ts';
import { groupOrigins } from '../../dashboard/src/model/origins.ts';
import { codeOf, formatPlace, parsePlace } from '../../dashboard/src/model/place.ts';
import { windowOf } from '../../dashboard/src/model/window.ts';

describe('places of the page', () => {
  it.each([
    ['', 'overview', {}],
    ['#', 'overview', {}],
    ['#/', 'overview', {}],
    ['#/nowhere', 'overview', {}],
    ['#/fills', 'fills', {}],
    ['#/entries?text=film&by=contains', 'entries', { text: 'film', by: 'contains' }],
    ['#/entry?key=a+b%26c&generation=7f', 'entry', { key: 'a b&c', generation: '7f' }],
  ])('%s', (fragment, view, values) => expect(parsePlace(fragment)).toEqual({ view, values }));

  it('are read as they were written', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ minLength: 1 }), fc.string({ minLength: 1 })), (values) => {
        const place = parsePlace(formatPlace('entries', values));
        expect(place).toEqual({ view: 'entries', values: { ...values } });
      }),
    );
  });

  it('leave out what is empty', () => {
    expect(formatPlace('overview')).toBe('#/');
    expect(formatPlace('entries', { text: '', by: undefined, sort: 'size' })).toBe('#/entries?sort=size');
  });

  it.each([
    ['#code=aB3-_.~', 'aB3-_.~'],
    ['#code=', undefined],
    ['#/entries?code=x', undefined],
    ['#code=a&b', undefined],
    ['', undefined],
  ])('the code of %s: %s', (fragment, code) => expect(codeOf(fragment)).toBe(code));
});

describe('the rows of a long table', () => {
  it.each([
    ['the beginning', 1000, 50, 0, 500, { start: 0, end: 17, beforePx: 0, afterPx: 983 * 50 }],
    ['the middle', 1000, 50, 10_000, 500, { start: 194, end: 217, beforePx: 194 * 50, afterPx: 783 * 50 }],
    ['the end', 1000, 50, 49_500, 500, { start: 983, end: 1000, beforePx: 983 * 50, afterPx: 0 }],
    [
      'beyond the end, after rows have gone',
      1000,
      50,
      90_000,
      500,
      { start: 983, end: 1000, beforePx: 983 * 50, afterPx: 0 },
    ],
    ['fewer rows than fit', 3, 50, 0, 500, { start: 0, end: 3, beforePx: 0, afterPx: 0 }],
    ['no rows', 0, 50, 0, 500, { start: 0, end: 0, beforePx: 0, afterPx: 0 }],
  ])('%s', (_where, count, rowPx, scrollPx, viewPx, expected) => {
    expect(windowOf(count, rowPx, scrollPx, viewPx)).toEqual(expected);
  });
});

describe('what a person types', () => {
  it('fields, one in a line', () => {
    expect(parseFieldLines('Accept-Encoding: br\n\n  X-A:b: c \n')).toEqual({
      kind: 'fields',
      fields: [
        ['Accept-Encoding', 'br'],
        ['X-A', 'b: c'],
      ],
    });
    expect(parseFieldLines('')).toEqual({ kind: 'fields', fields: [] });
  });

  it.each(['no colon', 'a b: c', ': c'])('no field: %s', (line) => {
    expect(parseFieldLines(`A: b\n${line}`)).toEqual({ kind: 'fault', line });
  });

  it.each([
    ['0-99', 'bytes=0-99'],
    [' -100 ', 'bytes=-100'],
    ['bytes=0-9,20-29', 'bytes=0-9,20-29'],
    ['', ''],
  ])('range %j: %s', (text, range) => expect(completeRange(text)).toBe(range));

  it('URLs, one in a line', () => expect(parseUrlLines(' /a \n\n/b\r\n/a')).toEqual(['/a', '/b']));
});

describe('origins', () => {
  const report = (
    worker: number,
    health: 'well' | 'ill' | 'resting',
    ranges: 'unknown' | 'yes' | 'no',
    url = 'http://a',
  ) => ({
    route: 'r',
    url,
    worker,
    health,
    ranges,
    requests: { streams: worker, fills: 0, unanswered: 1, waiting: 0 },
  });

  it('have the worst health that a worker reports, how many do, and the requests of all', () => {
    const requests = { streams: 6, fills: 0, unanswered: 3, waiting: 0 };
    expect(groupOrigins([report(1, 'well', 'yes'), report(2, 'resting', 'yes'), report(3, 'ill', 'unknown')])).toEqual([
      { route: 'r', url: 'http://a', health: 'resting', worst: 1, ranges: 'yes', workers: 3, requests },
    ]);
  });

  it('are in the order of the reports', () => {
    const groups = groupOrigins([
      report(1, 'well', 'no', 'http://b'),
      report(1, 'well', 'no'),
      report(2, 'well', 'no', 'http://b'),
    ]);
    expect(groups.map(({ url, workers }) => [url, workers])).toEqual([
      ['http://b', 2],
      ['http://a', 1],
    ]);
  });

  it('have unknown ranges where workers disagree', () => {
    expect(groupOrigins([report(1, 'well', 'yes'), report(2, 'well', 'no')])[0]?.ranges).toBe('unknown');
  });
});
