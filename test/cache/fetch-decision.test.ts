import { describe, expect, it } from 'vitest';
import { SpanSet } from '../../src/bytes/span.ts';
import {
  type Coming,
  decideFetch,
  isComing,
  type Need,
  openAheadBytes,
  openSpanBytes,
} from '../../src/cache/fill/fetch-decision.ts';

const blockSizeBytes = 10;

/** A need of 100 bytes in ten blocks, of which none is there. */
function need(part: Partial<Need> & { readonly offset: number; readonly blocks?: readonly [number, number][] }): Need {
  const { blocks = [], ...rest } = part;
  return {
    end: 100,
    sizeBytes: 100,
    blockSizeBytes,
    present: new SpanSet(blocks.map(([start, end]) => ({ start, end }))),
    fills: [],
    mayAskForParts: true,
    seekAheadBytes: 20,
    seekAheadMs: 0,
    growsOpenRanges: true,
    ...rest,
  };
}

function coming(frontier: number, limit = 100, speed = 0): Coming {
  return { frontier, keptTo: Math.floor(frontier / blockSizeBytes) * blockSizeBytes, limit, speed };
}

const wait = 'wait';
/** The span that is fetched, `wait` or `expect`. */
function decided(part: Parameters<typeof need>[0]): string {
  const decision = decideFetch(need(part));
  return decision.kind === 'fetch' ? `${decision.span.start}-${decision.span.end}` : decision.kind;
}

describe('what is fetched, from blocks of 10 bytes', () => {
  it.each<[string, Parameters<typeof need>[0], string]>([
    ['all, from the first byte', { offset: 0 }, '0-100'],
    ['from the block of the byte', { offset: 37 }, '30-100'],
    ['to the end of the block of the last byte', { offset: 37, end: 52 }, '30-60'],
    ['one block for one byte', { offset: 37, end: 38 }, '30-40'],
    ['not more than there is', { offset: 92, end: 1000, sizeBytes: 95 }, '90-95'],
    ['everything that is wanted, where the end is open', { offset: 92, end: Number.POSITIVE_INFINITY }, '90-100'],
    ['up to what is there', { offset: 37, blocks: [[6, 8]] }, '30-60'],
    [
      'up to what is there, not less for what lies before',
      {
        offset: 37,
        blocks: [
          [0, 3],
          [9, 10],
        ],
      },
      '30-90',
    ],
    ['up to where another one is at work', { offset: 0, fills: [coming(55)] }, '0-50'],
    ['up to the first of those at work', { offset: 0, fills: [coming(80), coming(41, 60)] }, '0-40'],
    ['beyond where one was at work behind it', { offset: 70, fills: [coming(5, 30)] }, '70-100'],
  ])('%s: %o', (_name, part, expected) => {
    expect(decided(part)).toBe(expected);
  });
});

describe('who waits', () => {
  it.each<[string, Parameters<typeof need>[0], string]>([
    ['for what comes next', { offset: 40, fills: [coming(40)] }, wait],
    ['for what is near enough', { offset: 60, fills: [coming(40)] }, wait],
    ['not for what is one byte too far', { offset: 61, fills: [coming(40)] }, '60-100'],
    ['not for one that ends before', { offset: 40, fills: [coming(30, 40)] }, '40-100'],
    ['for one that ends just behind', { offset: 40, fills: [coming(30, 41)] }, wait],
    ['not for one that is beyond', { offset: 30, fills: [coming(40)] }, '30-40'],
    ['for a block that is arriving, behind the byte', { offset: 41, fills: [coming(48)] }, wait],
    ['for the nearest of several', { offset: 60, fills: [coming(0), coming(55)] }, wait],
    [
      'as long as it stays so, for what is fast enough',
      { offset: 90, seekAheadMs: 10, fills: [coming(40, 100, 5)] },
      'expect',
    ],
    ['not for what is too slow', { offset: 91, seekAheadMs: 10, fills: [coming(40, 100, 5)] }, '90-100'],
    ['for what is near, however slow', { offset: 60, seekAheadMs: 10, fills: [coming(40, 100, 0.1)] }, wait],
    ['not at all where nothing may be ahead', { offset: 41, seekAheadBytes: 0, fills: [coming(40)] }, '40-100'],
  ])('%s: %o', (_name, part, expected) => {
    expect(decided(part)).toBe(expected);
  });
});

describe('what is fetched for the reader of an open-ended range, from blocks of 10 bytes', () => {
  it.each<[string, Parameters<typeof need>[0], string]>([
    ['one block at first', { offset: 0, openFrom: 0 }, '0-10'],
    ['one block at first, wherever it begins', { offset: 37, openFrom: 37 }, '30-40'],
    ['one more after the first', { offset: 10, openFrom: 0 }, '10-20'],
    ['one more, where the origin answers at once', { offset: 50, openFrom: 0 }, '50-60'],
    ['four round trips', { offset: 40, openFrom: 0, paceBytes: 5 }, '40-60'],
    ['not more than half of what was read before', { offset: 20, openFrom: 0, paceBytes: 100 }, '20-30'],
    ['not more than seekAheadBytes', { offset: 70, openFrom: 0, paceBytes: 100 }, '70-90'],
    ['not more than there is', { offset: 80, openFrom: 0, paceBytes: 100, sizeBytes: 95 }, '80-95'],
    ['up to where something is there', { offset: 50, openFrom: 0, blocks: [[6, 7]] }, '50-60'],
    ['up to where a transfer is at work', { offset: 50, openFrom: 0, fills: [coming(60)] }, '50-60'],
    ['all at once where spans do not grow', { offset: 0, openFrom: 0, growsOpenRanges: false }, '0-100'],
    ['all at once where no part can be had', { offset: 0, openFrom: 0, mayAskForParts: false }, '0-Infinity'],
  ])('%s: %o', (_name, part, expected) => {
    expect(decided(part)).toBe(expected);
  });
});

describe('the span of an open-ended range, and when it is asked for', () => {
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
  ])('after %i bytes, %i of them in a round trip, has %i, %i bytes ahead', (readBytes, paceBytes, span, ahead) => {
    expect(openSpanBytes(reading(readBytes, paceBytes))).toBe(span);
    expect(openAheadBytes(reading(readBytes, paceBytes))).toBe(ahead);
  });

  it('makes at most some hundred and fifty requests of a gibibyte', () => {
    let requests = 0;
    for (let read = 0; read < 1024 * mib; requests += 1) read += openSpanBytes(reading(read, 0));
    expect(requests).toBeLessThan(150);
  });
});

describe('where no part can be asked for', () => {
  const whole = '0-Infinity';
  it.each<[string, Parameters<typeof need>[0], string]>([
    ['the whole is', { offset: 95, mayAskForParts: false }, whole],
    ['whoever is far ahead waits', { offset: 95, mayAskForParts: false, fills: [coming(0)] }, wait],
    ['the whole is, when what comes ends before', { offset: 95, mayAskForParts: false, fills: [coming(0, 50)] }, whole],
    ['because the length is not known, the whole is', { offset: 95, sizeBytes: undefined }, whole],
    [
      'because the length is not known, whoever is far ahead waits',
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
    // A whole block that is not kept yet.
    [50, 40, 50, 40, true],
    [50, 40, 50, 49, true],
    [50, 50, 50, 49, false],
  ])('frontier %i, kept to %i, limit %i: byte %i: %s', (frontier, keptTo, limit, offset, expected) => {
    expect(isComing({ frontier, keptTo, limit, speed: 0 }, offset)).toBe(expected);
  });
});
