/** Readers of a generation: which bytes each may still ask for, where the slowest is, and what they report. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Span } from '../../src/bytes/span.ts';
import type { ByteReader } from '../../src/cache/answer.ts';
import { Readers, type Seat } from '../../src/cache/fill/readers.ts';

const infinity = Number.POSITIVE_INFINITY;
const span = (start: number, end: number): Span => ({ start, end });

const visitor = { client: 'a', since: 0 };
const seat = (client: string): Seat => ({ client, isOpenEnded: false });

/** Creates readers whose every read gives one byte, and a log of their reads and reports. */
function createReaders() {
  const log: string[] = [];
  const readers = new Readers({
    createReader: ({ since }) => ({
      peek: () => undefined,
      read: async (offset, end) => {
        log.push(`read ${offset}-${end} since ${since}`);
        return new Uint8Array(1);
      },
      close: () => log.push('closed'),
    }),
    onMoved: (offset, end, { since }) => log.push(`moved ${offset}-${end} since ${since}`),
    onAwaited: () => log.push('awaited'),
    onLeft: () => log.push('left'),
  });
  return { readers, log };
}

describe('what a reader wants', () => {
  const spans = [span(100, 200), span(500, 600), span(300, 400)];
  type Row = readonly [at: readonly [number, number] | undefined, wanted: Span, isWanted: boolean];
  const rows: readonly Row[] = [
    [undefined, span(0, 100), false],
    [undefined, span(0, 101), true],
    [undefined, span(200, 300), false],
    [undefined, span(250, infinity), true],
    [undefined, span(399, 400), true],
    [undefined, span(600, infinity), false],
    [[100, 200], span(100, 101), true],
    [[150, 200], span(100, 150), false],
    [[150, 200], span(100, 151), true],
    [[150, 200], span(0, infinity), true],
    [[150, 200], span(300, 301), true],
    [[550, 600], span(100, 300), false],
    [[550, 600], span(100, 301), true],
    [[550, 600], span(500, 550), false],
    [[550, 600], span(599, 600), true],
    [[300, 400], span(500, infinity), false],
    [[399, 400], span(0, 399), false],
    [[399, 400], span(399, 400), true],
    [[399, 400], span(400, infinity), false],
  ];
  it.each(rows)('at %j: %j is wanted: %j', async (at, wanted, isWanted) => {
    const { readers } = createReaders();
    const reader = readers.add(spans, visitor);
    if (at !== undefined) await reader.read(...at);
    expect(readers.want(wanted)).toBe(isWanted);
    reader.close();
    expect(readers.want(span(0, infinity))).toBe(false);
  });

  it('has no end where the length is not known', () => {
    const { readers } = createReaders();
    const reader = readers.add([span(0, infinity)], visitor);
    reader.peek(1000, infinity);
    expect([span(0, 1000), span(0, 1001), span(1_000_000, infinity)].map((each) => readers.want(each))).toEqual([
      false,
      true,
      true,
    ]);
  });

  it('is nothing where the reader has no spans', () => {
    const { readers } = createReaders();
    readers.add([], visitor);
    expect(readers.want(span(0, infinity))).toBe(false);
  });

  it('is everything while a request has a seat, whatever readers have passed', () => {
    const { readers } = createReaders();
    const { leave } = readers.sit(seat('a'));
    readers.add([span(0, 100)], visitor).peek(50, 100);
    expect(readers.want(span(0, 1))).toBe(true);
    leave();
    expect(readers.want(span(0, 1))).toBe(false);
  });

  it('is the rest of its spans in their order, whatever they are', () => {
    // Disjoint spans in any order, as a request may have them, and how many of their bytes have been read.
    const cuts = fc.uniqueArray(fc.nat(60), { minLength: 2, maxLength: 12 }).map((all) => all.sort((a, b) => a - b));
    const disjoint = cuts.chain((all) => {
      const pairs = all.flatMap((start, index) => (index % 2 === 0 ? [span(start, all[index + 1] ?? start + 1)] : []));
      return fc.shuffledSubarray(pairs, { minLength: 1 });
    });
    const asked = fc.tuple(fc.nat(60), fc.integer({ min: 1, max: 60 }));
    fc.assert(
      fc.property(disjoint, fc.nat(80), asked, (spans, count, [start, length]) => {
        const { readers } = createReaders();
        const reader = readers.add(spans, visitor);
        const steps = spans.flatMap((each) =>
          Array.from({ length: each.end - each.start }, (_, index) => [each.start + index, each.end] as const),
        );
        const taken = Math.min(count, steps.length - 1);
        for (const [offset, end] of steps.slice(0, taken + 1)) reader.peek(offset, end);
        const left = steps.slice(taken).map(([offset]) => offset);
        const isWanted = left.some((offset) => start <= offset && offset < start + length);
        expect(readers.want(span(start, start + length))).toBe(isWanted);
      }),
    );
  });
});

