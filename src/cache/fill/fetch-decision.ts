/**
 * Decides from numbers alone which bytes the origin is asked for: when a reader meets absent bytes, and when nothing is known
 * but the range that a client wants. Also whether a generation may be begun with the 206 that came.
 */

import type { Span, SpanSet } from '../../bytes/span.ts';
import { fieldValue } from '../../http/fields.ts';
import type { OriginResponse } from '../../origin/origin.ts';
import { type ContentRange, parseContentRange, type RangeSpec } from '../../semantics/range.ts';
import { strongValidator } from '../../semantics/validator.ts';
import type { FillPolicy } from '../inquiry.ts';

/** A fill as the decision sees it: it brings the bytes `[frontier, limit)`. */
export interface Coming {
  readonly frontier: number;
  /** Up to where its blocks have been kept: what lies between that and the frontier is about to be. */
  readonly keptTo: number;
  /** Infinity where the length is not known. */
  readonly limit: number;
  /** Bytes for each millisecond, as measured; 0 before that. */
  readonly speed: number;
}

/** What is known of the bytes of a generation: which are there, which are coming, and how others can be had. */
export interface Outlook {
  /** Undefined while it is not known. */
  readonly sizeBytes: number | undefined;
  readonly blockSizeBytes: number;
  /** The blocks that are there. */
  readonly present: SpanSet;
  readonly fills: readonly Coming[];
  /** Whether the origin can be asked for a part of this very generation. */
  readonly mayAskForParts: boolean;
  /** A fill that is at most this far behind is waited for, in bytes. */
  readonly seekAheadBytes: number;
  /** One that will be there within this time is waited for too, in milliseconds. */
  readonly seekAheadMs: number;
  /** Whether an open-ended range is fetched in spans that grow with what its client has read. */
  readonly growsOpenRanges: boolean;
}

/** What is known when a reader needs `[offset, end)`. */
export interface Need extends Outlook {
  readonly offset: number;
  readonly end: number;
  /** Where the reader of an open-ended range began; undefined for a reader that wants all of `[offset, end)`. */
  readonly openFrom?: number | undefined;
  /** How much that reader takes while the origin is asked for a span, in bytes; 0 while it is not known. */
  readonly paceBytes?: number | undefined;
}

/**
 * Wait for what is coming; expect it within `seekAheadMs`, and decide again when that has passed, for a fill may slow down;
 * or ask for a span: block-aligned, or everything from the first byte on.
 */
type FetchDecision =
  | { readonly kind: 'wait' }
  | { readonly kind: 'expect' }
  | { readonly kind: 'fetch'; readonly span: Span };

/** Whether all bytes of a span are there. */
export function hasBytes({ present, blockSizeBytes }: Outlook, { start, end }: Span): boolean {
  return present.hasAll({ start: Math.floor(start / blockSizeBytes), end: Math.ceil(end / blockSizeBytes) });
}

/** Whether a fill brings a byte that cannot be read yet, be it that the rest of its block has to come first. */
export function isComing({ keptTo, limit }: Coming, offset: number): boolean {
  return keptTo <= offset && offset < limit;
}

/** The fill that brings a byte first: it has come furthest. */
export function nearestFill<F extends Coming>(fills: readonly F[], offset: number): F | undefined {
  const coming = fills.filter((fill) => isComing(fill, offset));
  return coming.reduce<F | undefined>(
    (best, fill) => (best === undefined || fill.frontier > best.frontier ? fill : best),
    undefined,
  );
}

/** Decides for a byte that is absent. */
export function decideFetch(need: Need): FetchDecision {
  const { offset, fills, sizeBytes } = need;
  const coming = fills.filter((fill) => isComing(fill, offset));
  if (sizeBytes === undefined || !need.mayAskForParts) {
    return coming.length > 0 ? { kind: 'wait' } : { kind: 'fetch', span: { start: 0, end: Number.POSITIVE_INFINITY } };
  }
  if (coming.some((fill) => offset - fill.frontier <= need.seekAheadBytes)) return { kind: 'wait' };
  if (coming.some((fill) => offset - fill.frontier <= fill.speed * need.seekAheadMs)) return { kind: 'expect' };
  return { kind: 'fetch', span: missingSpan(need, sizeBytes) };
}

