/** Plans of where the bytes of a span come from, with blocks of 10 bytes. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SpanSet } from '../../src/bytes/span.ts';
import { planBytes } from '../../src/cache/explain/explanation.ts';
import type { FillProgress, Outlook } from '../../src/cache/fill/fetch-decision.ts';

const blockSizeBytes = 10;
const sizeBytes = 95;

function outlookWith(part: Partial<Outlook> & { readonly blocks?: readonly (readonly [number, number])[] }): Outlook {
  const { blocks = [], ...rest } = part;
  return {
    sizeBytes,
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

function coming(frontier: number, limit = sizeBytes): FillProgress {
  return { frontier, keptTo: Math.floor(frontier / blockSizeBytes) * blockSizeBytes, limit, speed: 0 };
}

/** Formats the pieces of a plan and the spans that it asks the origin for. */
function inShort(start: number, end: number, outlook: Outlook, maxPieces = 100): string {
  const { pieces, asked, isCut } = planBytes({ start, end }, outlook, maxPieces);
  const formatted = pieces.map((piece) => `${piece.from} ${piece.start}-${piece.end}`).join(', ');
  const question = asked.length === 0 ? '' : ` asks ${asked.map((span) => `${span.start}-${span.end}`).join(', ')}`;
  return `${formatted}${question}${isCut ? ' …' : ''}`;
}

describe('the plan of a span', () => {
  it.each<[name: string, start: number, end: number, Parameters<typeof outlookWith>[0], want: string]>([
    ['of no bytes', 5, 5, {}, ''],
    ['of stored bytes', 5, 25, { blocks: [[0, 3]] }, 'here 5-25'],
    ['of the stored last block', 90, 95, { blocks: [[9, 10]] }, 'here 90-95'],
    ['of absent bytes', 5, 25, {}, 'origin 5-25 asks 0-30'],
    ['up to the end of the body', 85, 95, {}, 'origin 85-95 asks 80-95'],
    [
      'with a hole',
      5,
      45,
      {
        blocks: [
          [0, 2],
          [3, 5],
        ],
      },
      'here 5-20, origin 20-30, here 30-45 asks 20-30',
    ],
    [
      'with two holes',
      0,
      60,
      {
        blocks: [
          [1, 2],
          [3, 4],
        ],
      },
      'origin 0-10, here 10-20, origin 20-30, here 30-40, origin 40-60 asks 0-10, 20-30, 40-60',
    ],
    ['that a fill brings', 5, 45, { fills: [coming(0)] }, 'in-flight 5-45'],
    ['that a fill brings in part', 5, 45, { fills: [coming(0, 30)] }, 'in-flight 5-30, origin 30-45 asks 30-50'],
    ['too far ahead of a fill', 50, 60, { fills: [coming(0)] }, 'origin 50-60 asks 50-60'],
    [
      'that a fast fill brings soon',
      50,
      60,
      { fills: [{ ...coming(0), speed: 1 }], seekAheadMs: 500 },
      'in-flight 50-60',
    ],
    ['around the frontier of a fill', 0, 60, { fills: [coming(30)] }, 'origin 0-30, in-flight 30-60 asks 0-30'],
    [
      'of an origin without ranges',
      20,
      60,
      { blocks: [[3, 4]], mayAskForParts: false },
      'origin 20-30, here 30-40, origin 40-60 asks 0-Infinity',
    ],
    [
      'of an origin without ranges, while a fill runs',
      20,
      90,
      { blocks: [[0, 3]], mayAskForParts: false, fills: [coming(30)] },
      'here 20-30, in-flight 30-90',
    ],
    [
      'of a body of unknown length',
      20,
      60,
      { blocks: [[0, 3]], sizeBytes: undefined, fills: [coming(30, Number.POSITIVE_INFINITY)] },
      'here 20-30, in-flight 30-60',
    ],
  ])('%s', (_name, start, end, outlook, want) => expect(inShort(start, end, outlookWith(outlook))).toBe(want));

  it('is cut off after the maximum number of pieces', () => {
    const blocks = [
      [1, 2],
      [3, 4],
    ] as const;
    expect(inShort(0, 60, outlookWith({ blocks }), 2)).toBe('origin 0-10, here 10-20 asks 0-10 …');
  });

  it('covers the span without gaps, and says "here" for stored blocks only', () => {
    const blocks = fc.array(fc.nat(9), { maxLength: 8 }).map((list) => list.map((at) => [at, at + 1] as const));
    const fills = fc
      .array(fc.tuple(fc.nat(94), fc.nat(94)), { maxLength: 3 })
      .map((pairs) => pairs.filter(([a, b]) => a !== b).map(([a, b]) => coming(Math.min(a, b), Math.max(a, b))));
    fc.assert(
      fc.property(blocks, fills, fc.boolean(), fc.nat(95), fc.nat(95), (present, running, mayAskForParts, a, b) => {
        const [start, end] = [Math.min(a, b), Math.max(a, b)];
        const outlook = outlookWith({ blocks: present, fills: running, mayAskForParts });
        const { pieces, isCut } = planBytes({ start, end }, outlook, 100);
        expect(isCut).toBe(false);
        let offset = start;
        for (const piece of pieces) {
          expect(piece.start).toBe(offset);
          for (let at = piece.start; at < piece.end; at += 1) {
            expect(piece.from === 'here').toBe(outlook.present.has(Math.floor(at / blockSizeBytes)));
          }
          offset = piece.end;
        }
        expect(offset).toBe(end);
      }),
    );
  });
});
