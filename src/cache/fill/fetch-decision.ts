/**
 * Decides which bytes are requested from the origin: when a reader meets absent bytes, and when only the range of a client is
 * known. Also decides whether a 206 may begin a generation. All functions are pure.
 */

import type { Span, SpanSet } from '../../bytes/span.ts';
import { fieldValue } from '../../http/fields.ts';
import type { OriginResponse } from '../../origin/origin.ts';
import type { RangeFault, RangeSupport } from '../../origin/range-ability.ts';
import {
  type ContentRange,
  holdsWhole,
  isCodedAlone,
  parseContentRange,
  type RangeSpec,
  statesPart,
  withoutByteRange,
} from '../../semantics/range.ts';
import { isLiveStream } from '../../semantics/storing.ts';
import { strongValidator } from '../../semantics/validator.ts';
import type { FillPolicy } from '../inquiry.ts';

/** A fill, as the decision sees it. It brings the bytes `[frontier, limit)`. */
export interface FillProgress {
  readonly frontier: number;
  /** End (exclusive) of its kept blocks. The bytes between this and the frontier have arrived and are not kept yet. */
  readonly keptTo: number;
  /** Infinity where the length of the body is not known. */
  readonly limit: number;
  /** Bytes per millisecond, as measured of late; 0 while it is not known. */
  readonly speed: number;
}

/** Which bytes of a generation are present, which are coming, and how the others can be requested. */
export interface Outlook {
  /** Undefined while it is not known. */
  readonly sizeBytes: number | undefined;
  readonly blockSizeBytes: number;
  /** Indexes of the present blocks. */
  readonly present: SpanSet;
  readonly fills: readonly FillProgress[];
  /** Whether the origin may be asked for a part of this generation. */
  readonly mayAskForParts: boolean;
  /** Whether a part is requested just now whose answer will show whether the origin has ranges, which is not known yet. */
  readonly isProbing: boolean;
  /** A reader waits for a fill that is at most this many bytes behind it, where the speed of the fill is not known yet. */
  readonly seekAheadBytes: number;
  /** A reader waits for a fill that should reach its block within this time, in milliseconds, or within `latencyMs`. */
  readonly seekAheadMs: number;
  /** How long the origin takes to answer a request for a part, in milliseconds; 0 while it is not known. */
  readonly latencyMs: number;
  /** Whether an open-ended range is requested in spans that grow with the number of bytes that its client has read. */
  readonly growsOpenRanges: boolean;
}

/** A reader that needs `[offset, end)`, and the outlook of its generation. */
export interface Need extends Outlook {
  readonly offset: number;
  readonly end: number;
  /** Offset at which the reader of an open-ended range began; undefined for a reader that wants all of `[offset, end)`. */
  readonly openFrom?: number | undefined;
  /** Bytes that this reader takes during one origin latency; 0 while that is not known. */
  readonly paceBytes?: number | undefined;
}

/**
 * `wait`: a fill will bring the byte. `expect`: a fill should bring it soon; decide again after `seekAheadMs`, because the fill may
 * slow down. `probe`: a fill will bring the byte, but decide again when it is known whether the origin has ranges; until
 * then one request for a part is enough, because each may bring the whole. `fetch`: request the span, which is whole blocks, or
 * everything from byte 0 on.
 */
type FetchDecision =
  | { readonly kind: 'wait' }
  | { readonly kind: 'expect' }
  | { readonly kind: 'probe' }
  | { readonly kind: 'fetch'; readonly span: Span };

/** Checks whether all bytes of a span are present. */
export function hasBytes({ present, blockSizeBytes }: Outlook, { start, end }: Span): boolean {
  return present.hasAll({ start: Math.floor(start / blockSizeBytes), end: Math.ceil(end / blockSizeBytes) });
}

/** Checks whether a fill brings a byte whose block it has not kept yet, even if the byte itself has arrived. */
export function isComing({ keptTo, limit }: FillProgress, offset: number): boolean {
  return keptTo <= offset && offset < limit;
}