/** What the length of the spans of an open-ended range depends on. */
interface OpenReading extends Pick<Outlook, 'blockSizeBytes' | 'seekAheadBytes'> {
  /** How much its reader has read in sequence. */
  readonly readBytes: number;
  /** See `Need.paceBytes`. */
  readonly paceBytes: number;
}

/**
 * How many bytes are asked for at once for the reader of an open-ended range. Its client names the end of the whole, but a player leaves
 * after a few seconds, and what was fetched by then is fetched in vain. So a span is one block, or a twentieth of what was read. It is
 * longer only where the reader would wait for the origin between short spans: some round trips long, but at most half of what was
 * read, and `seekAheadBytes`. Measured by a model at 50 MB/s and 20 to 100 ms: spans of four round trips are nearly as
 * fast as spans that double each time, spans of two take twice as long.
 */
export function openSpanBytes({ readBytes, paceBytes, blockSizeBytes, seekAheadBytes }: OpenReading): number {
  const grown = Math.max(readBytes / 20, Math.min(4 * paceBytes, readBytes / 2, seekAheadBytes));
  return Math.max(1, Math.floor(grown / blockSizeBytes)) * blockSizeBytes;
}

/** How far ahead of that reader the next span is asked for, so that it need not pause between two. */
export function openAheadBytes(reading: OpenReading): number {
  return Math.min(2 * reading.paceBytes, openSpanBytes(reading) / 2);
}

/** From the block of the byte to the end of what the reader wants, or to where something is there or about to come. */
function missingSpan(need: Need, sizeBytes: number): Span {
  const { offset, end, blockSizeBytes, present, fills, growsOpenRanges, openFrom, paceBytes = 0 } = need;
  const index = Math.floor(offset / blockSizeBytes);
  const start = index * blockSizeBytes;
  const isOpen = growsOpenRanges && openFrom !== undefined;
  const readBytes = Math.max(0, offset - (openFrom ?? offset));
  const most = isOpen ? start + openSpanBytes({ ...need, readBytes, paceBytes }) : Number.POSITIVE_INFINITY;
  const aligned = Math.ceil(Math.min(end, sizeBytes) / blockSizeBytes) * blockSizeBytes;
  const wanted = Math.min(sizeBytes, aligned, most);
  const missing = present.firstMissing({ start: index, end: Math.ceil(wanted / blockSizeBytes) });
  const nextStarts = fills.map((fill) => fill.frontier).filter((frontier) => frontier > start);
  const nextFill = Math.min(...nextStarts.map((frontier) => Math.floor(frontier / blockSizeBytes) * blockSizeBytes));
  const limit = Math.min(wanted, (missing?.end ?? Number.POSITIVE_INFINITY) * blockSizeBytes);
  return { start, end: nextFill > start ? Math.min(limit, nextFill) : limit };
}

/**
 * The block-aligned range around what a client asks for first; undefined for the whole. Of one open-ended range that is one block
 * where the rest is fetched as the client reads on.
 */
export function selectFirstAsk(
  specs: readonly RangeSpec[],
  blockSizeBytes: number,
  openRanges: FillPolicy['openRanges'],
): RangeSpec | undefined {
  const [spec, ...more] = specs;
  switch (spec?.kind) {
    case undefined:
      return undefined;
    case 'closed': {
      const first = alignDown(spec.first, blockSizeBytes);
      const end = alignDown(spec.last, blockSizeBytes) + blockSizeBytes;
      return Number.isSafeInteger(end) ? { kind: 'closed', first, last: end - 1 } : { kind: 'open', first };
    }
    case 'open': {
      const first = alignDown(spec.first, blockSizeBytes);
      const last = first + blockSizeBytes - 1;
      if (openRanges === 'grow' && more.length === 0 && Number.isSafeInteger(last))
        return { kind: 'closed', first, last };
      return first === 0 ? undefined : { kind: 'open', first };
    }
    case 'suffix': {
      // One block more, so that the first byte wanted lies behind a block's start wherever the blocks may lie.
      const length = spec.length + blockSizeBytes;
      return Number.isSafeInteger(length) ? { kind: 'suffix', length } : undefined;
    }
  }
}

