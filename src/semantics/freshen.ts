/**
 * Merges the fields of a 304 into a stored response (RFC 9111 §3.2, §4.3.4), and decides whether a response to HEAD freshens or
 * invalidates a stored response to GET (§4.3.5).
 */

import { type Fields, fieldLines, fieldValue, hasField, withoutFields } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import type { ControlPolicy } from './cache-control.ts';
import { isDigestOfContent } from './digest.ts';
import { parseHttpDate } from './http-date.ts';
import { withoutConnectionFields } from './message-forwarding.ts';
import { type KeepingPolicy, storableFields } from './storing.ts';
import { type EntityTag, parseEntityTag, strongMatch, weakMatch } from './validator.ts';
import { varyNames } from './vary.ts';

/**
 * Fields that describe the stored bytes. A 304 has no content and cannot correct them (RFC 9111 §3.2); its Content-Digest, if
 * any, covers empty content. Content-Type and the other Content-* fields are updated like any field.
 */
const fieldsOfTheBytes: ReadonlySet<string> = new Set([
  'content-encoding',
  'content-length',
  'content-range',
  'repr-digest',
]);

function isOfTheBytes(name: string): boolean {
  return fieldsOfTheBytes.has(name) || isDigestOfContent(name);
}

/** Fields of a 304 that say that a stored response is current, and for how long. They are the same for every client. */
const fieldsOfValidity: ReadonlySet<string> = new Set([
  'age',
  'cache-control',
  'date',
  'etag',
  'expires',
  'last-modified',
  'vary',
]);

/** Picks the fields of a 304 that say that the stored response is current, and for how long. */
export function validityFields(notModified: Fields, { targetedFields }: ControlPolicy): Fields {
  return notModified.filter(([name]) => fieldsOfValidity.has(name) || targetedFields.includes(name));
}

/** Picks the end-to-end fields of a 304 that concern neither validity nor the stored bytes. */
export function fieldsBesidesValidity(notModified: Fields, { targetedFields }: ControlPolicy): Fields {
  return withoutConnectionFields(notModified).filter(
    ([name]) => !fieldsOfValidity.has(name) && !targetedFields.includes(name) && !isOfTheBytes(name),
  );
}

/**
 * Checks whether a 304 that answered a validation of this stored response may freshen it (RFC 9111 §4.3.4). It may not when
 * - its strong entity tag is not the stored one, or its weak tag does not even match weakly;
 * - it has no entity tag, and its Last-Modified differs from the stored one (an older file was put back);
 * - its Vary names other fields than the stored one: the variant would change its name, but not its bytes.
 *
 * A 304 without any validator is taken to confirm the only response that was validated; old origins send such 304s. A malformed
 * tag counts as none. A 304 that may not freshen is useless: the representation has to be fetched without conditions.
 */
export function mayFreshen(stored: StoredResponse, notModified: Fields): boolean {
  if (hasField(notModified, 'vary') && !namesSameFields(stored, notModified)) return false;
  const entityTag = entityTagOf(notModified);
  if (entityTag !== undefined) return hasMatchingTag(stored, entityTag);
  const lastModified = fieldValue(notModified, 'last-modified');
  const storedLastModified = fieldValue(stored.fields, 'last-modified');
  if (lastModified === undefined || storedLastModified === undefined) return true;
  return lastModified === storedLastModified || isSameDate(lastModified, storedLastModified, stored.responseAt);
}

/**
 * Checks whether a 304 that answered the validation of another stored response is also about this one, which could have been
 * selected for the same request. Only a strong entity tag shows that, because it identifies the representation
 * (RFC 9111 §4.3.4).
 */
export function isConfirmedByTag(stored: StoredResponse, notModified: Fields): boolean {
  return entityTagOf(notModified)?.kind === 'strong' && mayFreshen(stored, notModified);
}

function namesSameFields(stored: StoredResponse, notModified: Fields): boolean {
  return varyNames(notModified).join() === varyNames(stored.fields).join();
}

