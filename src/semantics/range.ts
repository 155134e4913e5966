/**
 * Byte ranges (RFC 9110 §14): the Range field and the spans that it selects; the Range that is passed on to an origin, in a form
 * that asks for no byte twice; Content-Range; and the framing of multipart/byteranges (§14.6, RFC 2046 §5.1).
 */

import rangeParser from 'range-parser';
import { type Span, spanSize } from '../bytes/span.ts';
import { listMembers } from '../http/fields.ts';

/**
 * One range-spec of the bytes unit, in the inclusive form of the wire (RFC 9110 §14.1.2). All numbers are safe
 * integers; a number of the text beyond 2^53-1 stands here as 2^53-1.
 */
export type RangeSpec =
  | { readonly kind: 'closed'; readonly first: number; readonly last: number }
  | { readonly kind: 'open'; readonly first: number }
  | { readonly kind: 'suffix'; readonly length: number };

/** What the text of a Range field says. An ignored one is answered as if it had not been sent (RFC 9110 §14.2). */
export type ParsedRange =
  | { readonly kind: 'set'; readonly specs: readonly RangeSpec[] }
  | { readonly kind: 'ignored'; readonly reason: 'malformed' | 'unknown-unit' | 'too-many' | 'too-long' };

/**
 * What a set of specs comes to in a representation:
 * - `partial`: these spans, at least one, none empty, disjoint and not adjacent, in the order requested;
 * - `whole`: satisfiable, but Content-Range has no words for it, so the whole is the answer;
 * - `unsatisfiable`: no spec selects a byte.
 */
export type RangeSelection =
  | { readonly kind: 'partial'; readonly spans: readonly Span[] }
  | { readonly kind: 'whole'; readonly reason: 'empty-representation' }
  | { readonly kind: 'unsatisfiable' };

/** What a set of specs comes to while the length of the representation is not known. */
export type EarlySelection =
  | { readonly kind: 'span'; readonly span: Span }
  | { readonly kind: 'from-start' }
  | { readonly kind: 'needs-length' };

/** The longest Range field that is read, in characters; room for more than two hundred ranges of any size. */
export const maxRangeTextLength = 8 * 1024;

/**
 * Parses the value of a Range field without knowing any size. Time is linear in its length.
 *
 * The unit is case-insensitive (RFC 9110 §14.1). Empty list members are skipped and not counted (§5.6.1.2). White space
 * may stand around a member, also after `=` (erratum 7306), but not inside it. One member that is not a byte range, or
 * that ends before it starts, makes the whole set invalid (§14.1.1). A position beyond 2^53-1 becomes 2^53-1, which is
 * behind the last byte of every representation: as a first position it stays unsatisfiable, as a last it is clamped.
 */
export function parseRange(value: string, limits: { readonly maxRanges: number }): ParsedRange {
  if (value.length > maxRangeTextLength) return { kind: 'ignored', reason: 'too-long' };
  const equals = value.indexOf('=');
  const unit = value.slice(0, Math.max(equals, 0));
  if (!isToken(unit)) return { kind: 'ignored', reason: 'malformed' };
  if (unit.toLowerCase() !== 'bytes') return { kind: 'ignored', reason: 'unknown-unit' };
  const specs: RangeSpec[] = [];
  for (const member of listMembers(value.slice(equals + 1))) {
    if (specs.length === limits.maxRanges) return { kind: 'ignored', reason: 'too-many' };
    const spec = parseSpec(member);
    if (spec === undefined) return { kind: 'ignored', reason: 'malformed' };
    specs.push(spec);
  }
  return specs.length === 0 ? { kind: 'ignored', reason: 'malformed' } : { kind: 'set', specs };
}

/** Specs as the value of a Range field, in the one form that has no optional parts. `specs` is not empty. */
export function formatRange(specs: readonly RangeSpec[]): string {
  return `bytes=${specs.map(formatSpec).join(',')}`;
}

/**
 * Selects the bytes of a representation of `sizeBytes` that `specs`, as parsed, ask for (RFC 9110 §14.1.2). A last
 * position behind the end is clamped, a suffix longer than the whole is the whole, unsatisfiable specs are dropped.
 *
 * Ranges that overlap, adjoin or leave a gap smaller than `coalesceGapBytes` become one, so that no byte is sent twice
 * and no part costs more than the bytes it leaves out (§15.3.7.2, §17.15). The spans come in the order of the ranges
 * requested. A joined one stands where the first of its ranges stood, save that one inside another may yield its place.
 *
 * Of a representation without bytes only a suffix of non-zero length is satisfiable, and that is the whole of it.
 */
