import fc from 'fast-check';
import rangeParser from 'range-parser';
import { describe, expect, it } from 'vitest';
import type { Span } from '../../src/bytes/span.ts';
import {
  parseRange,
  type RangeSelection,
  type RangeSpec,
  selectBeforeLength,
  selectRanges,
  selectSpan,
} from '../../src/semantics/range.ts';
import { nearlyRangeText, rangeSpec } from '../support/values/range-arbitraries.ts';

const max = Number.MAX_SAFE_INTEGER;

function specsOf(text: string): readonly RangeSpec[] {
  const parsed = parseRange(text, { maxRanges: 100 });
  if (parsed.kind === 'ignored') throw new Error(`${text} is no valid Range: ${parsed.reason}`);
  return parsed.specs;
}

/** Returns spans as `0-2 5-9`, with inclusive ends as on the wire, and the kind of any other selection. */
function formatted(selection: RangeSelection): string {
  if (selection.kind !== 'partial') return selection.kind;
  return selection.spans.map(({ start, end }) => `${start}-${end - 1}`).join(' ');
}

type Row = readonly [text: string, sizeBytes: number, wanted: string];

describe('selectRanges, RFC 9110 §14.1.2', () => {
  const rows: readonly Row[] = [
    ['bytes=0-4', 10, '0-4'],
    ['bytes=0-0', 1, '0-0'],
    ['bytes=9-9', 10, '9-9'],
    ['bytes=0-9', 10, '0-9'],
    ['bytes=5-', 10, '5-9'],
    ['bytes=0-', 10, '0-9'],
    ['bytes=-3', 10, '7-9'],
    ['bytes=-10', 10, '0-9'],
    // A last position behind the end is clamped.
    ['bytes=0-10', 10, '0-9'],
    ['bytes=8-99', 10, '8-9'],
    ['bytes=8-99999999999999999999', 10, '8-9'],
    // A suffix longer than the whole is the whole.
    ['bytes=-1000', 500, '0-499'],
    ['bytes=-11', 10, '0-9'],
    ['bytes=-99999999999999999999', 10, '0-9'],
    // Unsatisfiable.
    ['bytes=10-', 10, 'unsatisfiable'],
    ['bytes=10-20', 10, 'unsatisfiable'],
    ['bytes=-0', 10, 'unsatisfiable'],
    ['bytes=99999999999999999999-', 10, 'unsatisfiable'],
    ['bytes=-0,10-,99-100', 10, 'unsatisfiable'],
    // One satisfiable range is enough; the others are dropped.
    ['bytes=99-,0-1', 10, '0-1'],
    ['bytes=-0,0-1,10-10', 10, '0-1'],
    // Several ranges, in the order requested.
    ['bytes=0-1,4-5,8-9', 10, '0-1 4-5 8-9'],
    ['bytes=8-9,4-5,0-1', 10, '8-9 4-5 0-1'],
    ['bytes=-1,0-0', 10, '9-9 0-0'],
    // Overlapping and adjacent ranges become one.
    ['bytes=0-5,3-9', 10, '0-9'],
    ['bytes=3-9,0-5', 10, '0-9'],
    ['bytes=0-4,5-9', 10, '0-9'],
    ['bytes=0-9,0-9,0-9', 10, '0-9'],
    ['bytes=0-,0-,-10', 10, '0-9'],
    ['bytes=0-9,2-3', 10, '0-9'],
    ['bytes=6-7,0-1,1-3', 10, '6-7 0-3'],
    ['bytes=1-3,6-7,0-1', 10, '0-3 6-7'],
    // A range inside another one yields its place to it.
    ['bytes=1-1,6-7,0-3', 10, '6-7 0-3'],
    // No bytes: only a suffix of non-zero length is satisfiable.
    ['bytes=0-', 0, 'whole'],
    ['bytes=0-0', 0, 'whole'],
    ['bytes=-0', 0, 'whole'],
    ['bytes=-1', 0, 'whole'],
    ['bytes=-5', 0, 'whole'],
    ['bytes=0-,-1', 0, 'whole'],
    ['bytes=-0,-1', 0, 'whole'],
    // The greatest possible size.
    ['bytes=0-', max, `0-${max - 1}`],
    ['bytes=-1', max, `${max - 1}-${max - 1}`],
    ['bytes=-9007199254740992', max, `0-${max - 1}`],
    ['bytes=9007199254740990-9007199254740999', max, `${max - 1}-${max - 1}`],
    ['bytes=9007199254740991-', max, 'unsatisfiable'],
    ['bytes=9007199254740993-', max, 'unsatisfiable'],
    ['bytes=9007199254740985-9007199254740986,9007199254740988-', max, `${max - 6}-${max - 5} ${max - 3}-${max - 1}`],
  ];
  it.each(rows)('%s of %i bytes: %s', (text, sizeBytes, wanted) => {
    expect(formatted(selectRanges(specsOf(text), sizeBytes, { coalesceGapBytes: 0 }))).toBe(wanted);
  });

  it('gives the reason why the whole is selected', () => {
    const selection = selectRanges(specsOf('bytes=-1'), 0, { coalesceGapBytes: 0 });
    expect(selection).toEqual({ kind: 'whole', reason: 'empty-representation' });
  });
});

