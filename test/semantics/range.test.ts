import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  formatRange,
  maxRangeTextLength,
  type ParsedRange,
  parseRange,
  type RangeSpec,
  selectBeforeLength,
} from '../../src/semantics/range.ts';
import { nearlyRangeText } from '../support/values/range-arbitraries.ts';
import { countTextSteps } from '../support/values/text-steps.ts';

const max = Number.MAX_SAFE_INTEGER;
const limits = { maxRanges: 5 };

const closed = (first: number, last: number): RangeSpec => ({ kind: 'closed', first, last });
const open = (first: number): RangeSpec => ({ kind: 'open', first });
const suffix = (length: number): RangeSpec => ({ kind: 'suffix', length });

const validTexts: readonly (readonly [text: string, specs: readonly RangeSpec[]])[] = [
  ['bytes=0-0', [closed(0, 0)]],
  ['bytes=0-499', [closed(0, 499)]],
  ['bytes=9500-', [open(9500)]],
  ['bytes=-500', [suffix(500)]],
  ['bytes=-0', [suffix(0)]],
  ['bytes=0-0,-1', [closed(0, 0), suffix(1)]],
  ['bytes=500-600,601-999', [closed(500, 600), closed(601, 999)]],
  ['bytes=500-700,601-999', [closed(500, 700), closed(601, 999)]],
  ['bytes=9-9,0-0,5-5', [closed(9, 9), closed(0, 0), closed(5, 5)]],
  // The example of RFC 9110 §14.1.2, with its space (erratum 7306).
  ['bytes= 0-999, 4500-5499, -1000', [closed(0, 999), closed(4500, 5499), suffix(1000)]],
  // The unit is case-insensitive, §14.1.
  ['Bytes=0-1', [closed(0, 1)]],
  ['BYTES=0-1', [closed(0, 1)]],
  // White space around members, and empty members, §5.6.1.2.
  ['bytes=,0-1,,', [closed(0, 1)]],
  ['bytes=0-1,', [closed(0, 1)]],
  ['bytes=0-1 \t,\t 2-3', [closed(0, 1), closed(2, 3)]],
  ['bytes= ,\t,0-1', [closed(0, 1)]],
  // Leading zeros.
  ['bytes=0000-0001', [closed(0, 1)]],
  ['bytes=2-010', [closed(2, 10)]],
  ['bytes=-0000', [suffix(0)]],
  // Beyond 2^53-1: clamped, never rounded.
  ['bytes=0-9007199254740990', [closed(0, max - 1)]],
  ['bytes=0-9007199254740991', [closed(0, max)]],
  ['bytes=0-9007199254740992', [closed(0, max)]],
  ['bytes=9007199254740992-', [open(max)]],
  ['bytes=-99999999999999999999', [suffix(max)]],
  ['bytes=18446744073709551615-18446744073709551616', [closed(max, max)]],
  [`bytes=${'0'.repeat(400)}7-${'9'.repeat(400)}`, [closed(7, max)]],
];

const malformedTexts: readonly string[] = [
  '',
  '=',
  'bytes',
  'bytes=',
  'bytes=,',
  'bytes= , ,\t',
  'bytes=-',
  'bytes=--1',
  'bytes=1',
  'bytes=a-b',
  'bytes=0-1-2',
  'bytes=0x0-0x1',
  'bytes=+0-1',
  'bytes=0-+1',
  'bytes=1e3-2e3',
  'bytes=0.0-1',
  'bytes=:-9',
  'bytes=/-9',
  'bytes=0-:',
  'bytes=0 - 1',
  'bytes=0- 1',
  'bytes=- 1',
  'bytes=0–1',
  'bytes=٠-٣',
  'bytes=*',
  'bytes==0-1',
  'bytes =0-1',
  ' bytes=0-1',
  '=0-1',
  'bytes:0-1',
  'by(tes=0-1',
  'bytes=\u000b0-1',
  'bytes=0-1\u0000',
  'bytes=0-1;2-3',
  // A range that ends before it starts is invalid, not unsatisfiable.
  'bytes=5-2',
  'bytes=1-0',
  'bytes=010-9',
  'bytes=9007199254740993-9007199254740992',
  'bytes=10000000000000000000000-9999999999999999999999',
  // One invalid member makes the whole set invalid, §14.1.1.
  'bytes=5-2,0-1',
  'bytes=0-1,5-2',
  'bytes=0-1,x',
  'bytes=abc,0-1',
  // Two field lines, combined.
  'bytes=0-1, bytes=2-3',
];

