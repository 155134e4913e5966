/** The Range field: its text as specs, and specs as spans of a representation (RFC 9110 §14.1, §14.2). */

import rangeParser from 'range-parser';
import type { Span } from '../bytes/span.ts';
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
