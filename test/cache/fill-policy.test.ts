import { describe, expect, it } from 'vitest';
import { decideUnread, type FillPolicy, growsOpenRanges, mayComplete, type Unwanted } from '../../src/cache/inquiry.ts';

const policy: FillPolicy = {
  onAbort: 'finish',
  finishMaxLeftBytes: 100,
  finishMaxSizeBytes: 1000,
  finishMaxPerClient: Infinity,
  complete: 'never',
  openRanges: 'grow',
  headLength: 'origin',
  seekAheadBytes: 0,
  seekAheadMs: 0,
  returnMs: 0,
  resumeAttempts: 0,
  parallel: undefined,
};
const legacy: Unwanted = { givesParts: false, sizeBytes: 500, leftBytes: 50 };
const ranged: Unwanted = { ...legacy, givesParts: true };

describe('a transfer without readers', () => {
  it.each<[string, Partial<FillPolicy>, Unwanted, 'finish' | 'stop']>([
    ['is finished under onAbort finish', {}, legacy, 'finish'],
    ['is stopped under onAbort stop', { onAbort: 'stop' }, legacy, 'stop'],
    ['is stopped even under complete always', { onAbort: 'stop', complete: 'always' }, ranged, 'stop'],
    ['is finished with as many bytes left as allowed', {}, { ...legacy, leftBytes: 100 }, 'finish'],
    ['is stopped with too many bytes left', {}, { ...legacy, leftBytes: 101 }, 'stop'],
    ['is finished if it is as large as allowed', {}, { ...legacy, sizeBytes: 1000 }, 'finish'],
    ['is stopped if it is too large', {}, { ...legacy, sizeBytes: 1001 }, 'stop'],
    ['is finished if all is unknown', {}, { givesParts: false, sizeBytes: undefined, leftBytes: undefined }, 'finish'],
    ['is finished if only the length of the body is known', {}, { ...legacy, leftBytes: undefined }, 'finish'],
    [
      'is finished without limits',
      { finishMaxLeftBytes: Infinity, finishMaxSizeBytes: Infinity },
      { ...legacy, sizeBytes: 1e15 },
      'finish',
    ],
    ['is stopped if the rest can be fetched later', {}, ranged, 'stop'],
    ['is finished under complete always', { complete: 'always' }, ranged, 'finish'],
    ['is finished if it is small enough to be completed', { complete: { smallerThanBytes: 501 } }, ranged, 'finish'],
    ['is stopped if it is too large to be completed', { complete: { smallerThanBytes: 500 } }, ranged, 'stop'],
    ['is stopped under always with too many bytes left', { complete: 'always' }, { ...ranged, leftBytes: 101 }, 'stop'],
    ['is finished if the rest cannot be fetched later', { complete: { smallerThanBytes: 1 } }, legacy, 'finish'],
  ])('%s', (_name, rules, unwanted, expected) => {
    expect(decideUnread({ ...policy, ...rules }, unwanted)).toBe(expected);
  });
});

describe('absent bytes are fetched without a reader', () => {
  it.each<[FillPolicy['complete'], number, boolean]>([
    ['always', 1e15, true],
    ['never', 1, false],
    [{ smallerThanBytes: 100 }, 99, true],
    [{ smallerThanBytes: 100 }, 100, false],
    [{ smallerThanBytes: 0 }, 0, false],
  ])('under complete %o, of %i bytes: %s', (complete, sizeBytes, expected) => {
    expect(mayComplete({ ...policy, complete }, sizeBytes)).toBe(expected);
  });
});

describe('an open-ended range', () => {
  it.each<[boolean, Partial<FillPolicy>, number]>([
    [true, {}, 1000],
    [false, { openRanges: 'whole' }, 1000],
    [false, { complete: 'always' }, 1000],
    [false, { complete: { smallerThanBytes: 1001 } }, 1000],
    [true, { complete: { smallerThanBytes: 1000 } }, 1000],
  ])('is fetched in growing spans: %s (%o, %i bytes)', (expected, part, sizeBytes) => {
    expect(growsOpenRanges({ ...policy, ...part }, sizeBytes)).toBe(expected);
  });
});
