/** The Content-Range field: which bytes of which whole a message carries (RFC 9110 §14.4). */

import type { Span } from '../bytes/span.ts';

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
