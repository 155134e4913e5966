/** Ranges that are passed on to an origin: no byte is requested twice. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseRange, passedRange } from '../../src/semantics/range.ts';
import { nearlyRangeText } from '../support/values/range-arbitraries.ts';

const limits = { maxRanges: 100 };

describe('a Range is passed on as', () => {
  const many = (count: number) => Array.from({ length: count }, (_, index) => `${3 * index}-${3 * index}`).join(',');
  it.each<[line: string, passed: string | undefined]>([
    ['bytes=0-99', 'bytes=0-99'],
    ['BYTES= 007-99 ', 'bytes=7-99'],
    ['bytes=5-', 'bytes=5-'],
    ['bytes=-5', 'bytes=-5'],
    ['bytes=0-18446744073709551616', 'bytes=0-9007199254740991'],
    ['bytes=0-0,5-5', 'bytes=0-0,5-5'],
    ['bytes=5-5,0-0', 'bytes=0-0,5-5'],
    ['bytes=0-4,5-9', 'bytes=0-9'],
    ['bytes=0-9,2-3', 'bytes=0-9'],
    ['bytes=0-5,3-9,20-30,25-40', 'bytes=0-9,20-40'],
    ['bytes=0-,0-,0-', 'bytes=0-'],
    ['bytes=5-,0-2,1-9', 'bytes=0-'],
    ['bytes=5-,0-2', 'bytes=0-2,5-'],
    ['bytes=5-,0-4', 'bytes=0-'],
    ['bytes=0-0,-1', undefined],
    ['bytes=-1,-1', undefined],
    ['bytes=', undefined],
    ['bytes=9-5', undefined],
    ['bytes=0-1,x', undefined],
    [`bytes=${many(100)}`, `bytes=${many(100)}`],
    [`bytes=${many(101)}`, undefined],
    [`bytes=0-${'9'.repeat(10_000)}`, undefined],
    ['items=0-5', undefined],
    ['', undefined],
  ])('%j: %j', (line, passed) => expect(passedRange([line], limits)).toBe(passed));

  it('nothing where there are several lines', () =>
    expect(passedRange(['bytes=0-1', 'bytes=0-1'], limits)).toBeUndefined());

  it('a Range of the same bytes, each once, which a second pass leaves unchanged', () => {
    fc.assert(
      fc.property(nearlyRangeText, (line) => {
        const passed = passedRange([line], limits);
        if (passed === undefined || !passed.startsWith('bytes=')) return;
        expect(passedRange([passed], limits)).toBe(passed);
        for (const size of [1, 10, 100]) expect(countsOf(passed, size)).toEqual(countsOf(line, size).map(atMostOnce));
      }),
    );
  });
});

const atMostOnce = (count: number) => Math.min(1, count);

/** Returns how often each byte of a representation is requested. */
function countsOf(line: string, size: number): number[] {
  const parsed = parseRange(line, { maxRanges: 100 });
  const counts = new Array<number>(size).fill(0);
  for (const spec of parsed.kind === 'set' ? parsed.specs : []) {
    const from = spec.kind === 'suffix' ? Math.max(0, size - spec.length) : spec.first;
    const last = spec.kind === 'closed' ? Math.min(size - 1, spec.last) : size - 1;
    for (let at = from; at <= last; at += 1) counts[at] = (counts[at] ?? 0) + 1;
  }
  return counts;
}