function hasMatchingTag(stored: StoredResponse, theirs: EntityTag): boolean {
  const ours = entityTagOf(stored.fields);
  if (ours === undefined) return false;
  return theirs.kind === 'weak' ? weakMatch(theirs, ours) : strongMatch(theirs, ours);
}

function entityTagOf(fields: Fields): EntityTag | undefined {
  return parseEntityTag(fieldValue(fields, 'etag') ?? '');
}

function isSameDate(a: string, b: string, now: number): boolean {
  const instant = parseHttpDate(a, now);
  return instant !== undefined && instant === parseHttpDate(b, now);
}

/**
 * Returns the stored fields, with the lines of the 304 in place of stored lines of the same name; fields that only the 304 has
 * are added (RFC 9111 §3.2). The fields that describe the bytes stay. A stored entity tag stays too: the tag of a 304 that may
 * freshen is the same or its weak form. The stored Date and Age are always dropped, because they describe an older exchange.
 * Fields that the merged Cache-Control excludes from storage are dropped. `responseAt` is when the 304 arrived, in epoch
 * milliseconds.
 */
export function freshenFields(stored: Fields, notModified: Fields, responseAt: number, policy: KeepingPolicy): Fields {
  const fresh = storableFields(notModified, responseAt, policy).filter(
    ([name]) => !isOfTheBytes(name) && !(name === 'etag' && hasField(stored, 'etag')),
  );
  const replaced = new Set(fresh.map(([name]) => name)).add('age');
  return storableFields([...withoutFields(stored, replaced), ...fresh], responseAt, policy);
}

/**
 * Returns a stored response freshened by a 304 or by the head of a newer 200. Its age counts from that exchange. It is valid
 * again, unless it was expired at or after `requestAt`. Call `mayFreshen` before, and `decideStoring` on the result: the 304
 * may have brought `no-store` or `private`. Times are in epoch milliseconds.
 */
export function freshened(
  { isInvalid: _isInvalid, expiredAt, ...stored }: StoredResponse,
  newer: { readonly fields: Fields },
  requestAt: number,
  responseAt: number,
  policy: KeepingPolicy,
): StoredResponse {
  const fields = freshenFields(stored.fields, newer.fields, responseAt, policy);
  const isStillExpired = expiredAt !== undefined && requestAt <= expiredAt;
  return { ...stored, fields, requestAt, responseAt, ...(isStillExpired ? { expiredAt } : {}) };
}

/** `freshen`: the stored response is current and takes these fields. `invalidate`: it is not current. `none`: the HEAD shows neither. */
type HeadEffect = 'freshen' | 'invalidate' | 'none';

const validators = ['etag', 'last-modified'] as const;

/**
 * Decides what a 200 to HEAD means for a stored response that could have been selected for that request. The stored response is
 * current as long as no received validator, no Content-Length and no name in Vary differs. A stored response of another status,
 * unless it is a fragment, is not current. Without a validator and a Content-Length there is nothing to compare: the fields of the
 * HEAD may be those of another version. A stored response that was expired, or is known to be outdated, becomes valid again by a
 * validator only: an equal length proves nothing about its bytes. `sizeBytes` is the length of the stored body.
 */
export function decideHeadEffect(stored: StoredResponse, sizeBytes: number, head: Fields): HeadEffect {
  const { status, fields, fragment, isInvalid, expiredAt } = stored;
  const isSuccess = status === 200 || fragment !== undefined;
  const isSameVersion = validators.every((name) => {
    const received = fieldValue(head, name);
    return received === undefined || received === fieldValue(fields, name);
  });
  const wholeBytes = String(fragment?.wholeBytes ?? sizeBytes);
  const isSameLength = fieldLines(head, 'content-length').every((length) => length === wholeBytes);
  if (!isSuccess || !isSameVersion || !isSameLength || !mayFreshen(stored, head)) return 'invalidate';
  if (validators.some((name) => hasField(head, name))) return 'freshen';
  const isEnded = isInvalid === true || expiredAt !== undefined;
  return isEnded || !hasField(head, 'content-length') ? 'none' : 'freshen';
}
