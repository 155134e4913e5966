import { describe, expect, it } from 'vitest';
import {
  decideUnwanted,
  type FillPolicy,
  growsOpenRanges,
  mayComplete,
  type Unwanted,
} from '../../src/cache/inquiry.ts';

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
  resumeAttempts: 0,
};
const legacy: Unwanted = { givesParts: false, sizeBytes: 500, leftBytes: 50 };
const ranged: Unwanted = { ...legacy, givesParts: true };

describe('a transfer that nobody reads', () => {
  it.each<[string, Partial<FillPolicy>, Unwanted, 'finish' | 'stop']>([
    ['finish', {}, legacy, 'finish'],
    ['stop', { onAbort: 'stop' }, legacy, 'stop'],
    ['stop, though all is to be completed', { onAbort: 'stop', complete: 'always' }, ranged, 'stop'],
    ['as much left as may be', {}, { ...legacy, leftBytes: 100 }, 'finish'],
    ['too much left', {}, { ...legacy, leftBytes: 101 }, 'stop'],
    ['as large as may be', {}, { ...legacy, sizeBytes: 1000 }, 'finish'],
    ['too large', {}, { ...legacy, sizeBytes: 1001 }, 'stop'],
    ['nothing known', {}, { givesParts: false, sizeBytes: undefined, leftBytes: undefined }, 'finish'],
    ['nothing known but the length', {}, { ...legacy, leftBytes: undefined }, 'finish'],
    [
      'no limits',
      { finishMaxLeftBytes: Infinity, finishMaxSizeBytes: Infinity },
      { ...legacy, sizeBytes: 1e15 },
      'finish',
    ],
    ['the rest can be had later', {}, ranged, 'stop'],
    ['the rest can be had later, but all is completed', { complete: 'always' }, ranged, 'finish'],
    ['small enough to be completed', { complete: { smallerThanBytes: 501 } }, ranged, 'finish'],
    ['too large to be completed', { complete: { smallerThanBytes: 500 } }, ranged, 'stop'],
    ['completed, but too much left', { complete: 'always' }, { ...ranged, leftBytes: 101 }, 'stop'],
    ['not completed, but the rest cannot be had', { complete: { smallerThanBytes: 1 } }, legacy, 'finish'],
  ])('%s', (_name, rules, unwanted, expected) => {
    expect(decideUnwanted({ ...policy, ...rules }, unwanted)).toBe(expected);
  });
});

describe('what is absent is fetched for its own sake', () => {
  it.each<[FillPolicy['complete'], number, boolean]>([
    ['always', 1e15, true],
    ['never', 1, false],
    [{ smallerThanBytes: 100 }, 99, true],
    [{ smallerThanBytes: 100 }, 100, false],
    [{ smallerThanBytes: 0 }, 0, false],
  ])('%o, of %i bytes: %s', (complete, sizeBytes, expected) => {
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