describe('selectRanges closes gaps, RFC 9110 §15.3.7.2', () => {
  const rows: readonly (readonly [coalesceGapBytes: number, ...row: Row])[] = [
    // The gap of 0-1,5-6 is 3 bytes.
    [2, 'bytes=0-1,5-6', 10, '0-1 5-6'],
    [3, 'bytes=0-1,5-6', 10, '0-1 5-6'],
    [4, 'bytes=0-1,5-6', 10, '0-6'],
    [4, 'bytes=5-6,0-1', 10, '0-6'],
    [2, 'bytes=0-0,2-2,4-4,6-6', 10, '0-6'],
    [1, 'bytes=0-0,2-2', 10, '0-0 2-2'],
    // A joined span takes the position of the first of its ranges.
    [3, 'bytes=20-21,90-91,23-24,40-41', 100, '20-24 90-91 40-41'],
    [3, 'bytes=90-91,23-24,40-41,20-21', 100, '90-91 20-24 40-41'],
    // Bytes before the first range or behind the last one are no gap.
    [100, 'bytes=5-6', 10, '5-6'],
    [100, 'bytes=1-1,8-8,99-', 10, '1-8'],
    [80, 'bytes=0-0,100-100', 1000, '0-0 100-100'],
    [80, 'bytes=0-0,80-80', 1000, '0-80'],
  ];
  it.each(rows)('smaller than %i: %s of %i bytes: %s', (coalesceGapBytes, text, sizeBytes, wanted) => {
    expect(formatted(selectRanges(specsOf(text), sizeBytes, { coalesceGapBytes }))).toBe(wanted);
  });
});

/** Returns for each byte whether a spec requests it. */
function bytesOf(spec: RangeSpec, sizeBytes: number): boolean[] {
  return Array.from({ length: sizeBytes }, (_, offset) => {
    if (spec.kind === 'suffix') return offset >= sizeBytes - spec.length;
    return offset >= spec.first && (spec.kind === 'open' || offset <= spec.last);
  });
}

/** Returns for each byte whether it is sent: requested bytes, and those in gaps smaller than `coalesceGapBytes`. */
function bytesOfAll(specs: readonly RangeSpec[], sizeBytes: number, coalesceGapBytes: number): boolean[] {
  const wishes = specs.map((spec) => bytesOf(spec, sizeBytes));
  const requested = Array.from({ length: sizeBytes }, (_, offset) => wishes.some((wish) => wish[offset]));
  const sent = [...requested];
  for (let offset = 0; offset < sizeBytes; offset += 1) {
    const before = requested.lastIndexOf(true, offset);
    const after = requested.indexOf(true, offset);
    if (before !== -1 && after !== -1 && after - before - 1 < coalesceGapBytes) sent[offset] = true;
  }
  return sent;
}

/** Returns runs of bytes as spans, in order. */
function runsOf(bytes: readonly boolean[]): Span[] {
  const spans: Span[] = [];
  bytes.forEach((isIn, offset) => {
    if (isIn && !bytes[offset - 1]) spans.push({ start: offset, end: offset + 1 });
    const last = spans.at(-1);
    if (isIn && last !== undefined) spans[spans.length - 1] = { start: last.start, end: offset + 1 };
  });
  return spans;
}

