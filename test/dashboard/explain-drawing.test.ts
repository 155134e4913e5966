import { describe, expect, it } from 'vitest';
import { type Drawing, drawExplanation, type Explanation } from '../../dashboard/src/model/explain-drawing.ts';

const nothingStored: Explanation = {
  version: 1,
  at: 1_000_000,
  method: 'GET',
  uri: 'http://a.example/films/film.mp4',
  route: 'media',
  key: 'http://origin/ http://a.example/films/film.mp4',
  decision: { kind: 'fill', reason: 'uri-miss', cacheStatus: 'rangeway; fwd=uri-miss; stored' },
  originQuestion: { method: 'GET', target: '/films/film.mp4', fields: [['range', 'bytes=0-262143']] },
  variant: [],
  entryCount: 0,
  entries: [],
  flights: [],
  origin: { isKnown: false, mayAsk: true, mayAskMore: true, refusal: undefined },
  plan: { range: { value: 'bytes=0-99' }, conditions: [], isMultipart: false, spans: [], asked: [] },
};

const inPart: Explanation = {
  ...nothingStored,
  decision: { kind: 'complete', reason: 'partial' },
  originQuestion: undefined,
  entryCount: 1,
  chosen: {
    generation: '7f3a9c',
    status: 200,
    sizeBytes: 10_000,
    present: {
      bytes: 2048,
      runs: 2,
      spans: [
        { start: 0, end: 1024 },
        { start: 2048, end: 3072 },
      ],
    },
    isComplete: false,
    isInvalid: false,
    tags: [],
    receivedAt: 900_000,
    freshness: {
      lifetimeMs: 3_600_000,
      source: 'max-age',
      age: { ageMs: 100_000, apparentAgeMs: 0, ageFieldMs: 0, responseDelayMs: 0, residentMs: 100_000 },
      ttlMs: 3_500_000,
      stale: { whileRevalidateMs: 0, ifErrorMs: 0 },
    },
    validators: { conditions: [] },
  },
  flights: [
    {
      hasLanded: true,
      generation: '7f3a9c',
      sizeBytes: 10_000,
      receivedBytes: 4000,
      readers: 1,
      transfers: [{ at: 5000, end: 6144 }],
    },
  ],
  plan: {
    status: 206,
    range: { value: 'bytes=500-8000', isObeyed: true },
    conditions: [],
    isMultipart: false,
    asked: ['bytes=1024-2047', 'bytes=6144-8191'],
    spans: [
      {
        start: 500,
        end: 8001,
        hereBytes: 1548,
        inFlightBytes: 3072,
        originBytes: 2881,
        isCut: false,
        pieces: [
          { start: 500, end: 1024, from: 'here' },
          { start: 1024, end: 2048, from: 'origin' },
          { start: 2048, end: 3072, from: 'here' },
          { start: 3072, end: 6144, from: 'in-flight' },
          { start: 6144, end: 8001, from: 'origin' },
        ],
      },
    ],
  },
};

function textOf({ boxes }: Drawing, name: string): string {
  const lines = boxes.find((box) => box.name === name)?.lines ?? [];
  return lines.map(({ text }) => text).join(' | ');
}

/** Checks that everything is within the drawing, and that nothing lies over something else. */
function expectSound({ width, height, boxes, bars, guides }: Drawing): void {
  for (const box of [...boxes, ...bars]) {
    expect(box.x).toBeGreaterThanOrEqual(0);
    expect(box.x + box.width).toBeLessThanOrEqual(width + 0.001);
    expect(box.y + box.height).toBeLessThanOrEqual(height);
  }
  for (const [at, one] of boxes.entries()) {
    for (const other of boxes.slice(at + 1)) {
      const isBeside = one.x + one.width <= other.x || one.y + one.height <= other.y;
      expect(isBeside, `${one.name} and ${other.name}`).toBe(true);
    }
  }
  for (const bar of bars) {
    for (const { x, width: own } of bar.segments) {
      expect(own).toBeGreaterThanOrEqual(2);
      expect(x).toBeGreaterThanOrEqual(bar.x);
      expect(x + own).toBeLessThanOrEqual(bar.x + bar.width + 0.001);
    }
  }
  for (const [x] of guides.flatMap(({ points }) => points)) {
    expect(x).toBeGreaterThanOrEqual(0);
    expect(x).toBeLessThanOrEqual(width + 0.001);
  }
}

describe.each([1200, 760, 340])('a drawing that is %i pixels wide', (width) => {
  it.each([
    ['nothing stored', nothingStored],
    ['stored in part', inPart],
  ])('is sound: %s', (_what, explanation) => expectSound(drawExplanation(explanation, width)));

  it('is sound with very long names', () => {
    const long = 'x'.repeat(3000);
    const uri = `http://${long}.example/${long}`;
    expectSound(
      drawExplanation({ ...inPart, uri, route: long, key: `http://${long}/ ${uri}`, variant: [[long, long]] }, width),
    );
  });

  it('is sound with many spans', () => {
    const spans = Array.from({ length: 50 }, (_, at) => ({
      start: at * 200,
      end: at * 200 + 1,
      hereBytes: 1,
      inFlightBytes: 0,
      originBytes: 0,
      isCut: false,
      pieces: [{ start: at * 200, end: at * 200 + 1, from: 'here' as const }],
    }));
    expectSound(drawExplanation({ ...inPart, plan: { ...inPart.plan, isMultipart: true, spans } }, width));
  });
});

