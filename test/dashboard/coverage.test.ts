import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type ByteState,
  type Coverage,
  cellState,
  cellsOf,
  describeCell,
  describeCoverage,
  normalise,
  runsOf,
} from '../../dashboard/src/model/coverage.ts';

type Pair = readonly [start: number, end: number];

const spans = (pairs: readonly Pair[]) => pairs.map(([start, end]) => ({ start, end }));

function coverage(
  sizeBytes: number,
  present: readonly Pair[],
  hot: readonly Pair[] = [],
  arriving: readonly Pair[] = [],
): Coverage {
  return { sizeBytes, present: spans(present), hot: spans(hot), arriving: spans(arriving) };
}

describe('spans in order', () => {
  it.each<[given: Pair[], expected: Pair[]]>([
    [[], []],
    [[[5, 5]], []],
    [
      [
        [4, 6],
        [0, 2],
      ],
      [
        [0, 2],
        [4, 6],
      ],
    ],
    [
      [
        [0, 2],
        [2, 4],
      ],
      [[0, 4]],
    ],
    [
      [
        [0, 9],
        [2, 4],
      ],
      [[0, 9]],
    ],
    [
      [
        [-3, 2],
        [8, 20],
      ],
      [
        [0, 2],
        [8, 10],
      ],
    ],
    [[[11, 20]], []],
  ])('%j', (given, expected) => expect(normalise(spans(given), 10)).toEqual(spans(expected)));
});

describe('runs', () => {
  const pairsOf = (given: Coverage) => runsOf(given).map(({ start, end, state }) => [start, end, state]);

  it.each<[what: string, given: Coverage, expected: [number, number, ByteState][]]>([
    ['nothing', coverage(10, []), [[0, 10, 'absent']]],
    ['everything', coverage(10, [[0, 10]]), [[0, 10, 'stored']]],
    ['no bytes', coverage(0, []), []],
    [
      'hot bytes are a part of the stored ones',
      coverage(10, [[0, 6]], [[2, 4]]),
      [
        [0, 2, 'stored'],
        [2, 4, 'hot'],
        [4, 6, 'stored'],
        [6, 10, 'absent'],
      ],
    ],
    [
      'bytes that arrive again are stored',
      coverage(10, [[0, 6]], [], [[4, 8]]),
      [
        [0, 6, 'stored'],
        [6, 8, 'arriving'],
        [8, 10, 'absent'],
      ],
    ],
    [
      'memory may hold what the store has not got yet',
      coverage(10, [[0, 2]], [[2, 4]], [[2, 6]]),
      [
        [0, 2, 'stored'],
        [2, 4, 'hot'],
        [4, 6, 'arriving'],
        [6, 10, 'absent'],
      ],
    ],
  ])('%s', (_what, given, expected) => expect(pairsOf(given)).toEqual(expected));

  it('are what each byte by itself says', () => {
    const pair = fc
      .tuple(fc.nat(60), fc.nat(60))
      .map(([one, other]): Pair => [Math.min(one, other), Math.max(one, other)]);
    const pairs = fc.array(pair, { maxLength: 6 });
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 50 }), pairs, pairs, pairs, (size, present, hot, arriving) => {
        const isIn = (list: readonly Pair[], at: number) => list.some(([start, end]) => start <= at && at < end);
        const expected = Array.from({ length: size }, (_, at) =>
          isIn(hot, at) ? 'hot' : isIn(present, at) ? 'stored' : isIn(arriving, at) ? 'arriving' : 'absent',
        );
        const runs = runsOf(coverage(size, present, hot, arriving));
        expect(runs.flatMap(({ start, end, state }) => Array.from({ length: end - start }, () => state))).toEqual(
          expected,
        );
        expect(runs.every(({ state }, at) => state !== runs[at - 1]?.state)).toBe(true);
      }),
    );
  });
});

describe('cells', () => {
  it('divide the whole without a gap', () => {
    const cells = cellsOf(coverage(1003, [[0, 1003]]), 10);
    expect(cells.length).toBe(10);
    expect(cells[0]).toMatchObject({ start: 0, end: 100 });
    expect(cells.at(-1)).toMatchObject({ start: 902, end: 1003 });
    expect(cells.every(({ start }, at) => start === (cells[at - 1]?.end ?? 0))).toBe(true);
  });

  it('have the share of their bytes in each state', () => {
    const cells = cellsOf(
      coverage(
        40,
        [[0, 15]],
        [[0, 5]],
        [
          [15, 18],
          [30, 40],
        ],
      ),
      4,
    );
    expect(cells.map(({ storedShare, hotShare, arrivingShare }) => [storedShare, hotShare, arrivingShare])).toEqual([
      [1, 0.5, 0],
      [0.5, 0, 0.3],
      [0, 0, 0],
      [0, 0, 1],
    ]);
  });

  it('are as many as there are bytes, where these are few', () => {
    expect(cellsOf(coverage(3, [[1, 2]]), 100).map(({ storedShare }) => storedShare)).toEqual([0, 1, 0]);
    expect(cellsOf(coverage(0, []), 100)).toEqual([]);
  });

  it('of a large body cost time for its runs and cells only', () => {
    const size = 2 ** 50;
    const many = Array.from({ length: 10_000 }, (_, at): Pair => [at * 2 ** 36, at * 2 ** 36 + 2 ** 35]);
    const cells = cellsOf(coverage(size, many), 800);
    expect(cells[0]?.storedShare).toBeCloseTo(0.5, 1);
    expect(cells.at(-1)?.storedShare).toBe(0);
  });

  it.each([
    [0, 0, 0, 'absent', 'absent'],
    [1, 0, 0, 'stored', 'stored'],
    [1, 1, 0, 'hot', 'stored, in memory'],
    [0.5, 0.25, 0, 'stored', '50 % stored, 25 % in memory'],
    [0, 0, 1, 'arriving', 'arriving'],
    [0.2, 0, 0.5, 'arriving', '20 % stored, 50 % arriving'],
    [0.01, 0, 0, 'stored', '1 % stored'],
  ])('stored %d, hot %d, arriving %d: %s', (storedShare, hotShare, arrivingShare, state, words) => {
    const cell = { start: 0, end: 1000, storedShare, hotShare, arrivingShare };
    expect(cellState(cell)).toBe(state);
    expect(describeCell(cell)).toBe(`bytes 0–999: ${words}`);
  });
});

describe('a map in words', () => {
  it.each<[given: Coverage, words: string]>([
    [coverage(0, []), 'The body is empty.'],
    [coverage(2000, [[0, 2000]]), 'All 2 KB are stored; none are in memory.'],
    [
      coverage(
        2000,
        [
          [0, 500],
          [1000, 1500],
        ],
        [[0, 500]],
        [[500, 1000]],
      ),
      '1 KB of 2 KB (50 %) are stored, in 2 runs; 500 B are in memory; 500 B are arriving.',
    ],
    [coverage(2000, []), '0 B of 2 KB (0 %) are stored, in 0 runs; none are in memory.'],
  ])('%#', (given, words) => expect(describeCoverage(given)).toBe(words));
});