describe('selectRanges against a model of single bytes', () => {
  const cases = fc.integer({ min: 1, max: 60 }).chain((sizeBytes) =>
    fc.record({
      sizeBytes: fc.constant(sizeBytes),
      specs: fc.array(rangeSpec(sizeBytes + 3), { minLength: 1, maxLength: 8 }),
      coalesceGapBytes: fc.nat(6),
    }),
  );

  it('selects the same bytes, in spans that neither overlap nor adjoin', () => {
    fc.assert(
      fc.property(cases, ({ specs, sizeBytes, coalesceGapBytes }) => {
        const selection = selectRanges(specs, sizeBytes, { coalesceGapBytes });
        const wanted = runsOf(bytesOfAll(specs, sizeBytes, coalesceGapBytes));
        const got = selection.kind === 'partial' ? [...selection.spans].sort((a, b) => a.start - b.start) : [];
        expect(selection.kind).toBe(wanted.length === 0 ? 'unsatisfiable' : 'partial');
        expect(got).toEqual(wanted);
      }),
      { numRuns: 3_000 },
    );
  });

  /** Returns for each span the positions in the request of the ranges that it contains. */
  function placesOf(spans: readonly Span[], specs: readonly RangeSpec[], sizeBytes: number): number[][] {
    return spans.map(({ start, end }) =>
      specs.flatMap((spec, place) => (bytesOf(spec, sizeBytes).slice(start, end).includes(true) ? [place] : [])),
    );
  }

  it('orders spans by the position of a range that they contain', () => {
    fc.assert(
      fc.property(cases, ({ specs, sizeBytes, coalesceGapBytes }) => {
        const selection = selectRanges(specs, sizeBytes, { coalesceGapBytes });
        if (selection.kind !== 'partial') return;
        let previous = -1;
        for (const places of placesOf(selection.spans, specs, sizeBytes)) {
          const place = places.find((candidate) => candidate > previous);
          expect(place).toBeDefined();
          previous = place ?? max;
        }
      }),
      { numRuns: 3_000 },
    );
  });

  it('orders spans by the first range that they contain, where no range lies inside another', () => {
    const isInside = (inner: readonly boolean[], outer: readonly boolean[]): boolean =>
      inner.every((isIn, offset) => !isIn || outer[offset] === true);
    fc.assert(
      fc.property(cases, ({ specs, sizeBytes, coalesceGapBytes }) => {
        const chosen = specs.map((spec) => bytesOf(spec, sizeBytes));
        const hasNesting = chosen.some((inner, a) => chosen.some((outer, b) => a !== b && isInside(inner, outer)));
        fc.pre(!hasNesting);
        const selection = selectRanges(specs, sizeBytes, { coalesceGapBytes });
        const spans = selection.kind === 'partial' ? selection.spans : [];
        const places = placesOf(spans, specs, sizeBytes).map((all) => Math.min(...all));
        expect(places).toEqual(places.toSorted((a, b) => a - b));
      }),
      { numRuns: 500 },
    );
  });
});

