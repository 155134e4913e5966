import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type ContentRange,
  formatContentRange,
  formatUnsatisfiedRange,
  parseContentRange,
} from '../../src/semantics/range.ts';

const max = Number.MAX_SAFE_INTEGER;

const range = (start: number, end: number, sizeBytes: number | undefined): ContentRange => ({
  span: { start, end },
  sizeBytes,
});

describe('parseContentRange, RFC 9110 §14.4', () => {
  const valid: readonly (readonly [text: string, wanted: ContentRange])[] = [
    ['bytes 0-0/1', range(0, 1, 1)],
    ['bytes 0-499/1234', range(0, 500, 1234)],
    ['bytes 734-1233/1234', range(734, 1234, 1234)],
    ['bytes 42-1233/*', range(42, 1234, undefined)],
    ['Bytes 0-1/2', range(0, 2, 2)],
    ['bytes 00-01/002', range(0, 2, 2)],
    ['bytes 0-9007199254740989/9007199254740991', range(0, max - 1, max)],
    ['bytes 9007199254740990-9007199254740990/9007199254740991', range(max - 1, max, max)],
    ['bytes 0-9007199254740990/*', range(0, max, undefined)],
  ];
  it.each(valid)('%j', (text, wanted) => {
    expect(parseContentRange(text)).toEqual(wanted);
  });

  const invalid: readonly string[] = [
    // The range ends before it starts, or behind the whole.
    'bytes 1-0/10',
    'bytes 0-10/10',
    'bytes 10-10/10',
    'bytes 0-0/0',
    'bytes 5-2/*',
    // Beyond 2^53-1.
    'bytes 0-9007199254740991/*',
    'bytes 0-9007199254740991/9007199254740992',
    'bytes 0-0/9007199254740992',
    'bytes 0-0/99999999999999999999',
    'bytes 9007199254740993-9007199254740992/*',
    'bytes 0-18446744073709551615/18446744073709551616',
    // Other forms.
    'bytes */10',
    'bytes */*',
    'bytes=0-1/2',
    'bytes 0-1',
    'bytes 0-1/',
    'bytes 0-/2',
    'bytes -1/2',
    'bytes  0-1/2',
    'bytes 0 - 1/2',
    'bytes 0-1 / 2',
    'bytes 0-1/2 ',
    'bytes 0-1/2\n',
    'bytes +0-1/2',
    'bytes 0x0-0x1/2',
    'bytes 0-1/-2',
    'bytes 0-1/2, bytes 0-1/2',
    'items 0-1/2',
    '0-1/2',
    '',
  ];
  it.each(invalid.map((text) => [text]))('%j is invalid', (text) => {
    expect(parseContentRange(text)).toBeUndefined();
  });

  it('parses the output of formatContentRange', () => {
    const spanAndSize = fc
      .uniqueArray(fc.nat({ max }), { minLength: 2, maxLength: 3 })
      .map((numbers) => numbers.toSorted((a, b) => a - b));
    fc.assert(
      fc.property(spanAndSize, ([start = 0, end = 1, sizeBytes]) => {
        const text = formatContentRange({ start, end }, sizeBytes);
        expect(parseContentRange(text)).toEqual({ span: { start, end }, sizeBytes });
      }),
    );
  });

  it('never throws, and returns valid spans only', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc
        .tuple(fc.bigInt({ min: 0n, max: 2n ** 55n }), fc.bigInt({ min: 0n, max: 2n ** 55n }), fc.bigInt({ min: 0n }))
        .map(([first, last, size]) => `bytes ${first}-${last}/${size}`),
    );
    fc.assert(
      fc.property(text, (value) => {
        const parsed = parseContentRange(value);
        if (parsed === undefined) return;
        const { span, sizeBytes } = parsed;
        expect([span.start, span.end, sizeBytes ?? 0].every(Number.isSafeInteger)).toBe(true);
        expect(span.start).toBeLessThan(span.end);
        expect(span.end).toBeLessThanOrEqual(sizeBytes ?? max);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('formatContentRange', () => {
  const rows: readonly (readonly [start: number, end: number, sizeBytes: number | undefined, wanted: string])[] = [
    [0, 1, 1, 'bytes 0-0/1'],
    [0, 500, 1234, 'bytes 0-499/1234'],
    [734, 1234, 1234, 'bytes 734-1233/1234'],
    [42, 1234, undefined, 'bytes 42-1233/*'],
    [max - 1, max, max, 'bytes 9007199254740990-9007199254740990/9007199254740991'],
  ];
  it.each(rows)('[%i, %i) of %s', (start, end, sizeBytes, wanted) => {
    expect(formatContentRange({ start, end }, sizeBytes)).toBe(wanted);
  });
});

describe('formatUnsatisfiedRange, RFC 9110 §15.5.17', () => {
  it.each([
    [0, 'bytes */0'],
    [1234, 'bytes */1234'],
  ])('%i', (sizeBytes, wanted) => {
    expect(formatUnsatisfiedRange(sizeBytes)).toBe(wanted);
  });
});
