/**
 * Lays out an explanation as a drawing: request → key → stored response → origin, and below them the bytes: the whole with what is
 * stored, what the origin is asked for, and the response with the source of each byte. Numbers are pixels.
 */

import { describeDecision } from '../../../src/cli/admin/explain-text.ts';
import type { ExplainReply, Span } from '../api-types.ts';
import { countOf, countText, durationText, shorten, sizeText, spanText, splitUri } from './format.ts';

/** An explanation, as the server sends it. */
export type Explanation = Extract<ExplainReply, { readonly kind: 'explained' }>['explanation'];

/** What a colour stands for. */
export type Tone = 'plain' | 'here' | 'in-flight' | 'origin' | 'quiet';

/** A line of text in a box. */
export interface BoxLine {
  readonly text: string;
  /** `code`: in a font of equal widths. `strong`: the most important line. */
  readonly look: 'code' | 'strong' | 'prose';
}

/** A rectangle with text. */
export interface Box {
  readonly name: 'request' | 'key' | 'store' | 'origin';
  readonly title: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly tone: Tone;
  readonly lines: readonly BoxLine[];
}

/** A straight arrow. `isIdle`: what it stands for does not happen. */
export interface Arrow {
  readonly from: readonly [x: number, y: number];
  readonly to: readonly [x: number, y: number];
  readonly isIdle: boolean;
}

/** A part of a bar. */
export interface Segment {
  readonly x: number;
  readonly width: number;
  readonly tone: Tone;
  /** Its bytes and what they are, for a tooltip. */
  readonly title: string;
}

/** A bar of bytes with a label above it. */
export interface Bar {
  readonly label: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly segments: readonly Segment[];
  /** First and last byte, written below its ends; undefined where the bar has no axis. */
  readonly ends?: readonly [string, string] | undefined;
}

/** Lines from a span of the upper bar to the same span in the lower one. */
export interface Guide {
  readonly points: readonly (readonly [x: number, y: number])[];
}

/** A drawing. */
export interface Drawing {
  readonly width: number;
  readonly height: number;
  readonly boxes: readonly Box[];
  readonly arrows: readonly Arrow[];
  readonly bars: readonly Bar[];
  readonly guides: readonly Guide[];
}

/** From this width on, the boxes stand beside each other. */
const wideFrom = 760;

const gap = 36;
const narrowGap = 22;
const padding = 12;
const titlePx = 30;
const linePx = 18;
/** Mean widths of a letter in the two fonts at the size of the drawing. */
const codeLetterPx = 7.3;
const proseLetterPx = 6.4;
const barPx = 18;
const thinBarPx = 8;
/** The least width of a segment, so that it can be seen. */
const leastPx = 2;
/** The most spans of a response that are drawn. */
const maxSpans = 12;
const spanGapPx = 6;

/** Draws an explanation at this width. */
export function drawExplanation(explanation: Explanation, width: number): Drawing {
  const isWide = width >= wideFrom;
  const boxWidth = isWide ? (width - 3 * gap) / 4 : width;
  const contents = [
    requestContent(explanation),
    keyContent(explanation),
    storeContent(explanation),
    originContent(explanation),
  ];
  const texts = contents.map(({ lines }) => lines.flatMap((line) => fitLine(line, boxWidth - 2 * padding)));
  const tallest = Math.max(...texts.map((lines) => lines.length));
  let y = 0;
  const boxes = contents.map(({ name, title, tone }, at): Box => {
    const lines = texts[at] ?? [];
    const height = titlePx + (isWide ? tallest : lines.length) * linePx + padding;
    const box = { name, title, tone, lines, x: isWide ? at * (boxWidth + gap) : 0, y, width: boxWidth, height };
    if (!isWide) y += height + narrowGap;
    return box;
  });
  const arrows = boxes.slice(1).map((to, at): Arrow => {
    const from = boxes[at] as Box;
    const isIdle = to.name === 'origin' && to.tone === 'quiet';
    return isWide
      ? { from: [from.x + from.width + 4, from.height / 2], to: [to.x - 4, to.height / 2], isIdle }
      : { from: [width / 2, from.y + from.height + 3], to: [width / 2, to.y - 3], isIdle };
  });
  const boxesEnd = Math.max(...boxes.map((box) => box.y + box.height));
  const { bars, guides, end } = drawBytes(explanation, width, boxesEnd + 34);
  return { width, height: end, boxes, arrows, bars, guides };
}

interface Content {
  readonly name: Box['name'];
  readonly title: string;
  readonly tone: Tone;
  readonly lines: readonly BoxLine[];
}

const code = (text: string): BoxLine => ({ text, look: 'code' });
const prose = (text: string): BoxLine => ({ text, look: 'prose' });
const strong = (text: string): BoxLine => ({ text, look: 'strong' });