describe('the boxes', () => {
  it('stand beside each other where there is room, and below each other elsewhere', () => {
    const wide = drawExplanation(inPart, 1200).boxes;
    expect(new Set(wide.map(({ y }) => y)).size).toBe(1);
    expect(wide.map(({ name }) => name)).toEqual(['request', 'key', 'store', 'origin']);
    const narrow = drawExplanation(inPart, 340).boxes;
    expect(new Set(narrow.map(({ x }) => x)).size).toBe(1);
  });

  it('say what is asked, under which key, what is stored, and what the origin is asked for', () => {
    const drawing = drawExplanation(inPart, 1200);
    expect(textOf(drawing, 'request')).toBe('GET | /films/film.mp4 | http://a.example | bytes=500-8000');
    expect(textOf(drawing, 'key')).toContain('route media');
    expect(textOf(drawing, 'store')).toMatch(/^complete \| .*2 KB of 10 KB \| fresh for 58 min 20 s$/);
    expect(textOf(drawing, 'origin')).toBe('asked for | bytes=1024-2047 | bytes=6144-8191');
    expect(drawing.arrows.every(({ isIdle }) => !isIdle)).toBe(true);
  });

  it('say that the origin is not asked', () => {
    const hit = { ...inPart, decision: { kind: 'hit', reason: 'fresh' }, plan: { ...inPart.plan, asked: [] } } as const;
    const drawing = drawExplanation(hit, 1200);
    expect(textOf(drawing, 'origin')).toMatch(/^not asked/);
    expect(drawing.arrows.at(-1)?.isIdle).toBe(true);
  });

  it('say the first request to the origin where nothing is stored', () => {
    const drawing = drawExplanation(nothingStored, 1200);
    expect(textOf(drawing, 'store')).toContain('Nothing is stored.');
    expect(textOf(drawing, 'origin')).toContain('asked GET | /films/film.mp4 | range: bytes=0-262143');
  });

  it('say that a Range is ignored', () => {
    const plan = { ...inPart.plan, range: { value: 'bytes=9-1', isObeyed: false, reason: 'malformed' } };
    expect(textOf(drawExplanation({ ...inPart, plan }, 1200), 'request')).toContain('The Range is ignored.');
  });
});

describe('the bars', () => {
  it('have the bytes at their places', () => {
    const [whole, fetched, body] = drawExplanation(inPart, 1000).bars;
    expect(whole?.segments.map(({ x, width, tone }) => [x, Math.round(width * 10) / 10, tone])).toEqual([
      [0, 102.4, 'here'],
      [204.8, 102.4, 'here'],
    ]);
    expect(fetched?.segments.map(({ x, tone }) => [x, tone])).toEqual([
      [500, 'in-flight'],
      [102.4, 'origin'],
      [614.4, 'origin'],
    ]);
    expect(body?.segments.map(({ tone }) => tone)).toEqual(['here', 'origin', 'here', 'in-flight', 'origin']);
    expect(body?.segments.reduce((sum, { width }) => sum + width, 0)).toBeCloseTo(1000, 5);
    expect(body?.segments[3]?.title).toBe('bytes 3,072–6,143: in flight');
    expect(body?.label).toBe('The response: 206, 7,501 bytes');
    expect(body?.ends).toEqual(['500', '8,000']);
  });

  it('show a complete response as stored as a whole', () => {
    const chosen = inPart.chosen && { ...inPart.chosen, isComplete: true };
    const [whole] = drawExplanation({ ...inPart, chosen }, 1000).bars;
    expect(whole?.segments).toMatchObject([{ x: 0, width: 1000 }]);
  });

  it('wait for the origin where the length is not known', () => {
    const { bars, guides } = drawExplanation(nothingStored, 1000);
    expect(bars.map(({ label }) => label)).toEqual(['The response: known when the origin has answered']);
    expect(guides).toEqual([]);
  });

  it('show a request for the whole', () => {
    const [, fetched] = drawExplanation(
      { ...inPart, flights: [], plan: { ...inPart.plan, asked: ['whole'] } },
      1000,
    ).bars;
    expect(fetched?.segments).toMatchObject([{ x: 0, width: 1000, tone: 'origin' }]);
  });

  it('show a response without a body', () => {
    const plan = { ...inPart.plan, status: 304, spans: [], asked: [] };
    expect(drawExplanation({ ...inPart, plan }, 1000).bars.at(-1)?.label).toBe('The response: 304, without a body');
  });
});
