/** What the origin is asked for when nothing is known of a representation but the range that a client wants. */

import type { Span } from '../bytes/span.ts';
import { fieldValue } from '../http/fields.ts';
import type { OriginResponse } from '../origin/origin.ts';
import { type ContentRange, parseContentRange } from '../semantics/content-range.ts';
import type { RangeSpec } from '../semantics/range.ts';
import { strongValidator } from '../semantics/validator.ts';
import type { FillPolicy } from './fill-policy.ts';

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
export type FirstPart =
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
): FirstPart {
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