/** Returns the fill that brings a byte first, which has the highest frontier; undefined where none brings it. */
export function nearestFill<F extends FillProgress>(fills: readonly F[], offset: number): F | undefined {
  const coming = fills.filter((fill) => isComing(fill, offset));
  return coming.reduce<F | undefined>(
    (best, fill) => (best === undefined || fill.frontier > best.frontier ? fill : best),
    undefined,
  );
}

/** Decides how a reader gets the absent byte at `need.offset`. */
export function decideFetch(need: Need): FetchDecision {
  const { offset, fills, sizeBytes } = need;
  const coming = fills.filter((fill) => isComing(fill, offset));
  if (sizeBytes === undefined || !need.mayAskForParts) {
    return coming.length > 0 ? { kind: 'wait' } : { kind: 'fetch', span: { start: 0, end: Number.POSITIVE_INFINITY } };
  }
  const block = alignDown(offset, need.blockSizeBytes);
  // A request for a block of which some bytes have arrived would bring these again.
  if (coming.some(({ frontier }) => offset <= frontier || block < frontier)) return { kind: 'wait' };
  if (coming.some((fill) => isNear(fill, need))) return { kind: 'expect' };
  if (coming.length > 0 && need.isProbing) return { kind: 'probe' };
  return { kind: 'fetch', span: missingSpan(need, sizeBytes) };
}

/** Whether a fill should bring the block of a byte at least as soon as another request would. */
function isNear(fill: FillProgress, need: Need): boolean {
  const { offset, blockSizeBytes, seekAheadBytes } = need;
  if (fill.speed === 0) return offset - fill.frontier <= seekAheadBytes;
  return alignDown(offset, blockSizeBytes) - fill.frontier <= fill.speed * requestMs(need);
}

/**
 * Returns up to how many bytes, which are present or come by other fills, a fill brings once more: as many as take it no longer than
 * another request behind them would, and at most `seekAheadBytes`.
 */
export function repeatedBytes({ speed }: Pick<FillProgress, 'speed'>, outlook: RequestCost): number {
  const { seekAheadBytes } = outlook;
  return speed === 0 ? seekAheadBytes : Math.min(seekAheadBytes, speed * requestMs(outlook));
}

/** What a further request costs. */
type RequestCost = Pick<Outlook, 'seekAheadBytes' | 'seekAheadMs' | 'latencyMs'>;

/** The time that a further request may take until its bytes come, in milliseconds. */
function requestMs({ seekAheadMs, latencyMs }: RequestCost): number {
  return Math.max(seekAheadMs, latencyMs);
}

/** Returns the number of blocks of a part of at most `partBytes`; at least one. */
export function wholeBlocks(partBytes: number, blockSizeBytes: number): number {
  return Math.max(1, Math.floor(partBytes / blockSizeBytes));
}

/**
 * Returns the next part of `tail`, which a running fill brings or should have brought, for a fill beside it: at most `partBytes`
 * from the first byte that is neither present nor arriving soon. Undefined where there is none. Each running fill keeps the next
 * `partBytes` behind its frontier, so that a part has time to begin before the fill reaches it.
 */
export function nextPart(
  { present, fills, blockSizeBytes }: Pick<Outlook, 'present' | 'fills' | 'blockSizeBytes'>,
  tail: Span,
  partBytes: number,
): Span | undefined {
  const partBlocks = wholeBlocks(partBytes, blockSizeBytes);
  const shares = fills.map(({ keptTo, frontier, limit }) => {
    const end = (Math.ceil(frontier / blockSizeBytes) + partBlocks) * blockSizeBytes;
    return { start: Math.floor(keptTo / blockSizeBytes) * blockSizeBytes, end: Math.min(limit, end) };
  });
  for (let at = Math.ceil(tail.start / blockSizeBytes) * blockSizeBytes; at < tail.end; ) {
    const blocks = { start: at / blockSizeBytes, end: Math.ceil(tail.end / blockSizeBytes) };
    const missing = present.firstMissing(blocks);
    if (missing === undefined) return undefined;
    at = missing.start * blockSizeBytes;
    const share = shares.find(({ start, end }) => start <= at && at < end);
    if (share === undefined) {
      const starts = shares.map(({ start }) => start).filter((start) => start > at);
      const end = Math.min(at + partBlocks * blockSizeBytes, tail.end, missing.end * blockSizeBytes, ...starts);
      return { start: at, end };
    }
    at = Math.ceil(share.end / blockSizeBytes) * blockSizeBytes;
  }
  return undefined;
}

