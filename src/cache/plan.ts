/** Which stored entry serves a request, and what has to be asked of the origin: decided from metadata alone. */

import type { Fields } from '../http/fields.ts';
import { fieldLines, withoutFields } from '../http/fields.ts';
import { parseRange } from '../semantics/range.ts';
import { decideReuse } from '../semantics/reuse.ts';
import { matchesNominated } from '../semantics/vary.ts';
import type { StoredEntry } from '../store/store.ts';
import type { Inquiry } from './inquiry.ts';

/** What is to be done for a request. */
export type Plan =
  /** The entry may be used as it is. */
  | { readonly kind: 'hit'; readonly entry: StoredEntry; readonly ttlMs: number }
  /** The entry has to be validated, or fetched anew where it has no validator. */
  | {
      readonly kind: 'revalidate';
      readonly entry: StoredEntry;
      readonly reason: 'stale' | 'request';
      readonly mayServeStale: boolean;
    }
  /** Nothing stored matches. */
  | { readonly kind: 'fill'; readonly reason: 'uri-miss' | 'vary-miss' };

/** Fields that ask for a part of a representation or put conditions on it: a fill asks for the whole. */
const selectingFields = new Set([
  'range',
  'if-range',
  'if-match',
  'if-none-match',
  'if-modified-since',
  'if-unmodified-since',
]);

/** The fields that ask the origin for the whole current representation. */
export function fillFields(originFields: Fields): Fields {
  return withoutFields(originFields, selectingFields);
}

/** Whether there is a Range that can be obeyed; one that is ignored makes a request a plain one (RFC 9110 §14.2). */
export function hasRange({ request, originFields }: Pick<Inquiry, 'request' | 'originFields'>): boolean {
  if (request.method !== 'GET') return false;
  const [range, ...more] = fieldLines(originFields, 'range');
  if (range === undefined || more.length > 0) return false;
  return parseRange(range, { maxRanges: Number.POSITIVE_INFINITY }).kind === 'set';
}

/** Decides from the stored entries of a key (the newest first) and the request that the origin would be sent. */
export function planAnswer(
  entries: readonly StoredEntry[],
  inquiry: Pick<Inquiry, 'request' | 'originFields' | 'policy'>,
  now: number,
): Plan {
  const { originFields, policy } = inquiry;
  const asked = fillFields(originFields);
  const entry = entries.find(({ isComplete, metadata }) => isComplete && matchesNominated(metadata.nominated, asked));
  if (entry === undefined) return { kind: 'fill', reason: entries.length === 0 ? 'uri-miss' : 'vary-miss' };
  const reuse = decideReuse({
    requestFields: originFields,
    hasRange: hasRange(inquiry),
    stored: entry.metadata,
    now,
    policy,
  });
  if (reuse.kind !== 'validate') return { kind: 'hit', entry, ttlMs: reuse.ttlMs };
  const reason = reuse.reason === 'request' ? 'request' : 'stale';
  return { kind: 'revalidate', entry, reason, mayServeStale: reuse.mayServeStale };
}
