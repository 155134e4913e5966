import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isPastEnd, isWholeRange, selectFirstPart, selectFirstRange } from '../../src/cache/fill/fetch-decision.ts';
import { formatRange, parseRange, type RangeSpec, selectRanges } from '../../src/semantics/range.ts';
import { fieldsOf, sentAt } from '../support/values/fields-of.ts';

const max = Number.MAX_SAFE_INTEGER;

function specsOf(range: string): readonly RangeSpec[] {
  const parsed = parseRange(`bytes=${range}`, { maxRanges: 100 });
  return parsed.kind === 'set' ? parsed.specs : [];
}

describe('the first range asked of the origin, with blocks of 100 bytes,', () => {
  it.each([
    ['', undefined],
    ['0-0', '0-99'],
    ['0-99', '0-99'],
    ['0-100', '0-199'],
    ['99-100', '0-199'],
    ['250-250', '200-299'],
    ['250-1000', '200-1099'],
    ['250-', '200-'],
    ['200-', '200-'],
    ['100-', '100-'],
    ['99-', undefined],
    ['0-', undefined],
    ['-1', '-101'],
    ['-0', '-100'],
    ['-100', '-200'],
    ['250-260,900-910', '200-299'],
    ['-5,0-9', '-105'],
    [`250-${max}`, '200-'],
    [`${max}-${max}`, `${max - (max % 100)}-`],
    [`-${max}`, undefined],
  ])('for %s is %s', (range, expected) => {
    const ask = selectFirstRange(specsOf(range), 100, 'whole');
    expect(ask && formatRange([ask])).toBe(expected && `bytes=${expected}`);
  });

  it.each([
    ['0-', '0-99'],
    ['99-', '0-99'],
    ['250-', '200-299'],
    [`${max}-`, `${max - (max % 100)}-`],
    ['0-,500-', undefined],
    ['0-0', '0-99'],
  ])('for %s is %s, where spans grow', (range, expected) => {
    const ask = selectFirstRange(specsOf(range), 100, 'grow');
    expect(ask && formatRange([ask])).toBe(expected && `bytes=${expected}`);
  });

  it.each(['grow', 'whole'] as const)(
    'holds the blocks of the first span of the client, whatever the body length, under openRanges %s',
    (openRanges) => {
      // The rest of an open-ended range is requested when its client reads on.
      const isLaterAsked = ({ kind }: RangeSpec) => kind === 'open' && openRanges === 'grow';
      const position = fc.nat(3000);
      const spec: fc.Arbitrary<RangeSpec> = fc.oneof(
        fc.tuple(position, position).map(([a, b]) => ({
          kind: 'closed' as const,
          first: Math.min(a, b),
          last: Math.max(a, b),
        })),
        position.map((first) => ({ kind: 'open' as const, first })),
        fc.integer({ min: 1, max: 3000 }).map((length) => ({ kind: 'suffix' as const, length })),
      );
      fc.assert(
        fc.property(
          spec,
          fc.integer({ min: 1, max: 3000 }),
          fc.integer({ min: 1, max: 400 }),
          (wanted, size, block) => {
            const ask = selectFirstRange([wanted], block, openRanges);
            const want = selectRanges([wanted], size, { coalesceGapBytes: 0 });
            const given = selectRanges(ask === undefined ? [] : [ask], size, { coalesceGapBytes: 0 });
            if (ask === undefined || want.kind !== 'partial') return;
            const [span] = given.kind === 'partial' ? given.spans : [];
            const [first] = want.spans;
            if (span === undefined || first === undefined) expect.fail('nothing would be given');
            expect(Math.ceil(span.start / block) * block).toBeLessThanOrEqual(first.start);
            expect(span.end).toBeGreaterThanOrEqual(isLaterAsked(wanted) ? first.start : first.end);
            expect(span.end % block === 0 || span.end === size).toBe(true);
          },
        ),
      );
    },
  );
});

