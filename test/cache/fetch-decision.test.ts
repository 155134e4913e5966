import { describe, expect, it } from 'vitest';
import { SpanSet } from '../../src/bytes/span.ts';
import {
  decideFetch,
  type FillProgress,
  isComing,
  type Need,
  nextPart,
  openAheadBytes,
  openSpanBytes,
  repeatedBytes,
  wholeBlocks,
} from '../../src/cache/fill/fetch-decision.ts';

const blockSizeBytes = 10;

/** A need for 100 bytes in ten blocks, all absent unless `blocks` says otherwise. */
function need(part: Partial<Need> & { readonly offset: number; readonly blocks?: readonly [number, number][] }): Need {
  const { blocks = [], ...rest } = part;
  return {
    end: 100,
    sizeBytes: 100,
    blockSizeBytes,
    present: new SpanSet(blocks.map(([start, end]) => ({ start, end }))),
    fills: [],
    mayAskForParts: true,
    isProbing: false,
    seekAheadBytes: 20,
    seekAheadMs: 0,
    latencyMs: 0,
    growsOpenRanges: true,
    ...rest,
  };
}

function coming(frontier: number, limit = 100, speed = 0): FillProgress {
  return { frontier, keptTo: Math.floor(frontier / blockSizeBytes) * blockSizeBytes, limit, speed };
}

const wait = 'wait';
const expected = 'expect';
/** Returns the fetched span, `wait` or `expect`. */
function decided(part: Parameters<typeof need>[0]): string {
  const decision = decideFetch(need(part));
  return decision.kind === 'fetch' ? `${decision.span.start}-${decision.span.end}` : decision.kind;
}

describe('a fetch, with blocks of 10 bytes,', () => {
  it.each<[string, Parameters<typeof need>[0], string]>([
    ['takes the whole body from its first byte on', { offset: 0 }, '0-100'],
    ['begins with the block of the byte', { offset: 37 }, '30-100'],
    ['ends with the block of the last byte', { offset: 37, end: 52 }, '30-60'],
    ['takes one block for one byte', { offset: 37, end: 38 }, '30-40'],
    ['ends where the body ends', { offset: 92, end: 1000, sizeBytes: 95 }, '90-95'],
    ['ends where the body ends for an open need', { offset: 92, end: Number.POSITIVE_INFINITY }, '90-100'],
    ['ends at the next stored block', { offset: 37, blocks: [[6, 8]] }, '30-60'],
    [
      'ends at the next stored block, whatever is stored before the byte',
      {
        offset: 37,
        blocks: [
          [0, 3],
          [9, 10],
        ],
      },
      '30-90',
    ],
    ['ends at the block where another fill is at work', { offset: 0, fills: [coming(55)] }, '0-50'],
    ['ends at the first of several fills', { offset: 0, fills: [coming(80), coming(41, 60)] }, '0-40'],
    ['is not limited by a fill behind the byte', { offset: 70, fills: [coming(5, 30)] }, '70-100'],
  ])('%s: %o', (_name, part, expected) => {
    expect(decided(part)).toBe(expected);
  });
});