/** Whether a range is all of a representation of this length. */
export function isWholeRange(spec: RangeSpec, sizeBytes: number | undefined): boolean {
  if (sizeBytes === undefined) return false;
  if (spec.kind === 'suffix') return spec.length >= sizeBytes;
  return sizeBytes === 0 || (spec.first === 0 && (spec.kind === 'open' || spec.last >= sizeBytes - 1));
}

/** Whether a range holds no byte of a representation of this length. */
export function isBehind(spec: RangeSpec, sizeBytes: number): boolean {
  return spec.kind === 'suffix' ? Math.min(spec.length, sizeBytes) === 0 : spec.first >= sizeBytes;
}

/** What a 206 is good for, or why not; a lie is one that no request could have led to. */
type FirstPartDecision =
  | { readonly kind: 'part'; readonly span: Span; readonly sizeBytes: number }
  | { readonly kind: 'refuse'; readonly isLie: boolean; readonly reason: string };

/**
 * Whether a 206 is no answer to the range that was asked for: it begins elsewhere, or its length is not the one that its
 * Content-Range states. A server may send less than it is asked for, but not something else (RFC 9110 §15.3.7).
 */
export function isOtherPart(
  asked: RangeSpec,
  { span, sizeBytes }: ContentRange,
  contentBytes: number | undefined,
): boolean {
  if (contentBytes !== undefined && contentBytes !== span.end - span.start) return true;
  if (asked.kind !== 'suffix') return span.start !== asked.first;
  return sizeBytes !== undefined && span.start !== Math.max(0, sizeBytes - asked.length);
}

/** Decides whether a generation may be begun with a 206: other parts have to be joined to it (RFC 9110 §15.3.7.3). */
export function selectFirstPart(
  asked: RangeSpec,
  response: Pick<OriginResponse, 'fields' | 'sizeBytes'>,
  responseAt: number,
  blockSizeBytes: number,
): FirstPartDecision {
  const range = parseContentRange(fieldValue(response.fields, 'content-range') ?? '');
  if (range === undefined)
    return { kind: 'refuse', isLie: true, reason: 'it sent a 206 without a valid Content-Range' };
  const { span, sizeBytes } = range;
  if (isOtherPart(asked, range, response.sizeBytes)) {
    return { kind: 'refuse', isLie: true, reason: 'it sent another range than was asked for' };
  }
  const isUnnamed = strongValidator({ fields: response.fields, responseAt }, responseAt) === undefined;
  if (sizeBytes === undefined || isUnnamed) {
    return { kind: 'refuse', isLie: false, reason: 'a part without a strong validator or the length of the whole' };
  }
  if (!holdsBlock(span, sizeBytes, blockSizeBytes)) {
    return { kind: 'refuse', isLie: true, reason: 'it sent less than a block of what was asked for' };
  }
  return { kind: 'part', span, sizeBytes };
}

/** Whether a part holds a block from its start on, or the end of the whole from a block's start on. */
function holdsBlock(span: Span, sizeBytes: number, blockSizeBytes: number): boolean {
  const first = Math.ceil(span.start / blockSizeBytes) * blockSizeBytes;
  return first < span.end && (span.end === sizeBytes || span.end - first >= blockSizeBytes);
}

function alignDown(offset: number, blockSizeBytes: number): number {
  return Math.floor(offset / blockSizeBytes) * blockSizeBytes;
}
