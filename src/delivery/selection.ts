/** Which part of a representation a request gets, and with which status: decided before any byte is read. */

import type { Span } from '../bytes/span.ts';
import { fieldLines, fieldValue } from '../http/fields.ts';
import type { ProxyRequest } from '../http/message.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { evaluatePreconditions } from '../semantics/precondition.ts';
import { parseRange, type RangeSpec, selectRanges, selectSpan } from '../semantics/range.ts';

/** How ranges are obeyed on a route. */
export interface RangeRules {
  /** More ranges than this in one request are ignored (RFC 9110 §14.2, §17.15). */
  readonly maxRanges: number;
  /** Ranges with a smaller gap between them become one, in bytes. */
  readonly coalesceGapBytes: number;
  /** How long `bytes=0-` waits for a length that is not known yet, in milliseconds. */
  readonly lengthWaitMs: number;
}

/** Spans of a representation of this length, in the order requested. */
export interface PartialSelection {
  readonly kind: 'partial';
  readonly spans: readonly Span[];
  readonly sizeBytes: number;
}

/** What a request gets of a representation. */
export type DecidedSelection =
  | { readonly kind: 'whole' }
  | PartialSelection
  | { readonly kind: 'unsatisfiable'; readonly sizeBytes: number }
  | { readonly kind: 'not-modified' }
  | { readonly kind: 'precondition-failed' };

/** `undecided`: ranges that cannot be resolved as long as the length is not known. */
export type Selection = DecidedSelection | { readonly kind: 'undecided'; readonly specs: readonly RangeSpec[] };

/** The parts of a stored response that a selection depends on. */
export type Selectable = Pick<StoredResponse, 'status' | 'fields' | 'ownEntityTag' | 'responseAt'>;

/** Preconditions first, then the range, in the order of RFC 9110 §13.2.2. `sizeBytes` is undefined while it is not known. */
export function selectDelivery(
  request: Pick<ProxyRequest, 'method' | 'fields'>,
  response: Selectable,
  sizeBytes: number | undefined,
  rules: RangeRules,
  now: number,
): Selection {
  // The conditions of any other method were the origin's to evaluate, before it did what it was asked to.
  if (request.method !== 'GET' && request.method !== 'HEAD') return { kind: 'whole' };
  const outcome = evaluatePreconditions(request, response, now);
  if (outcome.kind !== 'proceed') return outcome;
  const [range, ...more] = fieldLines(request.fields, 'range');
  if (outcome.range === 'ignore' || range === undefined || more.length > 0) return { kind: 'whole' };
  const span = sizeBytes === undefined ? undefined : selectSpan(range, sizeBytes);
  if (span !== undefined && sizeBytes !== undefined) return { kind: 'partial', spans: [span], sizeBytes };
  const parsed = parseRange(range, rules);
  if (parsed.kind === 'ignored') return { kind: 'whole' };
  if (sizeBytes === undefined) return { kind: 'undecided', specs: parsed.specs };
  return selectSpecs(parsed.specs, sizeBytes, rules);
}

/** Resolves ranges against a length. */
export function selectSpecs(specs: readonly RangeSpec[], sizeBytes: number, rules: RangeRules): DecidedSelection {
  const selected = selectRanges(specs, sizeBytes, rules);
  switch (selected.kind) {
    case 'partial':
      return { kind: 'partial', spans: selected.spans, sizeBytes };
    case 'unsatisfiable':
      return { kind: 'unsatisfiable', sizeBytes };
    case 'whole':
      return { kind: 'whole' };
  }
}

/** The Content-Type that each part of a multipart body repeats. */
export function partType(response: Selectable): string | undefined {
  return fieldValue(response.fields, 'content-type');
}