export function selectRanges(
  specs: readonly RangeSpec[],
  sizeBytes: number,
  options: { readonly coalesceGapBytes: number },
): RangeSelection {
  if (sizeBytes === 0) {
    const isSatisfiable = specs.some((spec) => spec.kind === 'suffix' && spec.length > 0);
    return isSatisfiable ? { kind: 'whole', reason: 'empty-representation' } : { kind: 'unsatisfiable' };
  }
  // range-parser refuses a suffix that is longer than the whole, and takes any text. So it gets canonical text.
  const text = formatRange(specs.map((spec) => withoutExcess(spec, sizeBytes)));
  const ranges = rangeParser(sizeBytes, text, { combine: true });
  if (typeof ranges === 'number') return { kind: 'unsatisfiable' };
  const spans = ranges.map((range) => ({ start: range.start, end: range.end + 1 }));
  return { kind: 'partial', spans: closeGaps(spans, options.coalesceGapBytes) };
}

/**
 * The span that a Range of one range selects of a representation of `sizeBytes`: what `parseRange` and `selectRanges` come to, in
 * one step. Undefined for any other Range: one that is ignored, one that is not satisfiable, or several.
 */
export function selectSpan(value: string, sizeBytes: number): Span | undefined {
  const dash = value.startsWith(plainUnit) ? value.indexOf('-', plainUnit.length) : -1;
  const first = readPosition(value, plainUnit.length, dash);
  const last = readPosition(value, dash + 1, value.length);
  if (first === 'other' || last === 'other') return selectWritten(value, sizeBytes);
  if (first === undefined) return last === undefined ? undefined : spanWithin(sizeBytes - last, sizeBytes, sizeBytes);
  if (last === undefined) return spanWithin(first, sizeBytes, sizeBytes);
  return last < first ? undefined : spanWithin(first, last + 1, sizeBytes);
}

/**
 * What can be told while the length is not known: the span of a single range with an explicit end, or that everything
 * from the first byte on is wanted (`bytes=0-`). The span may reach behind the end that is yet to be found.
 */
export function selectBeforeLength(specs: readonly RangeSpec[]): EarlySelection {
  const [spec] = specs;
  if (spec === undefined || specs.length > 1) return { kind: 'needs-length' };
  if (spec.kind === 'open' && spec.first === 0) return { kind: 'from-start' };
  // The end of a span is a safe integer too, which leaves no room behind the greatest one.
  if (spec.kind !== 'closed' || spec.last === Number.MAX_SAFE_INTEGER) return { kind: 'needs-length' };
  return { kind: 'span', span: { start: spec.first, end: spec.last + 1 } };
}

/** How nearly all clients begin; whoever writes something else is understood too. */
const plainUnit = 'bytes=';

/** So many digits are a safe integer, whatever they are. */
const maxPlainDigits = 15;

/** The number between two places of a text; undefined where nothing is there, and `other` for what is no small number. */
function readPosition(text: string, from: number, to: number): number | undefined | 'other' {
  if (to < from || to - from > maxPlainDigits) return 'other';
  let position = 0;
  for (let at = from; at < to; at += 1) {
    const digit = text.charCodeAt(at) - 0x30;
    if (digit < 0 || digit > 9) return 'other';
    position = position * 10 + digit;
  }
  return to === from ? undefined : position;
}

function spanWithin(start: number, end: number, sizeBytes: number): Span | undefined {
  const span = { start: Math.max(0, start), end: Math.min(end, sizeBytes) };
  return span.start < span.end ? span : undefined;
}

function selectWritten(value: string, sizeBytes: number): Span | undefined {
  const parsed = parseRange(value, { maxRanges: 1 });
  if (parsed.kind === 'ignored') return undefined;
  const selected = selectRanges(parsed.specs, sizeBytes, { coalesceGapBytes: 0 });
  return selected.kind === 'partial' ? selected.spans[0] : undefined;
}

function parseSpec(member: string): RangeSpec | undefined {
  const dash = member.indexOf('-');
  if (dash === -1) return undefined;
  const before = member.slice(0, dash);
  const after = member.slice(dash + 1);
  if (before === '') return isDigits(after) ? { kind: 'suffix', length: clampedNumber(after) } : undefined;
  if (!isDigits(before)) return undefined;
  if (after === '') return { kind: 'open', first: clampedNumber(before) };
  if (!isDigits(after) || isGreater(before, after)) return undefined;
  return { kind: 'closed', first: clampedNumber(before), last: clampedNumber(after) };
}