const foreignUnits = ['items=0-5', 'seconds=1-2', 'byte=0-1', 'bytess=0-1', 'none=', 'x!#$%&=garbage, and more'];

describe('parseRange, RFC 9110 §14.1, §14.2', () => {
  it.each(validTexts)('%j is a set', (text, specs) => {
    expect(parseRange(text, limits)).toEqual({ kind: 'set', specs });
  });

  it.each(malformedTexts.map((text) => [text]))('%j is malformed', (text) => {
    expect(parseRange(text, limits)).toEqual({ kind: 'ignored', reason: 'malformed' });
  });

  it.each(foreignUnits.map((text) => [text]))('%j has an unknown unit', (text) => {
    expect(parseRange(text, limits)).toEqual({ kind: 'ignored', reason: 'unknown-unit' });
  });

  const counts: readonly (readonly [maxRanges: number, text: string, kind: ParsedRange['kind']])[] = [
    [3, 'bytes=0-0,2-2', 'set'],
    [3, 'bytes=0-0,2-2,4-4', 'set'],
    [3, 'bytes=0-0,2-2,4-4,6-6', 'ignored'],
    [3, 'bytes=,,0-0,,,2-2,,4-4,,', 'set'],
    [1, 'bytes=0-0', 'set'],
    [1, 'bytes=0-0,2-2', 'ignored'],
    [0, 'bytes=0-0', 'ignored'],
  ];
  it.each(counts)('at most %i ranges: %j is %s', (maxRanges, text, kind) => {
    expect(parseRange(text, { maxRanges })).toMatchObject(kind === 'set' ? { kind } : { kind, reason: 'too-many' });
  });

  const lengths: readonly (readonly [excess: number, kind: ParsedRange['kind']])[] = [
    [-1, 'set'],
    [0, 'set'],
    [1, 'ignored'],
  ];
  it.each(lengths)('a text %i characters longer than the maximum is %s', (excess, kind) => {
    const text = `bytes=${'0-1'.padStart(maxRangeTextLength + excess - 'bytes='.length, ',')}`;
    expect(text.length).toBe(maxRangeTextLength + excess);
    expect(parseRange(text, limits)).toMatchObject(kind === 'set' ? { kind } : { kind, reason: 'too-long' });
  });

  /** Checks a text by the grammar of §14.1.1 as one pattern, with exact numbers. */
  function isValid(text: string): boolean {
    const list = /^bytes=((?:[ \t]*(?:\d+-\d*|-\d+)?[ \t]*)(?:,[ \t]*(?:\d+-\d*|-\d+)?[ \t]*)*)$/i.exec(text)?.[1];
    const members = (list ?? '').split(',').flatMap((member) => member.match(/\S+/) ?? []);
    const isOrdered = members.every((member) => {
      const pair = /^(\d+)-(\d+)$/.exec(member);
      return pair === null || BigInt(pair[1] ?? '') <= BigInt(pair[2] ?? '');
    });
    return members.length > 0 && members.length <= limits.maxRanges && isOrdered;
  }

  it('accepts exactly the valid texts, and never throws', () => {
    fc.assert(
      fc.property(nearlyRangeText, (text) => {
        expect(parseRange(text, limits).kind).toBe(isValid(text) ? 'set' : 'ignored');
      }),
      { numRuns: 3_000 },
    );
  });

  it('returns specs of safe integers in order, which are the same after formatting and parsing', () => {
    fc.assert(
      fc.property(nearlyRangeText, (text) => {
        const parsed = parseRange(text, limits);
        if (parsed.kind === 'ignored') return;
        for (const { kind, ...numbers } of parsed.specs) {
          expect(Object.values(numbers).every((number) => Number.isSafeInteger(number) && number >= 0)).toBe(true);
        }
        expect(parsed.specs.every((spec) => spec.kind !== 'closed' || spec.first <= spec.last)).toBe(true);
        expect(parseRange(formatRange(parsed.specs), limits)).toEqual(parsed);
      }),
      { numRuns: 3_000 },
    );
  });
});

