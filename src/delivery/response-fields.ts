/** Makes the fields of responses that come from a stored response or are relayed: 200, 206, 304, and responses to HEAD. */

import type { AnswerFacts } from '../cache/answer.ts';
import { memoizeByObject } from '../http/collections.ts';
import { type Field, type Fields, hasField, withField, withoutFields } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { formatCacheStatus } from '../semantics/cache-status.ts';
import { contentDigestFields, withoutDigestsOfContent, withReprDigest } from '../semantics/digest.ts';
import { ageSeconds } from '../semantics/freshness.ts';

/** Fields that are not copied: the listener adds Content-Length, and this file adds Accept-Ranges. */
const replacedFields = new Set(['content-length', 'accept-ranges']);
const fieldsReplacedInReuse = new Set([...replacedFields, 'age']);

/** The fields of a 304 (RFC 9110 §15.4.5). The client has the other fields of the 200. */
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

/** What determines the fields of a response from a representation, besides the stored fields. */
export interface FieldTerms {
  readonly facts: Pick<AnswerFacts, 'status'>;
  /** Whether the origin's Age is replaced. */
  readonly isReuse: boolean;
  readonly isPartial: boolean;
  /** Epoch milliseconds. */
  readonly now: number;
  /** Returns the stored fields that are passed on: see `DeliveryContext`. */
  readonly forward: (fields: Fields) => Fields;
}

/**
 * Returns the fields of a response from a representation, without Content-Range. A 206 has the fields of the 200, except those
 * that describe the content alone. After If-Range this is more than RFC 9110 §15.3.7 asks for. Other servers do the same:
 * caches downstream and content sniffing are safer with these fields.
 */
export function representationFields(response: StoredResponse, terms: FieldTerms): Fields {
  const { facts, isReuse, isPartial, now, forward } = terms;
  const whole = isReuse ? fieldsOfReuse(response) : ownFields(response, replacedFields);
  const fields: Field[] = [...forward(isPartial ? partialFields(whole) : whole)];
  if (isReuse) fields.push(['age', String(ageSeconds(response, now))]);
  fields.push(['cache-status', formatCacheStatus(facts.status)]);
  return fields;
}

/** What determines these fields besides the stored ones: see `DeliveryContext`. */
export interface ReuseFieldTerms {
  readonly forward: (fields: Fields) => Fields;
  readonly sendsDigest: boolean;
}

/** The responses that reuse a stored one: 200, 206 with one part, 206 with several (without its Content-Type), 200 to HEAD, 304. */
export type ReuseKind = 'whole' | 'partial' | 'multipart' | 'head' | 'notModified';

/** Makes the fields of the responses of one kind that reuse a stored response, without Age, Cache-Status and Content-Range. */
export function reuseFields(
  response: StoredResponse,
  kind: ReuseKind,
  { forward, sendsDigest }: ReuseFieldTerms,
): Fields {
  const { bodyDigest } = response;
  const reused = ownFields(response, fieldsReplacedInReuse);
  const isPartial = kind === 'partial' || kind === 'multipart';
  const forwarded = forward(isPartial ? partialFields(reused) : reused);
  const fields = sendsDigest && bodyDigest !== undefined ? withReprDigest(forwarded, bodyDigest) : forwarded;
  switch (kind) {
    case 'whole':
    case 'partial':
      return fields;
    case 'multipart':
      return withoutFields(fields, contentTypeOnly);
    case 'head':
      return headFields(fields);
    case 'notModified':
      return selectNotModifiedFields(fields);
  }
}

const contentTypeOnly = new Set(['content-type']);

/** The fields of all responses that reuse a stored one: the same array each time. */
const fieldsOfReuse = memoizeByObject((response: StoredResponse) => ownFields(response, fieldsReplacedInReuse));

function ownFields(response: StoredResponse, replaced: ReadonlySet<string>): Fields {
  let fields = withoutFields(response.fields, replaced);
  if (response.ownEntityTag !== undefined) fields = withField(fields, 'etag', response.ownEntityTag);
  return response.status === 200 ? [...fields, ['accept-ranges', 'bytes']] : fields;
}

/** Fields that describe the content of a 200; Content-Range has no meaning in a 200 (RFC 9110 §14.4). */
const fieldsOfWhole = new Set(['content-range']);

/**
 * Picks the fields of a 206 from those of the 200, without Content-Range; returns the same array for the same fields.
 * Repr-Digest covers the whole in both (RFC 9530 §3), also where the content is multipart/byteranges.
 */
export const partialFields = memoizeByObject(
  (fields: Fields): Fields => withoutFields(withoutDigestsOfContent(fields), fieldsOfWhole),
);

/**
 * Picks the fields of a response to HEAD from those of the response to GET. It has no content, and a digest of its content
 * would be that of empty content (RFC 9530 Appendix B.2).
 */
export function headFields(fields: Fields): Fields {
  return withoutFields(fields, contentDigestFields);
}

/** Picks the fields of a 304 from those of the 200. Last-Modified only where there is no entity tag. */
export function selectNotModifiedFields(fields: Fields): Fields {
  const hasTag = hasField(fields, 'etag');
  return fields.filter(([name]) => notModifiedFields.has(name) || (name === 'last-modified' && !hasTag));
}
