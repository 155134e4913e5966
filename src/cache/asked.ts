/** What a request asks for: a part or the whole, and on which conditions. */

import { type Fields, fieldLines, withoutFields } from '../http/fields.ts';
import { readRequestDirectives } from '../semantics/cache-control.ts';
import { passedRange } from '../semantics/passed-range.ts';
import { parseRange, type RangeSpec } from '../semantics/range.ts';
import type { Inquiry } from './inquiry.ts';

/** Fields that put conditions on a request (RFC 9110 §13.1). */
const preconditionFields = new Set([
  'if-range',
  'if-match',
  'if-none-match',
  'if-modified-since',
  'if-unmodified-since',
]);

/** Fields that ask for a part of a representation, and the condition of that. */
const rangeFields = new Set(['range', 'if-range']);

/** Fields that ask for a part of a representation or put conditions on it: a fill asks for the whole. */
const selectingFields = new Set(['range', ...preconditionFields]);

/** Whether the client wants a stored response or none (RFC 9111 §5.2.1.7). */
export function isOnlyIfCached({ request, policy }: Pick<Inquiry, 'request' | 'policy'>): boolean {
  return readRequestDirectives(request.fields, policy).onlyIfCached;
}

/** Whether a request is for a head alone: nothing of a body is read for it, and none comes that could be stored. */
export function isHead({ request }: Pick<Inquiry, 'request'>): boolean {
  return request.method === 'HEAD';
}

/** The fields that ask the origin for the whole current representation. */
export function fillFields(originFields: Fields): Fields {
  return withoutFields(originFields, selectingFields);
}

/** The fields of a request that is passed on as it is: no byte is asked for twice. */
export function passedFields(originFields: Fields): Fields {
  const lines = fieldLines(originFields, 'range');
  if (lines.length === 0) return originFields;
  const range = passedRange(lines);
  if (range === undefined) return withoutFields(originFields, rangeFields);
  return originFields.map((field) => (field[0] === 'range' ? ['range', range] : field));
}

/** What of a request asks for a part, or puts conditions on it. */
export function selectingLines(fields: Fields): Fields {
  return fields.filter(([name]) => selectingFields.has(name));
}

/** Whether a request asks for the whole, and on no conditions. */
export function isPlain({ request, originFields }: Pick<Inquiry, 'request' | 'originFields'>): boolean {
  return request.method === 'GET' && selectingLines(originFields).length === 0;
}

/** Whether the client has put conditions on its request. */
export function hasPrecondition({ originFields }: Pick<Inquiry, 'originFields'>): boolean {
  return originFields.some(([name]) => preconditionFields.has(name));
}

/** The ranges that can be obeyed; none for a Range that is ignored, which makes a request a plain one (RFC 9110 §14.2). */
export function rangeSpecs({ request, originFields }: Asking): readonly RangeSpec[] {
  if (request.method !== 'GET') return [];
  const [range, ...more] = fieldLines(originFields, 'range');
  if (range === undefined || more.length > 0) return [];
  const parsed = parseRange(range, { maxRanges: Number.POSITIVE_INFINITY });
  return parsed.kind === 'set' ? parsed.specs : [];
}

/** What of a request its ranges are read from. */
interface Asking extends Pick<Inquiry, 'originFields'> {
  readonly request: Pick<Inquiry['request'], 'method'>;
}

/** Whether what is wanted is one range without an end of its own. */
export function isOpenEnded(inquiry: Asking): boolean {
  const [spec, ...more] = rangeSpecs(inquiry);
  return spec?.kind === 'open' && more.length === 0;
}

/** Whether there is a Range that can be obeyed. */
export function hasRange(inquiry: Pick<Inquiry, 'request' | 'originFields'>): boolean {
  return rangeSpecs(inquiry).length > 0;
}