describe('a reader', () => {
  it.each<[string, Parameters<typeof need>[0], string]>([
    ['waits for the next byte of a fill', { offset: 40, fills: [coming(40)] }, wait],
    ['expects a byte near enough to the frontier', { offset: 60, fills: [coming(40)] }, expected],
    ['does not wait for a byte that is one too far', { offset: 61, fills: [coming(40)] }, '60-100'],
    ['does not wait for a fill that ends before the byte', { offset: 40, fills: [coming(30, 40)] }, '40-100'],
    ['expects it of a fill that ends just after it', { offset: 40, fills: [coming(30, 41)] }, expected],
    ['does not wait for a fill past the byte', { offset: 30, fills: [coming(40)] }, '30-40'],
    ['waits for its block, which is arriving', { offset: 41, fills: [coming(48)] }, wait],
    [
      'waits for its block, which is arriving, however slow the fill is',
      { offset: 59, seekAheadBytes: 0, seekAheadMs: 10, fills: [coming(51, 100, 0.1)] },
      wait,
    ],
    ['expects it of the nearest of several fills', { offset: 60, fills: [coming(0), coming(55)] }, expected],
    [
      'waits for a fill that is fast enough, as long as it stays so',
      { offset: 95, seekAheadMs: 10, fills: [coming(40, 100, 5)] },
      expected,
    ],
    ['does not wait for a slow fill', { offset: 95, seekAheadMs: 10, fills: [coming(39, 100, 5)] }, '90-100'],
    [
      'does not wait for a near fill that is known to be slow',
      { offset: 55, seekAheadMs: 10, fills: [coming(40, 100, 0.9)] },
      '50-100',
    ],
    [
      'waits for a slow fill where the origin takes still longer to answer',
      { offset: 55, seekAheadMs: 10, latencyMs: 20, fills: [coming(40, 100, 0.9)] },
      expected,
    ],
    [
      'waits for one of several fills that is fast enough',
      { offset: 55, seekAheadMs: 10, fills: [coming(45, 100, 0.1), coming(30, 100, 5)] },
      expected,
    ],
    [
      'waits while the answer to another request will show whether the origin has ranges',
      { offset: 90, isProbing: true, fills: [coming(10)] },
      'probe',
    ],
    ['does not wait for that answer if no fill brings the byte', { offset: 90, isProbing: true }, '90-100'],
    ['does not wait if seekAheadBytes is 0', { offset: 41, seekAheadBytes: 0, fills: [coming(40)] }, '40-100'],
  ])('%s: %o', (_name, part, decision) => {
    expect(decided(part)).toBe(decision);
  });
});

describe('a fill brings present bytes once more, rather than end before them,', () => {
  it.each([
    ['up to seekAheadBytes, where its speed is not known', 0, 0, 2000],
    ['up to seekAheadBytes, where it is fast', 100, 0, 2000],
    ['as many as it brings within seekAheadMs, where it is slow', 1, 0, 500],
    ['as many as it brings while the origin answers, where that takes longer', 1, 700, 700],
  ])('%s', (_, speed, latencyMs, most) => {
    expect(repeatedBytes({ speed }, { seekAheadBytes: 2000, seekAheadMs: 500, latencyMs })).toBe(most);
  });
});

describe('a fetch for an open-ended range, with blocks of 10 bytes,', () => {
  it.each<[string, Parameters<typeof need>[0], string]>([
    ['takes one block at first', { offset: 0, openFrom: 0 }, '0-10'],
    ['takes one block at first, wherever the range begins', { offset: 37, openFrom: 37 }, '30-40'],
    ['takes one block after the first', { offset: 10, openFrom: 0 }, '10-20'],
    ['takes one block where the origin answers at once', { offset: 50, openFrom: 0 }, '50-60'],
    ['takes as much as arrives in four round trips', { offset: 40, openFrom: 0, paceBytes: 5 }, '40-60'],
    ['takes at most half of the bytes that were read', { offset: 20, openFrom: 0, paceBytes: 100 }, '20-30'],
    ['takes at most seekAheadBytes', { offset: 70, openFrom: 0, paceBytes: 100 }, '70-90'],
    ['ends where the body ends', { offset: 80, openFrom: 0, paceBytes: 100, sizeBytes: 95 }, '80-95'],
    ['ends at the next stored block', { offset: 50, openFrom: 0, blocks: [[6, 7]] }, '50-60'],
    ['ends at the block where another fill is at work', { offset: 50, openFrom: 0, fills: [coming(60)] }, '50-60'],
    ['takes everything at once where spans do not grow', { offset: 0, openFrom: 0, growsOpenRanges: false }, '0-100'],
    ['takes everything if it may not ask for parts', { offset: 0, openFrom: 0, mayAskForParts: false }, '0-Infinity'],
  ])('%s: %o', (_name, part, expected) => {
    expect(decided(part)).toBe(expected);
  });
});

