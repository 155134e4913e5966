/** The fields of a response that is made from a stored or relayed one. */

import type { AnswerFacts } from '../cache/answer.ts';
import { type Fields, hasField, withField, withoutFields } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { formatCacheStatus, withCacheStatus } from '../semantics/cache-status.ts';
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
  if (response.ownEntityTag !== undefined) fields = [...fields, ['etag', response.ownEntityTag]];
  if (response.status === 200) fields = [...fields, ['accept-ranges', 'bytes']];
  if (isReuse) fields = withField(fields, 'age', String(ageSeconds(response, now)));
  return withCacheStatus(fields, formatCacheStatus(facts.status));
}

/** Digests of the content of a message (RFC 9530 §2, RFC 1864): those of a 200 are not those of a part. */
const contentDigests = new Set(['content-digest', 'content-md5']);

/** The fields of a 206, of those that a 200 would carry; without Content-Range. */
export function partialFields(fields: Fields): Fields {
  return withoutFields(fields, contentDigests);
}

/** The fields of a 304, of those that a 200 would carry. Last-Modified only where there is no entity tag. */
export function selectNotModifiedFields(fields: Fields): Fields {
  const hasTag = hasField(fields, 'etag');
  return fields.filter(([name]) => notModifiedFields.has(name) || (name === 'last-modified' && !hasTag));
}
