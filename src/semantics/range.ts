/**
 * Byte ranges (RFC 9110 §14): parses Range and selects spans, rewrites the Range that an origin is sent so that it asks for no
 * byte twice, reads and writes Content-Range, and frames multipart/byteranges (§14.6, RFC 2046 §5.1).
 */

import rangeParser from 'range-parser';
import { type Span, spanSize } from '../bytes/span.ts';
import { type Field, type Fields, fieldLines, fieldValue, listMembers } from '../http/fields.ts';

/**
 * One range-spec of the bytes unit, with inclusive ends as on the wire (RFC 9110 §14.1.2). All numbers are safe integers; a
 * larger number in the text becomes 2^53-1.
 */
export type RangeSpec =
  | { readonly kind: 'closed'; readonly first: number; readonly last: number }
  | { readonly kind: 'open'; readonly first: number }
  | { readonly kind: 'suffix'; readonly length: number };

/** The content of a Range field. An ignored Range is treated as absent (RFC 9110 §14.2). */
export type ParsedRange =
  | { readonly kind: 'set'; readonly specs: readonly RangeSpec[] }
  | { readonly kind: 'ignored'; readonly reason: 'malformed' | 'unknown-unit' | 'too-many' | 'too-long' };

/**
 * The bytes that range specs select in a representation:
 * - `partial`: these spans, at least one, none empty, disjoint and not adjacent, in the order requested;
 * - `whole`: satisfiable, but Content-Range cannot express it, so the whole is sent;
 * - `unsatisfiable`: no spec selects a byte.
 */
export type RangeSelection =
  | { readonly kind: 'partial'; readonly spans: readonly Span[] }
  | { readonly kind: 'whole'; readonly reason: 'empty-representation' }
  | { readonly kind: 'unsatisfiable' };

/**
 * What range specs select while the length of the representation is unknown. `span`: these bytes, which may reach behind the end; with
 * `asksLength` they are so few that the client asks for the length. `live`: everything from `first` on, as it comes about.
 */
export type EarlySelection =
  | { readonly kind: 'span'; readonly span: Span; readonly asksLength: boolean }
  | { readonly kind: 'live'; readonly first: number }
  | { readonly kind: 'from-start' }
  | { readonly kind: 'needs-length' };

/** A span from the first byte on that is no longer than this asks for the length: players begin with `bytes=0-1` or `bytes=0-0`. */
const lengthQuestionBytes = 2;

/** Length of the longest Range field that is parsed, in characters; enough for more than two hundred ranges of any size. */
export const maxRangeTextLength = 8 * 1024;

