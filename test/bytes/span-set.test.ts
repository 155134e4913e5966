import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Span, SpanSet } from '../../src/bytes/span.ts';

const width = 60;
const span = fc
  .tuple(fc.nat(width), fc.nat(width))
  .map(([a, b]): Span => ({ start: Math.min(a, b), end: Math.max(a, b) }));
const step = fc.record({ kind: fc.constantFrom('add', 'add', 'remove'), span });

describe('SpanSet', () => {
  it.each<[string, Span[], Span[]]>([
    ['nothing', [], []],
    ['an empty span', [{ start: 3, end: 3 }], []],
    [
      'disjoint spans in order',
      [
        { start: 5, end: 6 },
        { start: 1, end: 2 },
      ],
      [
        { start: 1, end: 2 },
        { start: 5, end: 6 },
      ],
    ],
    [
      'touching spans as one',
      [
        { start: 1, end: 2 },
        { start: 2, end: 3 },
      ],
      [{ start: 1, end: 3 }],
    ],
    [
      'two spans and one that joins them',
      [
        { start: 1, end: 2 },
        { start: 4, end: 5 },
        { start: 2, end: 4 },
      ],
      [{ start: 1, end: 5 }],
    ],
    [
      'a span that covers all others',
      [
        { start: 1, end: 2 },
        { start: 4, end: 5 },
        { start: 0, end: 9 },
      ],
      [{ start: 0, end: 9 }],
    ],
  ])('holds %s', (_name, added, held) => {
    expect([...new SpanSet(added)]).toEqual(held);
  });

  it('holds the positions that pass a test', () => {
    const held = SpanSet.where(8, (position) => position % 4 > 0 || position === 0);
    expect([...held]).toEqual([
      { start: 0, end: 4 },
      { start: 5, end: 8 },
    ]);
    expect([...SpanSet.where(0, () => true)]).toEqual([]);
  });

  it('behaves like an array of booleans, and stays sorted, disjoint and joined', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), span, (steps, asked) => {
        const set = new SpanSet();
        const model = Array.from({ length: width + 1 }, () => false);
        for (const { kind, span: touched } of steps) {
          if (kind === 'add') set.add(touched);
          else set.remove(touched);
          model.fill(kind === 'add', touched.start, touched.end);
        }
        const spans = [...set];
        for (const [index, { start, end }] of spans.entries()) {
          expect(start).toBeLessThan(end);
          expect(start).toBeGreaterThan(spans[index - 1]?.end ?? -1);
        }
        expect(model.map((_, at) => set.has(at))).toEqual(model);
        expect(set.size).toBe(model.filter(Boolean).length);
        const part = model.slice(asked.start, asked.end);
        expect(set.hasAll(asked)).toBe(part.every(Boolean));
        const missingAt = part.indexOf(false);
        const missing = set.firstMissing(asked);
        if (missingAt === -1) expect(missing).toBeUndefined();
        else {
          const start = asked.start + missingAt;
          const next = model.indexOf(true, start);
          expect(missing).toEqual({ start, end: next === -1 ? asked.end : Math.min(asked.end, next) });
        }
        const runEnd = model.indexOf(false, asked.start);
        expect(set.endOfRun(asked.start)).toBe(runEnd === -1 ? width + 1 : runEnd);
      }),
      { numRuns: 2000 },
    );
  });
});