/** The inputs for the length of the spans of an open-ended range. */
interface OpenReading extends Pick<Outlook, 'blockSizeBytes' | 'seekAheadBytes'> {
  /** Bytes that its reader has read in sequence. */
  readonly readBytes: number;
  /** See `Need.paceBytes`. */
  readonly paceBytes: number;
}

/**
 * Returns how many bytes are requested at once for the reader of an open-ended range. Its client asks for everything up to the end,
 * but a player leaves after a few seconds, and bytes that were fetched ahead are wasted. So a span is one block, or a twentieth of
 * the bytes read. It is longer only where the reader would wait for the origin between short spans: four round trips, but at most
 * half of the bytes read, and at most `seekAheadBytes`. Measured by a model at 50 MB/s and 20 to 100 ms: spans of four round trips
 * are nearly as fast as spans that double each time; spans of two take twice as long.
 */
export function openSpanBytes({ readBytes, paceBytes, blockSizeBytes, seekAheadBytes }: OpenReading): number {
  const grown = Math.max(readBytes / 20, Math.min(4 * paceBytes, readBytes / 2, seekAheadBytes));
  return Math.max(1, Math.floor(grown / blockSizeBytes)) * blockSizeBytes;
}

/** Returns how many bytes ahead of this reader the next span is requested, so that it need not pause between two spans. */
export function openAheadBytes(reading: OpenReading): number {
  return Math.min(2 * reading.paceBytes, openSpanBytes(reading) / 2);
}

/**
 * Returns up to which offset (exclusive) bytes are fetched for the reader of an open-ended range at `offset`, which began at `from`,
 * where one request could bring more: as far as spans would reach.
 */
export function openLimit(
  offset: number,
  from: number,
  sizes: Pick<Outlook, 'blockSizeBytes' | 'seekAheadBytes'>,
): number {
  const readBytes = Math.max(0, offset - from);
  return alignDown(offset, sizes.blockSizeBytes) + openSpanBytes({ ...sizes, readBytes, paceBytes: 0 });
}

/** The span from the block of the byte to the end of the wanted bytes, or to the next block that is present or about to come. */
function missingSpan(need: Need, sizeBytes: number): Span {
  const { offset, end, blockSizeBytes, present, fills, growsOpenRanges, openFrom, paceBytes = 0 } = need;
  const index = Math.floor(offset / blockSizeBytes);
  const start = index * blockSizeBytes;
  const isOpen = growsOpenRanges && openFrom !== undefined;
  const readBytes = Math.max(0, offset - (openFrom ?? offset));
  const maxEnd = isOpen ? start + openSpanBytes({ ...need, readBytes, paceBytes }) : Number.POSITIVE_INFINITY;
  const aligned = Math.ceil(Math.min(end, sizeBytes) / blockSizeBytes) * blockSizeBytes;
  const wanted = Math.min(sizeBytes, aligned, maxEnd);
  const missing = present.firstMissing({ start: index, end: Math.ceil(wanted / blockSizeBytes) });
  const nextStarts = fills.map((fill) => fill.frontier).filter((frontier) => frontier > start);
  const nextFill = Math.min(...nextStarts.map((frontier) => Math.floor(frontier / blockSizeBytes) * blockSizeBytes));
  const limit = Math.min(wanted, (missing?.end ?? Number.POSITIVE_INFINITY) * blockSizeBytes);
  return { start, end: nextFill > start ? Math.min(limit, nextFill) : limit };
}

/**
 * Returns the block-aligned range around the first range of a client; undefined for the whole. A single open-ended range becomes
 * one block with `grow`: the rest is fetched by further requests as the client reads on. With `once` it stays open-ended.
 */
