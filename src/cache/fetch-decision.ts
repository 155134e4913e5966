/** Which bytes the origin is asked for when a reader meets absent ones: decided from numbers alone. */

import type { Span } from '../bytes/span.ts';
import type { SpanSet } from '../bytes/span-set.ts';

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
}

/**
 * Wait for what is coming; expect it within `seekAheadMs`, and decide again when that has passed, for a fill may slow down;
 * or ask for a span: block-aligned, or everything from the first byte on.
 */
export type FetchDecision =
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

/**
 * How many bytes are asked for at once for the reader of an open-ended range that has read `readBytes` in sequence. The client of
 * such a range names the end of the whole, but a player leaves after a few seconds. So a span is as long as what was read before:
 * one block at first, then twice as much each time. From `seekAheadBytes` on it grows slowly, to hold what was fetched in vain below
 * a sixteenth. A long download needs a few dozen requests.
 */
export function openSpanBytes(
  readBytes: number,
  { blockSizeBytes, seekAheadBytes }: Pick<Outlook, 'blockSizeBytes' | 'seekAheadBytes'>,
): number {
  const grown = Math.min(readBytes, Math.max(seekAheadBytes, readBytes / 16));
  return Math.max(1, Math.floor(grown / blockSizeBytes)) * blockSizeBytes;
}

/** From the block of the byte to the end of what the reader wants, or to where something is there or about to come. */
function missingSpan(need: Need, sizeBytes: number): Span {
  const { offset, end, blockSizeBytes, present, fills, growsOpenRanges, openFrom } = need;
  const index = Math.floor(offset / blockSizeBytes);
  const start = index * blockSizeBytes;
  const isOpen = growsOpenRanges && openFrom !== undefined;
  const most = isOpen ? start + openSpanBytes(Math.max(0, offset - openFrom), need) : Number.POSITIVE_INFINITY;
  const aligned = Math.ceil(Math.min(end, sizeBytes) / blockSizeBytes) * blockSizeBytes;
  const wanted = Math.min(sizeBytes, aligned, most);
  const missing = present.firstMissing({ start: index, end: Math.ceil(wanted / blockSizeBytes) });
  const nextStarts = fills.map((fill) => fill.frontier).filter((frontier) => frontier > start);
  const nextFill = Math.min(...nextStarts.map((frontier) => Math.floor(frontier / blockSizeBytes) * blockSizeBytes));
  const limit = Math.min(wanted, (missing?.end ?? Number.POSITIVE_INFINITY) * blockSizeBytes);
  return { start, end: nextFill > start ? Math.min(limit, nextFill) : limit };
}
