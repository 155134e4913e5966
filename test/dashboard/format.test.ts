import { describe, expect, it } from 'vitest';
import {
  ageText,
  byteRateText,
  countOf,
  countText,
  latencyText,
  percentText,
  rateText,
  ratioText,
  shorten,
  sizeText,
  spanText,
  splitUri,
} from '../../dashboard/src/model/format.ts';

describe('numbers for people', () => {
  it.each([
    [0, '0'],
    [999, '999'],
    [1000, '1,000'],
    [1_284_000, '1,284,000'],
    [12.6, '13'],
  ])('count %s: %s', (count, text) => expect(countText(count)).toBe(text));

  it.each([
    [1, '1 entry'],
    [0, '0 entries'],
    [2000, '2,000 entries'],
  ])('%s of a noun: %s', (count, text) => expect(countOf(count, 'entry', 'entries')).toBe(text));

  it.each([
    [undefined, '–'],
    [0, '0'],
    [0.04, '<0.1'],
    [1, '1'],
    [2.54, '2.5'],
    [1523.4, '1,523'],
  ])('rate %s: %s', (perSecond, text) => expect(rateText(perSecond)).toBe(text));

  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1 KB'],
    [1999, '1.9 KB'],
    [12_999, '12 KB'],
    [2_115_429, '2.1 MB'],
    [50_000_000_000, '50 GB'],
  ])('size %s: %s', (bytes, text) => expect(sizeText(bytes)).toBe(text));

  it('bytes per second', () => {
    expect(byteRateText(1_500_000)).toBe('1.5 MB/s');
    expect(byteRateText(undefined)).toBe('–');
  });

  it.each([
    [undefined, '–'],
    [0, '0 %'],
    [0.973, '97.3 %'],
    [0.29, '29 %'],
    // Only a whole share is 100 %.
    [0.99999, '99.9 %'],
    [1, '100 %'],
  ])('share %s: %s', (share, text) => expect(percentText(share)).toBe(text));

  it.each([
    [undefined, '–'],
    [0, '0×'],
    [0.001, '<0.01×'],
    [0.05, '0.05×'],
    [1, '1×'],
    [123, '123×'],
  ])('ratio %s: %s', (ratio, text) => expect(ratioText(ratio)).toBe(text));

  it.each([
    [0.42, '0.4 ms'],
    [1, '1 ms'],
    [41.4, '41 ms'],
    [999, '999 ms'],
    [1250, '1.25 s'],
    [30_000, '30 s'],
  ])('latency %s: %s', (ms, text) => expect(latencyText(ms)).toBe(text));

  it.each([
    [-5, 'now'],
    [999, 'now'],
    [12_900, '12 s'],
    [60_000, '1 min'],
    [3_599_000, '59 min'],
    [5 * 3_600_000, '5 h'],
    [50 * 3_600_000, '2 d'],
  ])('age %s: %s', (ms, text) => expect(ageText(ms)).toBe(text));

  it('a span has an inclusive end', () => expect(spanText({ start: 0, end: 1024 })).toBe('0–1,023'));
});

describe('URIs', () => {
  it.each([
    ['https://a.example/films/one.mp4', 'https://a.example', '/films/', 'one.mp4'],
    ['https://a.example/films/one.mp4?x=a/b', 'https://a.example', '/films/', 'one.mp4?x=a/b'],
    ['http://[::1]:8080/one', 'http://[::1]:8080', '/', 'one'],
    ['https://a.example/films/', 'https://a.example', '', '/films/'],
    ['https://a.example/', 'https://a.example', '', '/'],
    ['https://a.example', 'https://a.example', '', ''],
    ['no URL', '', '', 'no URL'],
  ])('%s', (uri, site, folder, file) => expect(splitUri(uri)).toEqual({ site, folder, file }));

  it.each([
    ['short', 10, 'short'],
    ['/a/very/long/path/to/film.mp4', 15, '/a/ve…/film.mp4'],
    ['abc', 2, '…c'],
  ])('%s in %i letters', (text, length, short) => {
    expect(shorten(text, length)).toBe(short);
    expect(shorten(text, length).length).toBeLessThanOrEqual(Math.max(length, 2));
  });
});
