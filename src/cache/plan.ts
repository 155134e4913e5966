/** Which stored entry serves a request, and what has to be asked of the origin: decided from metadata alone. */

import type { Fields } from '../http/fields.ts';
import { fieldLines, hasField, withoutFields } from '../http/fields.ts';
import { meetsBypass } from '../semantics/bypass.ts';
import { readRequestDirectives } from '../semantics/cache-control.ts';
import { evaluatePreconditions } from '../semantics/precondition.ts';
import { parseRange, type RangeSpec } from '../semantics/range.ts';
import { decideReuse } from '../semantics/reuse.ts';
import { strongValidator } from '../semantics/validator.ts';
import { comparePreference, matchesVariant } from '../semantics/variant.ts';
import type { StoredEntry } from '../store/store.ts';
import type { Inquiry } from './inquiry.ts';

/** What is to be done for a request. */
export type Plan =
  /** The entry may be used as it is, and is to be validated meanwhile where `isValidated` says so (RFC 5861 §3). */
  | { readonly kind: 'hit'; readonly entry: StoredEntry; readonly ttlMs: number; readonly isValidated: boolean }
  /** The entry has to be validated, or fetched anew where it has no validator. */
  | {
      readonly kind: 'revalidate';
      readonly entry: StoredEntry;
      readonly reason: 'stale' | 'request';
      /** Until when it may be served all the same if the origin fails, in epoch milliseconds; 0 for never. */
      readonly serveStaleUntil: number;
    }
  /** Nothing stored matches. */
  | { readonly kind: 'fill'; readonly reason: 'uri-miss' | 'vary-miss' };

/** Fields that put conditions on a request (RFC 9110 §13.1). */
const preconditionFields = new Set([
  'if-range',
  'if-match',
  'if-none-match',
  'if-modified-since',
  'if-unmodified-since',
]);

/** Why a request is not for the cache; undefined where it is. */
export function decideBypass({
  request,
  policy,
}: Pick<Inquiry, 'request' | 'policy'>): 'method' | 'bypass' | 'request' | undefined {
  if (!policy.isEnabled || meetsBypass(request, policy.bypass)) return 'bypass';
  if (request.method !== 'GET' && request.method !== 'HEAD') return 'method';
  if (request.body !== undefined) return 'bypass';
  return readRequestDirectives(request.fields, policy).noStore ? 'request' : undefined;
}

/** Fields that ask for a part of a representation or put conditions on it: a fill asks for the whole. */
const selectingFields = new Set(['range', ...preconditionFields]);

/** The fields that ask the origin for the whole current representation. */
export function fillFields(originFields: Fields): Fields {
  return withoutFields(originFields, selectingFields);
}

/** Whether the client has put conditions on its request. */
export function hasPrecondition({ originFields }: Pick<Inquiry, 'originFields'>): boolean {
  return originFields.some(([name]) => preconditionFields.has(name));
}

/** The ranges that can be obeyed; none for a Range that is ignored, which makes a request a plain one (RFC 9110 §14.2). */
export function rangeSpecs({ request, originFields }: Pick<Inquiry, 'request' | 'originFields'>): readonly RangeSpec[] {
  if (request.method !== 'GET') return [];
  const [range, ...more] = fieldLines(originFields, 'range');
  if (range === undefined || more.length > 0) return [];
  const parsed = parseRange(range, { maxRanges: Number.POSITIVE_INFINITY });
  return parsed.kind === 'set' ? parsed.specs : [];
}

/** Whether there is a Range that can be obeyed. */
export function hasRange(inquiry: Pick<Inquiry, 'request' | 'originFields'>): boolean {
  return rangeSpecs(inquiry).length > 0;
}

/** Decides from the stored entries of a key (the newest first) and the request that the origin would be sent. */
export function planAnswer(
  entries: readonly StoredEntry[],
  inquiry: Pick<Inquiry, 'request' | 'originFields' | 'policy'>,
  now: number,
): Plan {
  const { originFields, policy } = inquiry;
  const asked = fillFields(originFields);
  const matching = entries.filter(({ metadata }) => matchesVariant(metadata, asked, policy.key));
  const reuseOf = ({ metadata }: StoredEntry) =>
    decideReuse({ requestFields: originFields, hasRange: hasRange(inquiry), stored: metadata, now, policy });
  for (const pinned of matching.filter((candidate) => isResumed(candidate, inquiry, now))) {
    // It is stale by nature: of no use where the response or the client forbids that.
    const reuse = reuseOf(pinned);
    const mayUse = reuse.kind !== 'validate' || (reuse.reason === 'stale' && reuse.serveStaleUntil > 0);
    if (mayUse) return { kind: 'hit', entry: pinned, ttlMs: reuse.ttlMs, isValidated: false };
  }
  const usable = matching.filter((candidate) => candidate.pinnedUntil === undefined && isUsable(candidate, now));
  const entry = usable.length < 2 ? usable[0] : usable.sort((a, b) => comparePreference(a.metadata, b.metadata))[0];
  if (entry === undefined) {
    const isKnown = entries.some(({ pinnedUntil }) => pinnedUntil === undefined);
    return { kind: 'fill', reason: isKnown ? 'vary-miss' : 'uri-miss' };
  }
  const reuse = reuseOf(entry);
  if (reuse.kind !== 'validate') {
    return { kind: 'hit', entry, ttlMs: reuse.ttlMs, isValidated: reuse.kind === 'stale' && reuse.isValidated };
  }
  const reason = reuse.reason === 'request' ? 'request' : 'stale';
  return { kind: 'revalidate', entry, reason, serveStaleUntil: reuse.serveStaleUntil };
}

/** Whether the request goes on with a pinned generation: by If-Range (RFC 9110 §13.1.5) or If-Match (§13.1.1). */
function isResumed(
  { pinnedUntil, isComplete, metadata }: StoredEntry,
  { request, originFields }: Pick<Inquiry, 'request' | 'originFields'>,
  now: number,
): boolean {
  if (pinnedUntil === undefined || !isComplete) return false;
  const hasIfRange = hasField(originFields, 'if-range');
  if (!hasIfRange && !hasField(originFields, 'if-match')) return false;
  const outcome = evaluatePreconditions({ method: request.method, fields: originFields }, metadata, now);
  return outcome.kind === 'proceed' && (outcome.range === 'apply' || !hasIfRange);
}

/** Whether an entry is of use: without a strong validator nothing can be added to what is there in part (RFC 9110 §15.3.7.3). */
export function isUsable({ isComplete, metadata }: Pick<StoredEntry, 'isComplete' | 'metadata'>, now: number): boolean {
  return isComplete || strongValidator(metadata, now) !== undefined;
}
