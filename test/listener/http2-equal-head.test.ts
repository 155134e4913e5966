/** Which heads of HTTP/2 requests are equal, for precedents to be found by them. */

import { describe, expect, it } from 'vitest';
import { readEqualHead } from '../../src/listener/http2-equal-head.ts';

const enough = 10_000;

function list(...more: readonly string[]): readonly string[] {
  return [':method', 'GET', ':scheme', 'https', ':authority', 'a', ':path', '/x', ...more];
}

describe('two heads are equal', () => {
  it.each<[string, readonly string[], readonly string[], boolean]>([
    ['the same', list('accept', '*/*'), list('accept', '*/*'), true],
    ['other ranges', list('range', 'bytes=0-99'), list('range', 'bytes=5-7,9-'), true],
    ['a range, and none', list('range', 'bytes=0-99'), list(), false],
    ['a range in another place', list('range', 'bytes=0-9', 'a', 'b'), list('a', 'b', 'range', 'bytes=0-9'), false],
    ['another value', list('if-range', '"a"'), list('if-range', '"b"'), false],
    ['another name', list('accept', 'x'), list('accept-language', 'x'), false],
    ['another order', list('a', '1', 'b', '2'), list('b', '2', 'a', '1'), false],
    ['a name that goes on in the value', list('ab', 'c'), list('a', 'bc'), false],
    ['two fields, and one with both', list('a', '1', 'b', '2'), list('a', '1 b 2'), false],
    ['a range that is the value of another field', list('x', 'range', 'y', ''), list('x', 'range', 'range', ''), false],
    ['another path', list(), [':method', 'GET', ':scheme', 'https', ':authority', 'a', ':path', '/y'], false],
    ['another method', list(), [':method', 'HEAD', ':scheme', 'https', ':authority', 'a', ':path', '/x'], false],
    ['another authority', list(), [':method', 'GET', ':scheme', 'https', ':authority', 'b', ':path', '/x'], false],
  ])('or not: %s', (_name, one, other, isEqual) => {
    expect(readEqualHead(one, enough)?.text === readEqualHead(other, enough)?.text).toBe(isEqual);
  });
});

describe('a head', () => {
  it('tells its range', () => {
    expect(readEqualHead(list('range', 'bytes=0-99'), enough)?.range).toBe('bytes=0-99');
    expect(readEqualHead(list('x-range', 'bytes=0-99'), enough)).toMatchObject({ range: undefined });
  });

  it.each<[string, readonly string[]]>([
    ['two ranges', list('range', 'bytes=0-9', 'range', 'bytes=0-9')],
    ['a range of another unit', list('range', 'items=0-9')],
    ['a unit in capitals', list('range', 'Bytes=0-9')],
    ['a range with white space', list('range', 'bytes=0-9, 20-29')],
    ['an empty range', list('range', '')],
    ['a range without a set', list('range', 'bytes=')],
  ])('is for the whole road: %s', (_name, rawHeaders) => {
    expect(readEqualHead(rawHeaders, enough)).toBeUndefined();
  });

  it('that may be larger than is allowed is for the whole road, whatever makes it so', () => {
    const fieldBytes = (name: string, value: string) => name.length + value.length + 4;
    const range = `bytes=${'1-2,'.repeat(40)}`;
    const sizeBytes = fieldBytes('range', range) + fieldBytes('accept', '*/*');
    const rawHeaders = list('range', range, 'accept', '*/*');
    expect(readEqualHead(rawHeaders, sizeBytes - 1)).toBeUndefined();
    expect(readEqualHead(list('range', 'bytes=0-9', 'accept', '*/*'), sizeBytes - 1)).toBeDefined();
  });
});
