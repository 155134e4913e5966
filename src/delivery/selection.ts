/**
 * Selects which part of a representation a request gets, and with which status, before any byte is read: preconditions first,
 * then ranges (RFC 9110 §13.2.2, §14.2). Several ranges become multipart/byteranges where that costs less than the whole.
 */

import type { Span } from '../bytes/span.ts';
import type { Clock } from '../http/clock.ts';
import { onceForEach } from '../http/collections.ts';
import { type Fields, fieldLines, fieldValue } from '../http/fields.ts';
import type { ProxyRequest } from '../http/message.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { evaluatePreconditions } from '../semantics/precondition.ts';
import {
  type ByterangesFraming,
  createBoundary,
  frameByteranges,
  parseRange,
  type RangeSpec,
  selectRanges,
  selectSpan,
} from '../semantics/range.ts';

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
type Selectable = Pick<StoredResponse, 'status' | 'fields' | 'ownEntityTag' | 'responseAt'>;

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
function partType(response: Selectable): string | undefined {
  return fieldValue(response.fields, 'content-type');
}

/** The rules of the route, and what is passed in. */
export interface DeliveryContext {
  readonly rules: RangeRules;
  /** Whether responses state the digest of the whole representation where it is known (RFC 9530 §3). */
  readonly sendsDigest: boolean;
  /** What is passed on of the fields of a stored response; the same array for the same one, which must not change. */
  readonly forward: (fields: Fields) => Fields;
  readonly clock: Clock;
  /** Random bytes, for boundaries. */
  readonly random: (size: number) => Uint8Array;
}

/** What of a route decides how its responses are delivered. */
interface DeliveryRules {
  readonly ranges: Pick<RangeRules, 'maxRanges' | 'coalesceGapBytes'>;
  readonly lengthWaitMs: number;
  readonly cache: { readonly digest: boolean };
}

/** The context of each route, made once. */
export function createDeliveryContexts(
  parts: Omit<DeliveryContext, 'rules' | 'sendsDigest'>,
): (route: DeliveryRules) => DeliveryContext {
  return onceForEach(({ ranges, lengthWaitMs, cache }: DeliveryRules) => {
    return { ...parts, rules: { ...ranges, lengthWaitMs }, sendsDigest: cache.digest };
  });
}

/** A multipart body may cost this much more than the whole before the whole is sent instead, in bytes. */
const MAX_MULTIPART_EXCESS_BYTES = 4096;

/** Frames the spans of a response; undefined where the whole is to be sent. `random` gives random bytes. */
export function frameParts(
  { spans, sizeBytes }: PartialSelection,
  response: Selectable,
  random: (size: number) => Uint8Array,
): ByterangesFraming | undefined {
  const framing = frameByteranges(spans, { sizeBytes, contentType: partType(response) }, createBoundary(random));
  return framing.sizeBytes > sizeBytes + MAX_MULTIPART_EXCESS_BYTES ? undefined : framing;
}