export function selectFirstRange(
  specs: readonly RangeSpec[],
  blockSizeBytes: number,
  openRanges: FillPolicy['openRanges'] | 'once',
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
      const isOnce = openRanges === 'once' && more.length === 0;
      return first === 0 && !isOnce ? undefined : { kind: 'open', first };
    }
    case 'suffix': {
      // One block more: the block boundaries are unknown, and the part must hold the start of the block of the first wanted byte.
      const length = spec.length + blockSizeBytes;
      return Number.isSafeInteger(length) ? { kind: 'suffix', length } : undefined;
    }
  }
}

/** Checks whether a range is all of a representation of this length; false where the length is not known. */
export function isWholeRange(spec: RangeSpec, sizeBytes: number | undefined): boolean {
  if (sizeBytes === undefined) return false;
  if (spec.kind === 'suffix') return spec.length >= sizeBytes;
  return sizeBytes === 0 || (spec.first === 0 && (spec.kind === 'open' || spec.last >= sizeBytes - 1));
}

/** Checks whether a range holds no byte of a representation of this length. */
export function isPastEnd(spec: RangeSpec, sizeBytes: number): boolean {
  return spec.kind === 'suffix' ? Math.min(spec.length, sizeBytes) === 0 : spec.first >= sizeBytes;
}

/** Why a response that should be the whole may be a part. `isStated`: it says so itself; otherwise its length raises the suspicion. */
export interface WholeDoubt {
  readonly isStated: boolean;
  readonly reason: string;
  readonly requested: RangeSpec;
  /** The length of the response; undefined where it is not stated. */
  readonly sizeBytes: number | undefined;
}

/** Checks whether a status is that of the whole: 200, or 203 from a proxy that has transformed it (RFC 9110 §15.3.4). */
export function isWholeStatus(status: number): boolean {
  return status === 200 || status === 203;
}

/**
 * Returns why a 200 or 203 to a request for a part may hold that part instead of the whole; undefined where nothing speaks for it.
 * S3-like stores and encrypting proxies send a part like this, and stored as the whole it would be a truncated file. Without
 * Content-Range, a length that a part of the requested range can have is suspicious, and one that differs from `knownBytes`, the
 * length of the whole as another response has stated it. A range that may reach to the end can have other lengths: that counts only
 * where the origin is not known to ignore ranges (`mayGiveParts`).
 */
export function doubtWhole(
  requested: RangeSpec,
  { status, fields, sizeBytes }: Pick<OriginResponse, 'status' | 'fields' | 'sizeBytes'>,
  knownBytes: number | undefined,
  mayGiveParts: boolean,
): WholeDoubt | undefined {
  if (statesPart(fields, sizeBytes))
    return { isStated: true, reason: `it sent a part with status ${status}`, requested, sizeBytes };
  // The length that a live stream may state is invented.
  if (sizeBytes === undefined || sizeBytes === knownBytes || isLiveStream(fields)) return undefined;
  const isNever = !mayGiveParts || fieldValue(fields, 'accept-ranges')?.toLowerCase() === 'none';
  if (knownBytes === undefined && !canBePart(requested, sizeBytes, isNever)) return undefined;
  const reason = `it sent ${sizeBytes} bytes with status ${status}, which are not the whole`;
  return { isStated: false, reason, requested, sizeBytes };
}

/** Notes what the whole, asked for without Range, has shown of a response that may have been a part. */
export function noteDoubted(
  rangeSupport: Pick<RangeSupport, 'refuse' | 'noteWhole'>,
  { isStated, reason, requested, sizeBytes }: WholeDoubt,
  whole: Pick<OriginResponse, 'status' | 'sizeBytes'>,
): void {
  const isWhole = isWholeStatus(whole.status);
  if (isStated) rangeSupport.refuse(reason, 'disguised');
  else if (isWhole && whole.sizeBytes !== sizeBytes) rangeSupport.refuse(reason, 'odd');
  else if (isWhole && !isWholeRange(requested, sizeBytes)) rangeSupport.noteWhole();
}

