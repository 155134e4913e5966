/** The fields of a response that is made from a stored or relayed one. */

import type { AnswerFacts } from '../cache/answer.ts';
import { type Fields, hasField, withField, withoutFields } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { formatCacheStatus, withCacheStatus } from '../semantics/cache-status.ts';
import { contentDigestFields } from '../semantics/digest.ts';
import { ageSeconds } from '../semantics/freshness.ts';

/** Framing is the listener's, and Accept-Ranges is ours to say. */
const replacedFields = new Set(['content-length', 'accept-ranges']);

/** What a 304 carries (RFC 9110 §15.4.5): what a 200 would, of these only, for the client has the rest. */
const notModifiedFields = new Set([
  'age',
  'cache-control',
  'cache-status',
  'content-location',
  'date',
  'etag',
  'expires',
  'vary',
  'via',
]);

/**
 * The fields of a 200 or any other status from a representation. A 206 carries the same ones: more than RFC 9110 §15.3.7
 * asks for after If-Range, as other servers do, since caches downstream and content sniffing are safer with them.
 */
export function representationFields(
  response: StoredResponse,
  facts: Pick<AnswerFacts, 'status'>,
  isReuse: boolean,
  now: number,
): Fields {
  let fields = withoutFields(response.fields, replacedFields);
  if (response.ownEntityTag !== undefined) fields = withField(fields, 'etag', response.ownEntityTag);
  if (response.status === 200) fields = [...fields, ['accept-ranges', 'bytes']];
  if (isReuse) fields = withField(fields, 'age', String(ageSeconds(response, now)));
  return withCacheStatus(fields, formatCacheStatus(facts.status));
}

/** What an origin says of the content of a 200; its Content-Range there means nothing (RFC 9110 §14.4). */
const fieldsOfWhole = new Set([...contentDigestFields, 'content-range']);

/**
 * The fields of a 206, of those that a 200 would carry; without Content-Range. Repr-Digest is of the whole in both
 * (RFC 9530 §3), also where the content is multipart/byteranges.
 */
export function partialFields(fields: Fields): Fields {
  return withoutFields(fields, fieldsOfWhole);
}

/**
 * The fields of a response to HEAD, of those that GET would get. It has no content, and a digest of its content would be
 * that of nothing (RFC 9530 Appendix B.2).
 */
export function headFields(fields: Fields): Fields {
  return withoutFields(fields, contentDigestFields);
}

/** The fields of a 304, of those that a 200 would carry. Last-Modified only where there is no entity tag. */
export function selectNotModifiedFields(fields: Fields): Fields {
  const hasTag = hasField(fields, 'etag');
  return fields.filter(([name]) => notModifiedFields.has(name) || (name === 'last-modified' && !hasTag));
}