/**
 * Parses the value of a Range field; needs no size. Time is linear in the length of the value.
 *
 * The unit is case-insensitive (RFC 9110 §14.1). Empty list members are skipped and not counted (§5.6.1.2). White space may
 * stand around a member, also after `=` (erratum 7306), but not inside it. One member that is not a byte range, or that ends
 * before it starts, makes the whole set invalid (§14.1.1). A position beyond 2^53-1 becomes 2^53-1, which is behind the last
 * byte of every representation: as a first position it stays unsatisfiable, as a last position it is clamped.
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

/** The start of a Range that means bytes, be it well-formed or not; also an empty one, which means nothing. */
const bytesUnit = /^[ \t]*(?:bytes(?![!#$%&'*+.^_`|~\w-])|$)/i;

/**
 * Checks whether a request has a Range in another unit than bytes, or one that names no unit: `items=0-24`; `0-9` beside Range-Unit;
 * `id 5..; max=10`. Only the application knows what it means (RFC 9110 §14.1).
 */
export function hasOtherUnit(request: Fields): boolean {
  const lines = fieldLines(request, 'range');
  return lines.length > 0 && lines.every((line) => !line.startsWith(plainUnit) && !bytesUnit.test(line));
}

/**
 * Checks whether a request has a range in a field that a service understands in place of Range: that of Azure's storage, or the one
 * from before Range, which Apache obeys. The response is then a part, though the request seems to be for the whole.
 */
export function hasOwnRangeField(request: Fields): boolean {
  return request.some(([name]) => name === 'x-ms-range' || name === 'request-range');
}

/** Formats specs as the value of a Range field, without optional white space. `specs` is not empty. */
export function formatRange(specs: readonly RangeSpec[]): string {
  return `bytes=${specs.map(formatSpec).join(',')}`;
}

/**
 * Selects the bytes of a representation of `sizeBytes` that parsed `specs` ask for (RFC 9110 §14.1.2). A last position behind
 * the end is clamped. A suffix longer than the whole selects the whole. Unsatisfiable specs are dropped.
 *
 * Ranges that overlap, adjoin or leave a gap smaller than `coalesceGapBytes` are joined, so that no byte is sent twice and no
 * part costs more than the bytes it leaves out (§15.3.7.2, §17.15). The spans keep the order of the requested ranges. A joined
 * span has the place of the first of its ranges; a range that lies inside another one may not count for this.
 *
 * Of an empty representation every range selects the whole: nginx, Go and Rack ignore Range then, as every server may (§14.2).
 * Clients that add a Range to each request to limit its response would otherwise get an error for an empty file.
 */
export function selectRanges(
  specs: readonly RangeSpec[],
  sizeBytes: number,
  options: { readonly coalesceGapBytes: number },
): RangeSelection {
  if (sizeBytes === 0) {
    return { kind: 'whole', reason: 'empty-representation' };
  }
  // range-parser rejects a suffix longer than the whole, and accepts any text. So it gets canonical text.
  const text = formatRange(specs.map((spec) => withoutExcess(spec, sizeBytes)));
  const ranges = rangeParser(sizeBytes, text, { combine: true });
  if (typeof ranges === 'number') return { kind: 'unsatisfiable' };
  const spans = ranges.map((range) => ({ start: range.start, end: range.end + 1 }));
  return { kind: 'partial', spans: closeGaps(spans, options.coalesceGapBytes) };
}

/**
 * Selects the span of a Range with a single range in a representation of `sizeBytes`: `parseRange` and `selectRanges` in one
 * step. Undefined for any other Range: one that is ignored or unsatisfiable, or that has several ranges.
 */
export function selectSpan(value: string, sizeBytes: number): Span | undefined {
  const dash = value.startsWith(plainUnit) ? value.indexOf('-', plainUnit.length) : -1;
  const first = readPosition(value, plainUnit.length, dash);
  const last = readPosition(value, dash + 1, value.length);
  if (first === 'other' || last === 'other') return selectParsed(value, sizeBytes);
  if (first === undefined) return last === undefined ? undefined : spanWithin(sizeBytes - last, sizeBytes, sizeBytes);
  if (last === undefined) return spanWithin(first, sizeBytes, sizeBytes);
  return last < first ? undefined : spanWithin(first, last + 1, sizeBytes);
}

/**
 * Selects what can be known while the length is unknown: the span of a single range with an explicit end, or everything from
 * the first byte on (`bytes=0-`). The last position 2^53-1 asks for live content (RFC 8673 §2).
 */
export function selectBeforeLength(specs: readonly RangeSpec[]): EarlySelection {
  const [spec] = specs;
  if (spec === undefined || specs.length > 1) return { kind: 'needs-length' };
  if (spec.kind === 'open' && spec.first === 0) return { kind: 'from-start' };
  if (spec.kind !== 'closed') return { kind: 'needs-length' };
  // The end of a span must be a safe integer, so the last position of all would leave no room for it.
  if (spec.last === Number.MAX_SAFE_INTEGER) return { kind: 'live', first: spec.first };
  const span = { start: spec.first, end: spec.last + 1 };
  return { kind: 'span', span, asksLength: span.start === 0 && span.end <= lengthQuestionBytes };
}

/** The prefix that nearly all clients send; `selectParsed` handles other spellings. */
const plainUnit = 'bytes=';

/** A number of this many digits is always a safe integer. */
const maxPlainDigits = 15;

/** The number in `text` from `from` to `to` (exclusive); undefined for an empty text, `other` for anything but a small number. */
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

function selectParsed(value: string, sizeBytes: number): Span | undefined {
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

/** Joins disjoint spans with gaps smaller than `gapBytes`; a joined span has the place of its first one. */
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

/** Compares digits as exact numbers of any length. */
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

/**
 * Returns the Range to pass on to an origin; undefined where the field is left out, as every recipient may do (RFC 9110 §14.2).
 * It is left out if it is malformed, too long or sent in several lines, has too many ranges, or has a suffix beside other
 * ranges: whether those overlap is unknown. Closed and open ranges that overlap or adjoin are joined, and all are sorted
 * (§14.1.2, §17.15): an origin that sends a part for each range would otherwise send the same bytes as often as a client likes.
 */
export function passedRange(lines: readonly string[], limits: { readonly maxRanges: number }): string | undefined {
  const [line, ...more] = lines;
  if (line === undefined || more.length > 0) return undefined;
  const parsed = parseRange(line, limits);
  if (parsed.kind === 'ignored') return undefined;
  const { specs } = parsed;
  if (specs.length === 1) return formatRange(specs);
  // Where a suffix begins depends on the length of the whole.
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

/** The Content-Range of a 206. `sizeBytes` is the length of the whole; undefined when it was sent as `*`. */
export interface ContentRange {
  readonly span: Span;
  readonly sizeBytes: number | undefined;
}

/** Formats Content-Range for `span`, which is not empty, of a whole of `sizeBytes`; `*` when the length is unknown (RFC 9110 §14.4). */
export function formatContentRange(span: Span, sizeBytes: number | undefined): string {
  return `bytes ${span.start}-${span.end - 1}/${sizeBytes ?? '*'}`;
}

/** Formats Content-Range for content from `first` on that is sent as it comes about (RFC 8673 §2.1). */
export function formatLiveRange(first: number): string {
  return `bytes ${first}-${Number.MAX_SAFE_INTEGER}/*`;
}

/** Formats Content-Range for a 416: no bytes, and the length of the whole (RFC 9110 §15.5.17). */
export function formatUnsatisfiedRange(sizeBytes: number): string {
  return `bytes */${sizeBytes}`;
}

/** Returns the length of the whole that a 416 states; undefined when it states none (RFC 9110 §15.5.17). */
export function parseUnsatisfiedRange(value: string): number | undefined {
  const digits = /^bytes \*\/([0-9]+)$/i.exec(value)?.[1];
  const sizeBytes = Number(digits);
  return Number.isSafeInteger(sizeBytes) ? sizeBytes : undefined;
}

const contentRange = /^bytes ([0-9]+)-([0-9]+)\/([0-9]+|\*)$/i;

/**
 * Parses the Content-Range of a 206. Undefined when it is not a byte range, or an invalid one, which must not be used to
 * combine bytes: its last position must not come before its first, nor behind the end of the whole (RFC 9110 §14.4). Numbers
 * beyond 2^53-1 are refused, never rounded. The unsatisfied form of a 416 has no bytes, so it is undefined too.
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

/**
 * Checks whether a response says of itself that its content is only a part, whatever its status: by a Content-Range in bytes that does
 * not cover all of the content, or by the media type of several parts. In a 200 these fields have no meaning (RFC 9110 §14.4), but
 * servers that send a part as a 200 send them. Content-Range in other units is the application's own. `sizeBytes` is the length of the
 * content; undefined where it is not stated.
 */
export function statesPart(fields: Fields, sizeBytes: number | undefined): boolean {
  if (multipartType.test(fieldValue(fields, 'content-type') ?? '')) return true;
  const [value, ...more] = fieldLines(fields, 'content-range').filter(isOfBytes);
  if (value === undefined) return false;
  const wholeBytes = parseUnsatisfiedRange(value) ?? wholeOf(parseContentRange(value));
  return more.length > 0 || wholeBytes === undefined || (sizeBytes !== undefined && sizeBytes !== wholeBytes);
}

/** Checks whether the Content-Range of a 206 and the length of its content say that it holds the whole. */
export function holdsWhole(fields: Fields, sizeBytes: number | undefined): sizeBytes is number {
  const [value = '', ...more] = fieldLines(fields, 'content-range');
  return more.length === 0 && sizeBytes !== undefined && wholeOf(parseContentRange(value)) === sizeBytes;
}

/**
 * Checks whether a part has a content coding (RFC 9110 §8.4) and no length that fits its Content-Range. Servers that compress on the
 * fly send such parts: the Content-Range is that of the bytes before the coding, so the part belongs to no coded representation.
 */
export function isCodedAlone(fields: Fields, sizeBytes: number | undefined): boolean {
  const coding = fieldValue(fields, 'content-encoding') ?? 'identity';
  if (coding.toLowerCase() === 'identity') return false;
  const { span } = parseContentRange(fieldValue(fields, 'content-range') ?? '') ?? {};
  return span === undefined || sizeBytes !== span.end - span.start;
}

const multipartType = /^multipart\/byteranges[ \t]*(?:;|$)/i;

function isOfBytes(contentRangeValue: string): boolean {
  return /^bytes[ \t]/i.test(contentRangeValue);
}

/** The length of the whole where a range is all of it; undefined otherwise. */
function wholeOf(range: ContentRange | undefined): number | undefined {
  return range?.span.start === 0 && range.span.end === range.sizeBytes ? range.sizeBytes : undefined;
}

/** Returns the fields without a Content-Range in bytes, which only a 206 or 416 may have (RFC 9110 §14.4); the same array where there is none. */
export function withoutByteRange(fields: Fields): Fields {
  const isRange = ([name, value]: Field) => name === 'content-range' && isOfBytes(value);
  return fields.some(isRange) ? fields.filter((field) => !isRange(field)) : fields;
}

/** The representation that the parts belong to. */
interface Whole {
  readonly sizeBytes: number;
  /** Its Content-Type, which each part repeats; undefined when there is none. */
  readonly contentType: string | undefined;
}

/** A multipart body without the bytes of its parts. */
export interface ByterangesFraming {
  /** The Content-Type of the message. */
  readonly contentType: string;
  /** The text before the bytes of each part, one for each span: delimiter, part fields, empty line. */
  readonly heads: readonly Uint8Array[];
  /** The text after the last part. */
  readonly tail: Uint8Array;
  /** The length of the body, parts included: its Content-Length. */
  readonly sizeBytes: number;
}

/**
 * Frames `spans`, each a part of `whole`, in their order. `boundary` comes from `createBoundary` and needs no quotes. A line
 * end stands before the first delimiter too. The grammar allows its absence, but nginx and Apache send it, and parsers such as
 * zsync's find no part without it. The message itself has no Content-Range (RFC 9110 §15.3.7.2).
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

/** 128 bits, so that data with the boundary in it cannot be prepared. */
const boundaryBytes = 16;

/** Creates an unpredictable boundary of hexadecimal digits; `random` returns `size` unpredictable bytes. */
export function createBoundary(random: (size: number) => Uint8Array): string {
  return Buffer.from(random(boundaryBytes)).toString('hex');
}

const wideCharacter = /[\u{100}-\u{10ffff}]/gu;

/**
 * One octet for each character, as in field values (RFC 9110 §5.5). Other characters become `?`: cut to octets, they could
 * become CR LF.
 */
function octets(text: string): Uint8Array {
  return Buffer.from(text.replace(wideCharacter, '?'), 'latin1');
}