describe('the work of parseRange', () => {
  const longest = (unit: string): string => unit.repeat(maxRangeTextLength).slice(0, maxRangeTextLength);
  const hostileTexts: readonly (readonly [name: string, text: string])[] = [
    ['commas', longest('bytes=').slice(0, 6) + longest(',').slice(6)],
    ['digits', `bytes=${longest('9').slice(6)}`],
    ['zeros before two numbers', `bytes=${'0'.repeat(4000)}1-${'0'.repeat(4000)}1`],
    ['many ranges', `bytes=${longest('0-0,').slice(6)}`],
    ['many suffixes', `bytes=${longest('-1,').slice(6)}`],
    ['dashes', `bytes=${longest('-').slice(6)}`],
    ['white space inside a member', `bytes=0-${' '.repeat(8000)}1`],
    ['white space around members', `bytes=${longest(' \t ,').slice(6)}`],
    ['no equals sign', longest('b')],
    ['equals signs', longest('=')],
  ];
  it.each(hostileTexts)('is linear in the length of %s', (_name, text) => {
    const steps = countTextSteps(() => parseRange(text, { maxRanges: 10_000 }));
    expect(text.length).toBeGreaterThan(8_000);
    expect(steps).toBeGreaterThan(0);
    expect(steps).toBeLessThan(12 * text.length);
  });

  it('is zero for a text that is too long', () => {
    const text = 'bytes=0-1'.padEnd(1_000_000, ',');
    expect(countTextSteps(() => parseRange(text, limits))).toBe(0);
  });

  it('is measured by a counter that tells quadratic from linear work', () => {
    const eatSlowly = (text: string): void => {
      for (let rest = text; rest !== ''; rest = rest.slice(1));
    };
    expect(countTextSteps(() => eatSlowly(longest('b')))).toBeGreaterThan(1_000 * maxRangeTextLength);
    expect(() => countTextSteps(() => 'b'.replace(/b/, ''))).toThrow('regular expression');
  });
});

describe('selectBeforeLength', () => {
  const rows: readonly (readonly [specs: readonly RangeSpec[], selection: ReturnType<typeof selectBeforeLength>])[] = [
    [[closed(0, 0)], { kind: 'span', span: { start: 0, end: 1 }, asksLength: true }],
    [[closed(0, 1)], { kind: 'span', span: { start: 0, end: 2 }, asksLength: true }],
    [[closed(0, 2)], { kind: 'span', span: { start: 0, end: 3 }, asksLength: false }],
    [[closed(1, 1)], { kind: 'span', span: { start: 1, end: 2 }, asksLength: false }],
    [[closed(5, 9)], { kind: 'span', span: { start: 5, end: 10 }, asksLength: false }],
    [[closed(5, max - 1)], { kind: 'span', span: { start: 5, end: max }, asksLength: false }],
    [[closed(5, max)], { kind: 'live', first: 5 }],
    [[closed(max, max)], { kind: 'live', first: max }],
    [[open(0)], { kind: 'from-start' }],
    [[open(1)], { kind: 'needs-length' }],
    [[suffix(0)], { kind: 'needs-length' }],
    [[suffix(max)], { kind: 'needs-length' }],
    [[closed(0, 0), closed(2, 2)], { kind: 'needs-length' }],
    [[open(0), open(0)], { kind: 'needs-length' }],
  ];
  it.each(rows)('%j', (specs, selection) => {
    expect(selectBeforeLength(specs)).toEqual(selection);
  });
});
