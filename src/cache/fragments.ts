/**
 * Parts that cannot be combined with others, for want of a strong validator or of a whole block: each is kept as it came,
 * and answers requests for what lies inside of it (RFC 9111 §3.3).
 */

import type { Span } from '../bytes/span.ts';
import { withField, withoutFields } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { formatContentRange } from '../semantics/content-range.ts';
import { contentDigestFields } from '../semantics/digest.ts';
import { formatRange, type RangeSpec, selectRanges } from '../semantics/range.ts';
import { decideReuse } from '../semantics/reuse.ts';
import type { StoredEntry } from '../store/store.ts';
import { hasPrecondition, rangeSpecs } from './asked.ts';
import type { Asker } from './asker.ts';
import type { Inquiry } from './inquiry.ts';
import type { ByteReader, Representation } from './representation.ts';

/** A fragment that answers a request. */
export interface FoundFragment {
  readonly entry: StoredEntry;
  /** The bytes to send, as offsets in the whole; undefined for the response as it came. */
  readonly span: Span | undefined;
  readonly ttlMs: number;
}

/** Whether a stored response is a part that stands by itself. */
export function isFragment({ fragment }: StoredResponse): boolean {
  return fragment !== undefined;
}

/**
 * The fragment that answers a request: one that the same Range has led to, or one that holds the first byte of the range.
 * Where that one ends earlier, so does the answer: a 206 tells what it holds (RFC 9110 §15.3.7). Only while it is fresh,
 * and without conditions: there is nothing to evaluate them against.
 */
export function findFragment(
  entries: readonly StoredEntry[],
  inquiry: Pick<Inquiry, 'request' | 'originFields' | 'policy'>,
  now: number,
  asker: Asker,
): FoundFragment | undefined {
  if (!entries.some(({ metadata }) => isFragment(metadata)) || hasPrecondition(inquiry)) return undefined;
  const { originFields, policy } = inquiry;
  const specs = rangeSpecs(inquiry);
  if (specs.length !== 1) return undefined;
  for (const entry of entries) {
    const { metadata } = entry;
    if (!entry.isComplete || !asker.isFor(metadata)) continue;
    const span = spanWithin(entry, specs);
    if (span === undefined) continue;
    const reuse = decideReuse({ requestFields: originFields, hasRange: true, stored: metadata, now, policy });
    if (reuse.kind === 'fresh') return { entry, span: span === 'all' ? undefined : span, ttlMs: reuse.ttlMs };
  }
  return undefined;
}

/** What of a fragment answers the request; undefined where nothing does, or it is no fragment. */
function spanWithin(
  { metadata: { fragment }, sizeBytes }: StoredEntry,
  specs: readonly RangeSpec[],
): Span | 'all' | undefined {
  if (fragment === undefined) return undefined;
  if (formatRange(specs) === fragment.range) return 'all';
  const selected = selectRanges(specs, fragment.wholeBytes, { coalesceGapBytes: 0 });
  const [wanted] = selected.kind === 'partial' ? selected.spans : [];
  const end = fragment.start + sizeBytes;
  if (wanted === undefined || wanted.start < fragment.start || wanted.start >= end) return undefined;
  return { start: wanted.start, end: Math.min(wanted.end, end) };
}

/** Fields of the part that are not those of a part of it. */
const fieldsOfFragment = new Set(['content-length', 'content-range', ...contentDigestFields]);

/** Presents a part of a fragment as a 206 of its own, or the fragment as it came; `stored` is the fragment. */
export function presentWithin(stored: Representation, span: Span | undefined): Representation {
  const { response } = stored;
  const { fragment } = response;
  if (fragment === undefined || span === undefined) return stored;
  const shift = span.start - fragment.start;
  const sizeBytes = span.end - span.start;
  const contentRange = formatContentRange(span, fragment.wholeBytes);
  return {
    response: {
      ...response,
      fields: withField(withoutFields(response.fields, fieldsOfFragment), 'content-range', contentRange),
    },
    sizeBytes,
    peek: (offset, end) => stored.peek(offset + shift, end + shift),
    open: async (spans, signal) => {
      const moved = spans.map(({ start, end }) => ({ start: start + shift, end: Math.min(end, sizeBytes) + shift }));
      return shifted(await stored.open(moved, signal), shift);
    },
    whenPresent: async () => true,
    close: () => stored.close(),
  };
}

function shifted(reader: ByteReader, shift: number): ByteReader {
  return {
    peek: (offset, end) => reader.peek(offset + shift, end + shift),
    read: (offset, end) => reader.read(offset + shift, end + shift),
    close: () => reader.close(),
  };
}