describe('a range', () => {
  it.each([
    ['0-', 10, true, false],
    ['0-', 0, true, true],
    ['0-9', 10, true, false],
    ['0-8', 10, false, false],
    ['0-99', 10, true, false],
    ['1-', 10, false, false],
    ['9-', 10, false, false],
    ['10-', 10, false, true],
    ['10-20', 10, false, true],
    ['-10', 10, true, false],
    ['-9', 10, false, false],
    ['-99', 10, true, false],
    ['-0', 10, false, true],
    ['-5', 0, true, true],
  ])('%s of %i bytes is the whole: %s, is behind the end: %s', (range, sizeBytes, whole, behind) => {
    const [spec = expect.fail()] = specsOf(range);
    expect(isWholeRange(spec, sizeBytes)).toBe(whole);
    expect(isPastEnd(spec, sizeBytes)).toBe(behind);
    expect(isWholeRange(spec, undefined)).toBe(false);
  });
});

describe('a first 206, with blocks of 100 bytes,', () => {
  const part = (start: number, end: number) => `part ${start}-${end} of 1000`;
  const lie = 'lie';
  const odd = 'odd';
  const useless = 'uncombinable';

  it.each<[string, string, string, string?, number?]>([
    ['bytes 200-299/1000', 'ETag: "a"', part(200, 300), '200-299'],
    ['bytes 200-350/1000', 'ETag: "a"', part(200, 351), '200-299'],
    ['bytes 200-299/1000', 'ETag: "a"', part(200, 300), '200-'],
    ['bytes 100-299/1000', 'ETag: "a"', lie, '200-299'],
    ['bytes 300-499/1000', 'ETag: "a"', lie, '200-499'],
    ['bytes 700-999/1000', 'ETag: "a"', part(700, 1000), '-300'],
    ['bytes 0-999/1000', 'ETag: "a"', part(0, 1000), '-3000'],
    ['bytes 0-999/1000', 'ETag: "a"', lie, '-300'],
    ['bytes 0-299/1000', 'ETag: "a"', lie, '-300'],
    ['bytes 200-299/1000', 'ETag: "a"', part(200, 300), '200-299', 100],
    ['bytes 200-299/1000', 'ETag: "a"', lie, '200-299', 99],
    ['bytes 200-299/1000', 'ETag: "a"', lie, '200-299', 101],
    ['bytes 150-299/1000', 'ETag: "a"', part(150, 300)],
    ['bytes 150-350/1000', 'ETag: "a"', part(150, 351)],
    ['bytes 0-999/1000', 'ETag: "a"', part(0, 1000)],
    ['bytes 900-999/1000', 'ETag: "a"', part(900, 1000)],
    ['bytes 950-999/1000', 'ETag: "a"', odd],
    ['bytes 200-298/1000', 'ETag: "a"', odd],
    ['bytes 201-399/1000', 'ETag: "a"', part(201, 400)],
    ['bytes 201-300/1000', 'ETag: "a"', odd],
    ['bytes 0-0/1', 'ETag: "a"', 'part 0-1 of 1'],
    ['bytes 200-299/*', 'ETag: "a"', useless],
    ['bytes 200-299/1000', 'ETag: W/"a"', useless],
    ['bytes 200-299/1000', 'X-None: 1', useless],
    ['bytes 200-299/1000', 'Last-Modified: Wed, 01 Jan 2025 00:00:00 GMT', part(200, 300)],
    ['bytes 200-299/1000', 'Last-Modified: Thu, 01 Jan 2026 12:00:00 GMT', useless],
    ['bytes 299-200/1000', 'ETag: "a"', odd],
    ['bytes 200-299/250', 'ETag: "a"', odd],
    ['bytes */1000', 'ETag: "a"', odd],
    ['items 200-299/1000', 'ETag: "a"', odd],
    ['', 'ETag: "a"', odd],
  ])(
    'with %s and %s is: %s, where %s was asked for and %s bytes come',
    (contentRange, validator, expected, range, sizeBytes) => {
      const lines = contentRange === '' ? [validator] : [`Content-Range: ${contentRange}`, validator];
      const [asked] = specsOf(range ?? `${/\d+/.exec(contentRange)?.[0] ?? 0}-`);
      const decided = selectFirstPart(asked ?? expect.fail(), { fields: fieldsOf(...lines), sizeBytes }, sentAt, 100);
      const text =
        decided.kind === 'part'
          ? `part ${decided.span.start}-${decided.span.end} of ${decided.sizeBytes}`
          : decided.fault;
      expect(text).toBe(expected);
    },
  );
});