describe('selectRanges of one range against exact arithmetic', () => {
  /** Follows the clamping rules of RFC 9110 §14.1.2 word by word. Ends are inclusive; `undefined` means unsatisfiable. */
  function inclusive(spec: RangeSpec, size: bigint): readonly [first: bigint, last: bigint] | undefined {
    if (spec.kind === 'suffix') {
      const length = BigInt(spec.length);
      if (length === 0n) return undefined;
      return [length > size ? 0n : size - length, size - 1n];
    }
    if (BigInt(spec.first) >= size) return undefined;
    const last = spec.kind === 'open' ? size : BigInt(spec.last);
    return [BigInt(spec.first), last >= size ? size - 1n : last];
  }

  it('is exact up to the greatest size', () => {
    const size = fc.oneof(fc.integer({ min: 1, max }), fc.integer({ min: max - 5, max }));
    fc.assert(
      fc.property(size, rangeSpec(max), (sizeBytes, spec) => {
        const wanted = inclusive(spec, BigInt(sizeBytes));
        const selection = selectRanges([spec], sizeBytes, { coalesceGapBytes: 80 });
        expect(formatted(selection)).toBe(wanted === undefined ? 'unsatisfiable' : wanted.join('-'));
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('selectBeforeLength against selectRanges', () => {
  it('selects the same bytes as selectRanges does with the length', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), rangeSpec(45), (sizeBytes, spec) => {
        const early = selectBeforeLength([spec]);
        if (early.kind === 'needs-length') return;
        const promised =
          early.kind === 'span' ? early.span : { start: early.kind === 'live' ? early.first : 0, end: max };
        const selection = selectRanges([spec], sizeBytes, { coalesceGapBytes: 0 });
        const selected = selection.kind === 'partial' ? selection.spans[0] : undefined;
        const end = Math.min(promised.end, sizeBytes);
        expect(selected).toEqual(promised.start < end ? { start: promised.start, end } : undefined);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('selectSpan', () => {
  const rows: readonly (readonly [text: string, sizeBytes: number, wanted: string])[] = [
    ['bytes=0-4', 10, '0-4'],
    ['bytes=9-', 10, '9-9'],
    ['bytes=-3', 10, '7-9'],
    ['bytes=-11', 10, '0-9'],
    ['bytes=5-99', 10, '5-9'],
    ['bytes=000000000000000000005-6', 10, '5-6'],
    ['bytes=5-999999999999999', 10, '5-9'],
    ['bytes=5-9999999999999999', 10, '5-9'],
    ['BYTES= 5-6\t,', 10, '5-6'],
    ['bytes=10-', 10, 'none'],
    ['bytes=-0', 10, 'none'],
    ['bytes=6-5', 10, 'none'],
    ['bytes=-', 10, 'none'],
    ['bytes=', 10, 'none'],
    ['bytes=5', 10, 'none'],
    ['bytes', 10, 'none'],
    ['bytes=1-2-3', 10, 'none'],
    ['bytes=1-2,4-5', 10, 'none'],
    ['bytes=1-2,3-4', 10, 'none'],
    ['bytes=+1-2', 10, 'none'],
    ['bytes=1 -2', 10, 'none'],
    ['bits=1-2', 10, 'none'],
    ['', 10, 'none'],
    ['bytes=-5', 0, 'none'],
    ['bytes=0-', 0, 'none'],
  ];
  const shown = (span: Span | undefined) => (span === undefined ? 'none' : `${span.start}-${span.end - 1}`);
  it.each(rows)('%o of %i bytes: %s', (text, sizeBytes, wanted) => {
    expect(shown(selectSpan(text, sizeBytes))).toBe(wanted);
  });

  /** Selects one range with the functions for range sets. */
  function selectAtLength(text: string, sizeBytes: number): Span | undefined {
    const parsed = parseRange(text, { maxRanges: 100 });
    if (parsed.kind === 'ignored' || parsed.specs.length > 1) return undefined;
    const selection = selectRanges(parsed.specs, sizeBytes, { coalesceGapBytes: 0 });
    return selection.kind === 'partial' ? selection.spans[0] : undefined;
  }

  const sizes = fc.oneof(fc.nat(25), fc.nat(), fc.maxSafeNat());
  it('selects the same as selectRanges, for any text', () => {
    fc.assert(
      fc.property(nearlyRangeText, sizes, (text, sizeBytes) => {
        expect(selectSpan(text, sizeBytes)).toEqual(selectAtLength(text, sizeBytes));
      }),
      { numRuns: 5_000 },
    );
  });

  it('selects the same as range-parser for plain ranges', () => {
    const position = fc.nat(30);
    fc.assert(
      fc.property(position, fc.option(position), fc.integer({ min: 1, max: 25 }), (first, last, sizeBytes) => {
        const text = `bytes=${first}-${last ?? ''}`;
        const ranges = rangeParser(sizeBytes, text);
        const [range] = typeof ranges === 'number' ? [] : ranges;
        expect(shown(selectSpan(text, sizeBytes))).toBe(range === undefined ? 'none' : `${range.start}-${range.end}`);
      }),
    );
  });
});