describe('the next span of an open-ended range', () => {
  const kib = 1024;
  const mib = 1024 * kib;
  const reading = (readBytes: number, paceBytes: number) => ({
    readBytes,
    paceBytes,
    blockSizeBytes: 256 * kib,
    seekAheadBytes: 2 * mib,
  });

  it.each([
    [0, 0, 256 * kib, 0],
    [0, 100 * mib, 256 * kib, 128 * kib],
    [mib, 0, 256 * kib, 0],
    [mib, 50 * kib, 256 * kib, 100 * kib],
    [mib, 100 * mib, 512 * kib, 256 * kib],
    [20 * mib, 0, mib, 0],
    [20 * mib, 300 * kib, 1.25 * mib - 256 * kib, 512 * kib],
    [20 * mib, 100 * mib, 2 * mib, mib],
    [100 * mib, 100 * mib, 5 * mib, 2.5 * mib],
  ])('after %i bytes, %i per round trip, has %i, asked %i bytes ahead', (readBytes, paceBytes, span, ahead) => {
    expect(openSpanBytes(reading(readBytes, paceBytes))).toBe(span);
    expect(openAheadBytes(reading(readBytes, paceBytes))).toBe(ahead);
  });

  it('is long enough for fewer than 150 requests per gibibyte', () => {
    let requests = 0;
    for (let read = 0; read < 1024 * mib; requests += 1) read += openSpanBytes(reading(read, 0));
    expect(requests).toBeLessThan(150);
  });
});

describe('where the origin cannot be asked for parts', () => {
  const whole = '0-Infinity';
  it.each<[string, Parameters<typeof need>[0], string]>([
    ['the whole is fetched', { offset: 95, mayAskForParts: false }, whole],
    ['a reader far ahead of a fill waits', { offset: 95, mayAskForParts: false, fills: [coming(0)] }, wait],
    ['the whole is fetched if fills end before', { offset: 95, mayAskForParts: false, fills: [coming(0, 50)] }, whole],
    ['because the length is not known, the whole is fetched', { offset: 95, sizeBytes: undefined }, whole],
    [
      'because the length is not known, a reader far ahead of a fill waits',
      { offset: 95, sizeBytes: undefined, fills: [coming(0, Number.POSITIVE_INFINITY)] },
      wait,
    ],
  ])('%s: %o', (_name, part, expected) => {
    expect(decided(part)).toBe(expected);
  });
});

describe('isComing', () => {
  it.each([
    [40, 40, 100, 40, true],
    [40, 40, 100, 39, false],
    [40, 40, 100, 99, true],
    [40, 40, 100, 100, false],
    // A whole block has arrived, and is not kept yet.
    [50, 40, 50, 40, true],
    [50, 40, 50, 49, true],
    [50, 50, 50, 49, false],
  ])('frontier %i, kept to %i, limit %i: byte %i: %s', (frontier, keptTo, limit, offset, expected) => {
    expect(isComing({ frontier, keptTo, limit, speed: 0 }, offset)).toBe(expected);
  });
});

describe('the next part beside running fills, in parts of 20 bytes', () => {
  it.each<[string, readonly [number, number][], readonly FillProgress[], string]>([
    ['leaves the next part to the running fill', [], [coming(0)], '20-40'],
    ['leaves it the rest of its block, too', [[0, 1]], [coming(13)], '40-60'],
    ['lies behind other parts', [], [coming(0), coming(25, 40)], '40-60'],
    ['lies behind parts that have arrived', [[2, 4]], [coming(0)], '40-60'],
    ['ends at a block that is present', [[3, 4]], [coming(0)], '20-30'],
    ['ends at another fill', [], [coming(0), coming(30, 50)], '20-30'],
    ['begins at once where no fill brings the bytes', [[0, 1]], [], '10-30'],
    ['ends with the whole', [[0, 9]], [], '90-95'],
    [
      'is none where all bytes come',
      [],
      [coming(0, 20), coming(20, 40), coming(40, 60), coming(60, 80), coming(80)],
      '',
    ],
    ['is none where all bytes are present', [[0, 10]], [], ''],
  ])('%s', (_, blocks, fills, expected) => {
    const { present } = need({ offset: 0, blocks });
    const span = nextPart({ present, fills, blockSizeBytes }, { start: 0, end: 95 }, 20);
    expect(span === undefined ? '' : `${span.start}-${span.end}`).toBe(expected);
  });
});

it.each([
  [8192, 8],
  [8692, 8],
  [100, 1],
  [0, 1],
])('a part of at most %i bytes has %i blocks of 1024 bytes', (partBytes, blocks) => {
  expect(wholeBlocks(partBytes, 1024)).toBe(blocks);
});
