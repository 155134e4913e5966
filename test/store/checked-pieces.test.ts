/** Which pieces of a block need to be checked again before the system moves them. */

import { describe, expect, it } from 'vitest';
import { CheckedPieces } from '../../src/store/disk/bodies/synchronous-io.ts';

const count = 8;
const file = {};

type Span = readonly [start: number, end: number];
/** Pieces that pass a check, at a time in milliseconds after the start. */
type Note = readonly [atMs: number, ...span: Span];

describe('the pieces of a block that need a check', () => {
  it.each<[name: string, notes: readonly Note[], atMs: number, wanted: Span, doubtful: Span | undefined]>([
    ['are all when none was checked', [], 0, [0, 8], [0, 8]],
    ['are none when all were checked just now', [[0, 0, 8]], 0, [0, 8], undefined],
    ['are none when the wanted ones were checked', [[0, 2, 5]], 50, [2, 5], undefined],
    ['are those before the checked ones', [[0, 2, 8]], 50, [0, 8], [0, 2]],
    ['are those after the checked ones', [[0, 0, 5]], 50, [0, 8], [5, 8]],
    ['are one span when there are some before and after the checked ones', [[0, 2, 5]], 50, [1, 7], [1, 7]],
    [
      'are those between two checked spans',
      [
        [0, 0, 2],
        [0, 6, 8],
      ],
      50,
      [0, 8],
      [2, 6],
    ],
    ['are no more than the wanted ones', [[0, 2, 3]], 50, [3, 4], [3, 4]],
    ['are none for a minute, less up to a tenth of a second', [[0, 0, 8]], 59_899, [0, 8], undefined],
    ['are all after a minute', [[0, 0, 8]], 60_000, [0, 8], [0, 8]],
    [
      'are all after a minute, also when checked at the end of a tenth of a second',
      [[99, 0, 8]],
      60_099,
      [0, 8],
      [0, 8],
    ],
    [
      'are those that were not checked again within a minute',
      [
        [0, 0, 8],
        [59_000, 3, 5],
      ],
      62_000,
      [2, 5],
      [2, 3],
    ],
    ['are those that were never checked, even in the first millisecond', [[0, 0, 1]], 1, [0, 2], [1, 2]],
    ['are those past the end of the block', [[0, 0, 8]], 0, [7, 9], [8, 9]],
  ])('%s', (_name, notes, atMs, [start, end], doubtful) => {
    let now = 5_000.25;
    const startedAt = now;
    const checked = new CheckedPieces(() => now);
    for (const [noteAtMs, first, last] of notes) {
      now = startedAt + noteAtMs;
      checked.note(0, file, { start: first, end: last }, count);
    }
    now = startedAt + atMs;
    const found = checked.uncheckedPieces(0, file, start, end);
    expect(found).toEqual(doubtful && { start: doubtful[0], end: doubtful[1] });
  });

  const all = { start: 0, end: count };
  it.each<[name: string, change: (checked: CheckedPieces) => void, block: number, file: object, isSound: boolean]>([
    ['none while nothing changes', () => {}, 1, file, true],
    ['all of another block', () => {}, 2, file, false],
    ['all of the block in another file', () => {}, 1, {}, false],
    ['all of a block that was forgotten', (checked) => checked.forget(1), 1, file, false],
    ['none when another block was forgotten', (checked) => checked.forget(2), 1, file, true],
    [
      'all in the earlier file once another file was checked',
      (checked) => checked.note(1, {}, all, count),
      1,
      file,
      false,
    ],
  ])('are %s', (_name, change, block, asked, isSound) => {
    const checked = new CheckedPieces(() => 0);
    checked.note(1, file, all, count);
    change(checked);
    expect(checked.uncheckedPieces(block, asked, 0, count)).toEqual(isSound ? undefined : all);
  });

  it('are those of one block after another, from half a minute to a minute after all were checked at once', () => {
    let now = 0;
    const checked = new CheckedPieces(() => now);
    const blocks = Array.from({ length: 3000 }, (_, block) => block);
    for (const block of blocks) checked.note(block, file, all, count);
    const soundAt = (ms: number): number => {
      now = ms;
      return blocks.filter((block) => checked.uncheckedPieces(block, file, 0, count) === undefined).length;
    };
    expect([soundAt(29_999), soundAt(60_000)]).toEqual([3000, 0]);
    const goneInOneSecond = Array.from(
      { length: 30 },
      (_, at) => soundAt(30_000 + at * 1000) - soundAt(31_000 + at * 1000),
    );
    expect(Math.min(...goneInOneSecond)).toBeGreaterThan(50);
    expect(Math.max(...goneInOneSecond)).toBeLessThan(200);
  });
});