describe('the bodyClients of a span', () => {
  it('are the clients whose readers may still ask for some of it, once for each reader', () => {
    const { readers } = createReaders();
    const add = (client: string, wanted: Span) => readers.add([wanted], { client, since: 0 });
    const [first] = [add('a', span(0, 100)), add('b', span(50, 200)), add('b', span(0, 60))];
    const { leave } = readers.sit(seat('c'));
    expect(readers.bodyClients(span(0, 10))).toEqual(['a', 'b', 'c']);
    expect(readers.bodyClients(span(50, 60))).toEqual(['a', 'b', 'b', 'c']);
    first?.close();
    leave();
    expect(readers.bodyClients(span(150, infinity))).toEqual(['b']);
    expect(readers.bodyClients(span(200, infinity))).toEqual([]);
  });
});

describe('the bytes that readers need now', () => {
  /** A reader of an open-ended range needs 10 bytes, and as many again as it has read. */
  const openLimit = (offset: number, from: number) => offset + 10 + (offset - from);
  const open = (from: number) => ({ ...visitor, open: { from, at: 0 } });

  it('are all of a span with an end, and those near the reader of an open-ended range', () => {
    const { readers } = createReaders();
    const reader = readers.add([span(100, 1000)], open(100));
    const needed = () => [100, 109, 110, 129, 130].map((start) => readers.need(span(start, 1000), openLimit));
    expect(needed()).toEqual([true, true, false, false, false]);
    reader.peek(110, 1000);
    expect(needed()).toEqual([true, true, true, true, false]);
    expect(readers.need(span(0, 100), openLimit)).toBe(false);
    const other = readers.add([span(500, 600)], visitor);
    expect(readers.need(span(300, 501), openLimit)).toBe(true);
    expect(readers.need(span(300, 500), openLimit)).toBe(false);
    other.close();
    expect(readers.need(span(300, 501), openLimit)).toBe(false);
  });

  it('are all while a request has a seat, but few while it is for an open-ended range', () => {
    const { readers, log } = createReaders();
    const seated = readers.sit({ client: 'a', isOpenEnded: true });
    expect([0, 9, 10].map((start) => readers.need(span(start, 1000), openLimit))).toEqual([true, true, false]);
    seated.awaits(20);
    expect(log).toEqual(['awaited']);
    expect(readers.need(span(49, 1000), openLimit)).toBe(true);
    expect(readers.need(span(50, 1000), openLimit)).toBe(false);
    seated.leave();
    readers.sit(seat('a'));
    expect(readers.need(span(900, 1000), openLimit)).toBe(true);
  });
});

describe('the lowest reader', () => {
  it('is the one at the lowest offset that is not before the given one', () => {
    const { readers } = createReaders();
    const [slow, fast] = [readers.add([span(0, 1000)], visitor), readers.add([span(0, 1000)], visitor)];
    slow.peek(200, 1000);
    fast.peek(700, 1000);
    expect([0, 200, 201, 700, 701].map((from) => readers.lowest(from))).toEqual([200, 200, 700, 700, undefined]);
    const { leave } = readers.sit(seat('a'));
    expect(readers.lowest(100)).toBe(100);
    leave();
    slow.close();
    expect(readers.lowest(0)).toBe(700);
  });
});

describe('a reader', () => {
  const rows: readonly [string, (reader: ByteReader) => unknown, string[]][] = [
    ['reports a position once', (reader) => [reader.peek(3, 9), reader.peek(3, 9)], ['moved 3-9 since 7']],
    [
      'reports its new position before it reads bytes',
      (reader) => reader.read(3, 9),
      ['moved 3-9 since 7', 'read 3-9 since 7'],
    ],
    ['reports that it has left after its source is closed', (reader) => reader.close(), ['closed', 'left']],
    ['reports only once that it has left', (reader) => [reader.close(), reader.close()], ['closed', 'left', 'closed']],
  ];
  it.each(rows)('%s', async (_, act, expected) => {
    const { readers, log } = createReaders();
    await act(readers.add([span(0, 9)], { ...visitor, since: 7 }));
    expect(log).toEqual(expected);
  });
});
