/**
 * Selects which part of a representation a request gets, and with which status, before any byte is read: preconditions first,
 * then ranges (RFC 9110 §13.2.2, §14.2). Several ranges become multipart/byteranges, unless that costs much more than the
 * whole.
 */

import type { Span } from '../bytes/span.ts';
import type { Clock } from '../http/clock.ts';
import { memoizeByObject } from '../http/collections.ts';
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

/** The rules for ranges on a route. */
export interface RangeRules {
  /** More ranges than this in one request are ignored (RFC 9110 §14.2, §17.15). */
  readonly maxRanges: number;
  /** Ranges with a smaller gap than this between them are joined, in bytes. */
  readonly coalesceGapBytes: number;
  /** How long `bytes=0-` waits for an unknown length, in milliseconds. */
  readonly lengthWaitMs: number;
}

/** Spans of a representation of this length, in the order requested. */
export interface PartialSelection {
  readonly kind: 'partial';
  readonly spans: readonly Span[];
  readonly sizeBytes: number;
}

/** The part of a representation that a request gets. */
export type DecidedSelection =
  | { readonly kind: 'whole' }
  | PartialSelection
  | { readonly kind: 'unsatisfiable'; readonly sizeBytes: number }
  | { readonly kind: 'not-modified' }
  | { readonly kind: 'precondition-failed' };

/** `undecided`: ranges that cannot be resolved while the length is unknown. */
export type Selection = DecidedSelection | { readonly kind: 'undecided'; readonly specs: readonly RangeSpec[] };

/** The parts of a stored response that a selection and its parts depend on. */
export type Selectable = Pick<StoredResponse, 'status' | 'fields' | 'ownEntityTag' | 'responseAt'>;

/** The fields among these parts. */
const selectableFields: ReadonlySet<string> = new Set(['etag', 'last-modified', 'date', 'content-type']);

/** Picks the parts that a selection depends on, to keep them in memory without the rest of the response. */
export function pickSelectable({ status, fields, ownEntityTag, responseAt }: StoredResponse): Selectable {
  const parts = { status, fields: fields.filter(([name]) => selectableFields.has(name)), responseAt };
  return ownEntityTag === undefined ? parts : { ...parts, ownEntityTag };
}

/**
 * Evaluates preconditions, then the range, in the order of RFC 9110 §13.2.2. `sizeBytes` is undefined while it is unknown.
 * `now` is in epoch milliseconds.
 */
export function selectDelivery(
  request: Pick<ProxyRequest, 'method' | 'fields'>,
  response: Selectable,
  sizeBytes: number | undefined,
  rules: RangeRules,
  now: number,
): Selection {
  // The origin evaluates the preconditions of any other method, before it acts on the request.
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

/** Resolves ranges against a known length. */
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

/** The delivery rules of a route, and the dependencies of delivery. */
export interface DeliveryContext {
  readonly rules: RangeRules;
  /** Whether responses state the digest of the whole representation where it is known (RFC 9530 §3). */
  readonly sendsDigest: boolean;
  /** Returns the stored fields that are passed on: the same array for the same fields. The array must not be changed. */
  readonly forward: (fields: Fields) => Fields;
  readonly clock: Clock;
  /** Random bytes, for boundaries. */
  readonly random: (size: number) => Uint8Array;
}

/** The options of a route that decide how its responses are delivered. */
interface DeliveryRules {
  readonly ranges: Pick<RangeRules, 'maxRanges' | 'coalesceGapBytes'>;
  readonly lengthWaitMs: number;
  readonly cache: { readonly digest: boolean };
}

/** Creates the delivery context of each route, once. */
export function createDeliveryContexts(
  parts: Omit<DeliveryContext, 'rules' | 'sendsDigest'>,
): (route: DeliveryRules) => DeliveryContext {
  return memoizeByObject(({ ranges, lengthWaitMs, cache }: DeliveryRules) => {
    return { ...parts, rules: { ...ranges, lengthWaitMs }, sendsDigest: cache.digest };
  });
}

/** Bytes by which a multipart body may exceed the whole; beyond that, the whole is sent instead. */
const MAX_MULTIPART_EXCESS_BYTES = 4096;

/** Frames the spans of a response; undefined where the whole is to be sent. `random` returns random bytes. */
export function frameParts(
  { spans, sizeBytes }: PartialSelection,
  response: Selectable,
  random: (size: number) => Uint8Array,
): ByterangesFraming | undefined {
  const framing = frameByteranges(spans, { sizeBytes, contentType: partType(response) }, createBoundary(random));
  return framing.sizeBytes > sizeBytes + MAX_MULTIPART_EXCESS_BYTES ? undefined : framing;
}