/** Whether content of this length can be the part that a range selects in a longer whole. `isNever`: the origin ignores ranges. */
function canBePart(spec: RangeSpec, sizeBytes: number, isNever: boolean): boolean {
  switch (spec.kind) {
    case 'closed': {
      const requestedBytes = spec.last + 1 - spec.first;
      return sizeBytes === requestedBytes || (spec.first > 0 && sizeBytes < requestedBytes && !isNever);
    }
    case 'open':
      return spec.first > 0 && !isNever;
    case 'suffix':
      return sizeBytes === spec.length;
  }
}

/** Returns a 206 that holds the whole as the 200 that it is; any other response unchanged. */
export function asWhole(response: OriginResponse): OriginResponse {
  const { status, fields, sizeBytes } = response;
  return status === 206 && holdsWhole(fields, sizeBytes)
    ? { ...response, status: 200, fields: withoutByteRange(fields) }
    : response;
}

/**
 * Returns a 206 that holds the whole in place of the requested part as the 200 that it is; any other response unchanged. A server
 * that sends the whole as it was asked for shows that it has ranges, so that response stays a 206.
 */
export function wholeInsteadOf(requested: RangeSpec, response: OriginResponse): OriginResponse {
  const range = parseContentRange(fieldValue(response.fields, 'content-range') ?? '');
  return range !== undefined && isWrongPart(requested, range, response.sizeBytes) ? asWhole(response) : response;
}

/** Whether a 206 may begin a generation. `fault`: see `RangeFault`. */
type FirstPartDecision =
  | { readonly kind: 'part'; readonly span: Span; readonly sizeBytes: number }
  | { readonly kind: 'refuse'; readonly fault: Exclude<RangeFault, 'disguised'>; readonly reason: string };

/**
 * Checks whether a 206 does not answer the requested range: it begins elsewhere, or its length is not the one that its
 * Content-Range states. A server may send less than requested, but nothing else (RFC 9110 §15.3.7).
 */
export function isWrongPart(
  requested: RangeSpec,
  { span, sizeBytes }: ContentRange,
  contentBytes: number | undefined,
): boolean {
  if (contentBytes !== undefined && contentBytes !== span.end - span.start) return true;
  if (requested.kind !== 'suffix') return span.start !== requested.first;
  return sizeBytes !== undefined && span.start !== Math.max(0, sizeBytes - requested.length);
}

/** Decides whether a 206 may begin a generation, to which other parts will be added (RFC 9110 §15.3.7.3). */
export function selectFirstPart(
  requested: RangeSpec,
  response: Pick<OriginResponse, 'fields' | 'sizeBytes'>,
  responseAt: number,
  blockSizeBytes: number,
): FirstPartDecision {
  const range = parseContentRange(fieldValue(response.fields, 'content-range') ?? '');
  if (range === undefined)
    return { kind: 'refuse', fault: 'odd', reason: 'it sent a 206 without a valid Content-Range' };
  const { span, sizeBytes } = range;
  if (isCodedAlone(response.fields, response.sizeBytes)) {
    return { kind: 'refuse', fault: 'odd', reason: 'it sent a part that was compressed by itself' };
  }
  if (isWrongPart(requested, range, response.sizeBytes)) {
    return { kind: 'refuse', fault: 'lie', reason: 'it sent another range than was asked for' };
  }
  const isUnnamed = strongValidator({ fields: response.fields, responseAt }, responseAt) === undefined;
  if (sizeBytes === undefined || isUnnamed) {
    return {
      kind: 'refuse',
      fault: 'uncombinable',
      reason: 'a part without a strong validator or the length of the whole',
    };
  }
  if (!holdsBlock(span, sizeBytes, blockSizeBytes)) {
    return { kind: 'refuse', fault: 'odd', reason: 'it sent less than a block of what was asked for' };
  }
  return { kind: 'part', span, sizeBytes };
}

/** Whether a part holds a whole block, or the end of the whole from the start of a block on. */
function holdsBlock(span: Span, sizeBytes: number, blockSizeBytes: number): boolean {
  const first = Math.ceil(span.start / blockSizeBytes) * blockSizeBytes;
  return first < span.end && (span.end === sizeBytes || span.end - first >= blockSizeBytes);
}

function alignDown(offset: number, blockSizeBytes: number): number {
  return Math.floor(offset / blockSizeBytes) * blockSizeBytes;
}