function requestContent({ method, uri, plan: { range } }: Explanation): Content {
  const { site, folder, file } = splitUri(uri);
  const obeyed = range?.isObeyed === false ? [prose('The Range is ignored.')] : [];
  return {
    name: 'request',
    title: 'Request',
    tone: 'plain',
    lines: [
      strong(method),
      code(folder + file),
      prose(site),
      ...(range === undefined ? [prose('no Range: the whole')] : [code(range.value)]),
      ...obeyed,
    ],
  };
}

function keyContent({ route, key, uri, variant }: Explanation): Content {
  const [scope = '', stored = uri] = key.split(/ (.*)/s);
  const varies = variant.map(([name]) => name).join(', ');
  return {
    name: 'key',
    title: 'Key',
    tone: 'plain',
    lines: [
      strong(`route ${route}`),
      code(stored),
      prose(scope),
      ...(varies === '' ? [prose('one variant')] : [prose(`varies by ${varies}`)]),
    ],
  };
}

function storeContent({ decision, chosen, entryCount }: Explanation): Content {
  const lines = [strong(decision.kind), prose(describeDecision(decision))];
  if (chosen === undefined) {
    const count =
      entryCount === 0 ? 'Nothing is stored.' : `${countOf(entryCount, 'other response', 'other responses')}`;
    return { name: 'store', title: 'Stored', tone: 'quiet', lines: [...lines, prose(count)] };
  }
  const { present, sizeBytes, isComplete, freshness } = chosen;
  const whole = sizeBytes === undefined ? 'an unknown length' : sizeText(sizeBytes);
  const stored = isComplete ? `all of ${whole}` : `${sizeText(present.bytes)} of ${whole}`;
  const left = freshness.ttlMs > 0 ? `fresh for ${durationText(freshness.ttlMs)}` : 'stale';
  const tone = present.bytes > 0 || isComplete ? 'here' : 'quiet';
  return { name: 'store', title: 'Stored', tone, lines: [...lines, prose(stored), prose(left)] };
}

function originContent({ originQuestion, plan, origin }: Explanation): Content {
  const title = 'Origin';
  const asked = plan.asked.slice(0, 3).map((range) => code(range === 'whole' ? 'the whole' : range));
  const more = plan.asked.length > asked.length ? [prose(`and ${plan.asked.length - asked.length} more`)] : [];
  const ability = prose(origin.isKnown ? 'it gives ranges' : origin.mayAsk ? 'ranges: not known yet' : 'no ranges');
  if (originQuestion !== undefined) {
    const fields = originQuestion.fields.slice(0, 3).map(([name, value]) => code(`${name}: ${value}`));
    const lines = [strong(`asked ${originQuestion.method}`), code(originQuestion.target), ...fields, ability];
    return { name: 'origin', title, tone: 'origin', lines };
  }
  if (asked.length > 0)
    return { name: 'origin', title, tone: 'origin', lines: [strong('asked for'), ...asked, ...more] };
  return { name: 'origin', title, tone: 'quiet', lines: [strong('not asked'), ability] };
}

/** Fits a line into a width: code is shortened in its middle, prose is broken between words. */
function fitLine(line: BoxLine, width: number): BoxLine[] {
  if (line.look === 'code') return [{ ...line, text: shorten(line.text, Math.floor(width / codeLetterPx)) }];
  const letters = Math.max(8, Math.floor(width / proseLetterPx));
  const lines: string[] = [];
  let current = '';
  for (const word of line.text.split(' ')) {
    if (current !== '' && current.length + 1 + word.length > letters) {
      lines.push(current);
      current = '';
    }
    current += current === '' ? shorten(word, letters) : ` ${word}`;
  }
  return [...lines, current].map((text) => ({ ...line, text }));
}

interface BytesDrawing {
  readonly bars: readonly Bar[];
  readonly guides: readonly Guide[];
  readonly end: number;
}