function formatSpec(spec: RangeSpec): string {
  switch (spec.kind) {
    case 'closed':
      return `${spec.first}-${spec.last}`;
    case 'open':
      return `${spec.first}-`;
    case 'suffix':
      return `-${spec.length}`;
  }
}

function withoutExcess(spec: RangeSpec, sizeBytes: number): RangeSpec {
  return spec.kind === 'suffix' && spec.length > sizeBytes ? { kind: 'suffix', length: sizeBytes } : spec;
}

/** Joins disjoint spans that are closer than `gapBytes`; a joined one takes the place of its first. */
function closeGaps(spans: readonly Span[], gapBytes: number): readonly Span[] {
  const ordered = spans.map((span, place) => ({ ...span, place })).sort((a, b) => a.start - b.start);
  const joined: typeof ordered = [];
  for (const next of ordered) {
    const current = joined.at(-1);
    if (current === undefined || next.start - current.end >= gapBytes) {
      joined.push(next);
    } else {
      current.end = next.end;
      current.place = Math.min(current.place, next.place);
    }
  }
  return joined.sort((a, b) => a.place - b.place).map(({ start, end }) => ({ start, end }));
}

const tokenCharacters = new Set("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");

/** Whether a text is a token (RFC 9110 §5.6.2). */
function isToken(text: string): boolean {
  for (const character of text) if (!tokenCharacters.has(character)) return false;
  return text !== '';
}

function isDigits(text: string): boolean {
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code < 0x30 || code > 0x39) return false;
  }
  return text !== '';
}

function clampedNumber(digits: string): number {
  return Math.min(Number(digits), Number.MAX_SAFE_INTEGER);
}

/** Compares runs of digits as numbers, exactly, however long they are. */
function isGreater(a: string, b: string): boolean {
  const left = significantDigits(a);
  const right = significantDigits(b);
  return left.length === right.length ? left > right : left.length > right.length;
}

function significantDigits(digits: string): string {
  let start = 0;
  while (start < digits.length && digits.charCodeAt(start) === 0x30) start += 1;
  return digits.slice(start);
}

/** More ranges than this are not passed on in one request. */
const maxRanges = 100;

/**
 * The value to pass on; undefined where the field is left out, as every recipient may do (RFC 9110 §14.2): where it is
 * malformed or too long, has too many ranges, or has ranges of which it cannot be told whether they overlap. Closed and open
 * ranges that overlap or adjoin become one, and all come in ascending order (§14.1.2, §17.15): an origin that sends a part for
 * each range would otherwise send the same bytes as often as a client likes. Other units are for the origin to understand.
 */
export function passedRange(lines: readonly string[]): string | undefined {
  const [line, ...more] = lines;
  if (line === undefined || more.length > 0) return undefined;
  const parsed = parseRange(line, { maxRanges });
  if (parsed.kind === 'ignored') return parsed.reason === 'unknown-unit' ? line : undefined;
  const { specs } = parsed;
  if (specs.length === 1) return formatRange(specs);
  // Where a suffix begins, only the length of the whole tells.
  const started = specs.filter((spec) => spec.kind !== 'suffix');
  return started.length === specs.length ? formatRange(joined(started)) : undefined;
}

type StartedSpec = Exclude<RangeSpec, { kind: 'suffix' }>;

function joined(specs: readonly StartedSpec[]): readonly StartedSpec[] {
  const result: StartedSpec[] = [];
  for (const next of specs.toSorted((a, b) => a.first - b.first)) {
    const current = result.at(-1);
    if (current === undefined || next.first > lastOf(current) + 1) result.push(next);
    else if (lastOf(next) > lastOf(current)) result[result.length - 1] = { ...next, first: current.first };
  }
  return result;
}

function lastOf(spec: StartedSpec): number {
  return spec.kind === 'open' ? Number.POSITIVE_INFINITY : spec.last;
}

/** What a Content-Range of a 206 says. `sizeBytes` is the length of the whole; undefined when it was sent as `*`. */
export interface ContentRange {
  readonly span: Span;
  readonly sizeBytes: number | undefined;
}

/** The value for `span`, which is not empty, of a whole of `sizeBytes`; `*` when that is not known (RFC 9110 §14.4). */
export function formatContentRange(span: Span, sizeBytes: number | undefined): string {
  return `bytes ${span.start}-${span.end - 1}/${sizeBytes ?? '*'}`;
}

/** The value for a 416: no bytes, and the length of the whole (RFC 9110 §15.5.17). */
export function formatUnsatisfiedRange(sizeBytes: number): string {
  return `bytes */${sizeBytes}`;
}

/** The length of the whole that a 416 tells; undefined when it tells none (RFC 9110 §15.5.17). */
export function parseUnsatisfiedRange(value: string): number | undefined {
  const digits = /^bytes \*\/([0-9]+)$/i.exec(value)?.[1];
  const sizeBytes = Number(digits);
  return Number.isSafeInteger(sizeBytes) ? sizeBytes : undefined;
}

const contentRange = /^bytes ([0-9]+)-([0-9]+)\/([0-9]+|\*)$/i;

/**
 * Parses the Content-Range of a 206. Undefined when it is no byte range, or an invalid one, by which nothing may be
 * combined: its last position must not come before its first, nor behind the end of the whole (RFC 9110 §14.4). Numbers
 * beyond 2^53-1 are refused and never rounded. The unsatisfied form of a 416 holds no bytes, so it is undefined too.
 */
export function parseContentRange(value: string): ContentRange | undefined {
  const match = contentRange.exec(value);
  if (match === null) return undefined;
  const [, first, last, complete] = match;
  const span = { start: Number(first), end: Number(last) + 1 };
  const sizeBytes = complete === '*' ? undefined : Number(complete);
  if (span.start >= span.end || !Number.isSafeInteger(span.end)) return undefined;
  if (sizeBytes !== undefined && (sizeBytes < span.end || !Number.isSafeInteger(sizeBytes))) return undefined;
  return { span, sizeBytes };
}

/** What the parts are parts of. */
interface Whole {
  readonly sizeBytes: number;
  /** Its Content-Type, which each part repeats; undefined when there is none. */
  readonly contentType: string | undefined;
}

/** All of a multipart body but the bytes of its parts. */
export interface ByterangesFraming {
  /** The Content-Type of the message. */
  readonly contentType: string;
  /** What stands before the bytes of each part, as many as there are spans: delimiter, part fields, empty line. */
  readonly heads: readonly Uint8Array[];
  /** What stands behind the last part. */
  readonly tail: Uint8Array;
  /** The length of the body, parts included: its Content-Length. */
  readonly sizeBytes: number;
}

/**
 * Frames `spans`, each a part of `whole`, in their order. `boundary` is one of `createBoundary`, which needs no quotes. A line
 * end stands before the first delimiter too: the grammar allows it to be absent, but nginx and Apache send it, and readers
 * such as zsync's find no part without it.
 * There is no Content-Range beside the Content-Type of the message (RFC 9110 §15.3.7.2).
 */
export function frameByteranges(spans: readonly Span[], whole: Whole, boundary: string): ByterangesFraming {
  const typeLine = whole.contentType === undefined ? '' : `Content-Type: ${whole.contentType}\r\n`;
  const heads = spans.map((span) => {
    const rangeLine = `Content-Range: ${formatContentRange(span, whole.sizeBytes)}\r\n`;
    return octets(`\r\n--${boundary}\r\n${typeLine}${rangeLine}\r\n`);
  });
  const tail = octets(`\r\n--${boundary}--\r\n`);
  const headBytes = heads.reduce((sum, head) => sum + head.length, 0);
  const partBytes = spans.reduce((sum, span) => sum + spanSize(span), 0);
  return {
    contentType: `multipart/byteranges; boundary=${boundary}`,
    heads,
    tail,
    sizeBytes: headBytes + partBytes + tail.length,
  };
}

/** 128 bits, so that nobody can put the boundary into the data beforehand. */
const boundaryBytes = 16;

/** A boundary that cannot be foretold, of letters and digits; `random` gives that many unpredictable bytes. */
export function createBoundary(random: (size: number) => Uint8Array): string {
  return Buffer.from(random(boundaryBytes)).toString('hex');
}

const wideCharacter = /[\u{100}-\u{10ffff}]/gu;

/** One octet for each character, as in field values (RFC 9110 §5.5). Cut to octets, other characters could be CR LF. */
function octets(text: string): Uint8Array {
  return Buffer.from(text.replace(wideCharacter, '?'), 'latin1');
}