function drawBytes(explanation: Explanation, width: number, top: number): BytesDrawing {
  const { plan, chosen } = explanation;
  const size = wholeSize(explanation);
  const spans = plan.spans.slice(0, maxSpans);
  const response = responseLabel(explanation);
  if (size === undefined || size === 0) {
    const bar = { label: response, x: 0, y: top, width, height: barPx, segments: [] };
    return { bars: [bar], guides: [], end: top + barPx + padding };
  }
  const scale = (offset: number): number => (offset / size) * width;
  const place = (tone: Tone, what: string) => (span: Span) => segmentOf(span, scale, width, tone, what);
  const stored = storedSpans(chosen, size).map(place('here', 'stored'));
  const flying = explanation.flights.flatMap(({ transfers }) =>
    transfers.map(({ at, end }) => ({ start: at, end: end ?? size })),
  );
  const asked = plan.asked.flatMap((range) => askedSpan(range, size));
  const whole: Bar = {
    label: `The whole: ${countText(size)} bytes`,
    x: 0,
    y: top,
    width,
    height: barPx,
    segments: stored,
  };
  const fetched: Bar = {
    label: '',
    x: 0,
    y: top + barPx + 3,
    width,
    height: thinBarPx,
    segments: [...flying.map(place('in-flight', 'in flight')), ...asked.map(place('origin', 'asked of the origin'))],
    ends: ['0', countText(size - 1)],
  };
  const guideTop = fetched.y + fetched.height;
  const lower = guideTop + 66;
  const parts = spanPlaces(spans, width);
  const body: Bar = {
    label: response,
    x: 0,
    y: lower,
    width,
    height: barPx + 4,
    segments: parts.flatMap(({ span, x, width: own }) => bodySegments(span, x, own)),
    ends: spans.length === 0 ? undefined : [countText(spans[0]?.start ?? 0), countText((spans.at(-1)?.end ?? 1) - 1)],
  };
  const guides = parts.map(({ span, x, width: own }) => ({
    points: [
      [scale(span.start), guideTop],
      [Math.max(scale(span.end), scale(span.start) + leastPx), guideTop],
      [x + own, lower],
      [x, lower],
    ] as const,
  }));
  return { bars: [whole, fetched, body], guides, end: lower + barPx + 4 + 24 };
}

function wholeSize({ chosen, flights, plan }: Explanation): number | undefined {
  const known =
    chosen?.fragment?.wholeBytes ?? chosen?.sizeBytes ?? flights.find(({ sizeBytes }) => sizeBytes)?.sizeBytes;
  return known ?? plan.spans.at(-1)?.end;
}

function storedSpans(chosen: Explanation['chosen'], size: number): readonly Span[] {
  if (chosen === undefined) return [];
  if (chosen.isComplete && chosen.fragment === undefined) return [{ start: 0, end: size }];
  return chosen.present.spans;
}

/** Reads a value of Range that the origin would be asked for. */
function askedSpan(range: string, size: number): Span[] {
  if (range === 'whole') return [{ start: 0, end: size }];
  const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(range) ?? [];
  if (first === undefined) return [];
  return [{ start: Number(first), end: last === '' || last === undefined ? size : Number(last) + 1 }];
}

function responseLabel({ plan, decision, chosen }: Explanation): string {
  const { status, spans, isMultipart } = plan;
  if (status === undefined && spans.length === 0) {
    const isArriving = decision.kind === 'join' && chosen !== undefined;
    return `The response: known when ${isArriving ? 'more of it has arrived' : 'the origin has answered'}`;
  }
  const bytes = spans.reduce((sum, { start, end }) => sum + end - start, 0);
  const form = isMultipart ? ` multipart, ${countOf(spans.length, 'range', 'ranges')}` : '';
  const size = spans.length === 0 ? ', without a body' : `, ${countOf(bytes, 'byte', 'bytes')}`;
  return `The response: ${status ?? '206'}${form}${size}`;
}

type PlannedSpan = Explanation['plan']['spans'][number];

/** Places the spans of a response beside each other, as wide as they have bytes, but none too small to be seen. */
function spanPlaces(spans: readonly PlannedSpan[], width: number): { span: PlannedSpan; x: number; width: number }[] {
  const room = width - spanGapPx * (spans.length - 1);
  const bytes = spans.reduce((sum, { start, end }) => sum + end - start, 0);
  const least = Math.min(room / Math.max(1, spans.length), 12);
  const shared = room - least * spans.length;
  let x = 0;
  return spans.map((span) => {
    const own = least + (bytes === 0 ? 0 : (shared * (span.end - span.start)) / bytes);
    const place = { span, x, width: own };
    x += own + spanGapPx;
    return place;
  });
}

const pieceTones = { here: 'here', 'in-flight': 'in-flight', origin: 'origin' } as const;
const pieceWords = { here: 'stored', 'in-flight': 'in flight', origin: 'to fetch' } as const;

function bodySegments(span: PlannedSpan, x: number, width: number): Segment[] {
  const bytes = span.end - span.start;
  const scale = (offset: number): number => x + ((offset - span.start) / bytes) * width;
  return span.pieces.map((piece) => segmentOf(piece, scale, x + width, pieceTones[piece.from], pieceWords[piece.from]));
}

function segmentOf(span: Span, scale: (offset: number) => number, limit: number, tone: Tone, what: string): Segment {
  const x = Math.min(scale(span.start), limit - leastPx);
  const width = Math.max(leastPx, Math.min(scale(span.end), limit) - x);
  return { x, width, tone, title: `bytes ${spanText(span)}: ${what}` };
}
