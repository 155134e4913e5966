/**
 * Merges the fields of a 304 into a stored response (RFC 9111 §3.2, §4.3.4), and decides what the response to a HEAD says of a stored
 * response to a GET (§4.3.5).
 */

import { type Fields, fieldLines, fieldValue, hasField, withoutFields } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import type { ControlPolicy } from './cache-control.ts';
import { contentDigestFields } from './digest.ts';
import { parseHttpDate } from './http-date.ts';
import { withoutConnectionFields } from './message-forwarding.ts';
import { type KeepingPolicy, storableFields } from './storing.ts';
import { type EntityTag, parseEntityTag, strongMatch, weakMatch } from './validator.ts';
import { varyNames } from './vary.ts';

/**
 * Fields that say how the stored bytes are to be read, or what they come to. A 304 has no bytes and cannot correct them
 * (RFC 9111 §3.2); its Content-Digest, if any, is that of nothing. Content-Type and the other Content fields are updated
 * like any field.
 */
const fieldsOfTheBytes: ReadonlySet<string> = new Set([
  ...contentDigestFields,
  'content-encoding',
  'content-length',
  'content-range',
  'repr-digest',
]);

/** Fields of a 304 that tell that a response is current, and for how long: they are the same for everybody. */
const fieldsOfValidity: ReadonlySet<string> = new Set([
  'age',
  'cache-control',
  'date',
  'etag',
  'expires',
  'last-modified',
  'vary',
]);

/** What of a 304 tells how long the stored response is current, and nothing else. */
export function validityFields(notModified: Fields, { targetedFields }: ControlPolicy): Fields {
  return notModified.filter(([name]) => fieldsOfValidity.has(name) || targetedFields.includes(name));
}

/** What of a 304 is neither about validity nor about the stored bytes. */
export function furtherFields(notModified: Fields, { targetedFields }: ControlPolicy): Fields {
  return withoutConnectionFields(notModified).filter(
    ([name]) => !fieldsOfValidity.has(name) && !targetedFields.includes(name) && !fieldsOfTheBytes.has(name),
  );
}

/**
 * Whether a 304 that answered a validation of this stored response may freshen it (RFC 9111 §4.3.4). Not when
 * - its strong entity tag is not the stored one, or its weak one does not even match weakly;
 * - it has no entity tag, and its Last-Modified is another than the stored one (an older file was put back);
 * - its Vary nominates other fields than the stored one: the variant's name would change under its bytes.
 * A 304 without any validator is taken to mean the only response that was asked about; old origins send such. A
 * malformed tag is none. When it may not, the 304 is of no use, and the representation has to be fetched without
 * conditions.
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
 * Whether a 304 that answered the validation of another stored response is about this one too, which could have been chosen
 * for the same request: by a strong entity tag only, which names the representation (RFC 9111 §4.3.4).
 */
export function isNamedBy(stored: StoredResponse, notModified: Fields): boolean {
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
 * The stored fields, each replaced by the 304's lines of its name where it has any; fields that only the 304 has are
 * added (RFC 9111 §3.2). Untouched stay the fields that tell how to read the bytes, and a stored entity tag: the 304's,
 * where it may freshen, is the same or a weakened form of it. The stored Date and Age go in any case, because they told
 * of an older exchange, and whatever the merged Cache-Control excludes from storage. `responseAt` is when the 304
 * arrived.
 */
export function freshenFields(stored: Fields, notModified: Fields, responseAt: number, policy: KeepingPolicy): Fields {
  const fresh = storableFields(notModified, responseAt, policy).filter(
    ([name]) => !fieldsOfTheBytes.has(name) && !(name === 'etag' && hasField(stored, 'etag')),
  );
  const replaced = new Set(fresh.map(([name]) => name)).add('age');
  return storableFields([...withoutFields(stored, replaced), ...fresh], responseAt, policy);
}

/**
 * A stored response that a 304, or the head of a newer 200, has freshened: its age counts from that exchange, and it is
 * valid again, unless its lifetime was ended at or after `requestAt`. Ask `mayFreshen` before, and `decideStoring` about the
 * result: the 304 may have brought a `no-store` or `private`.
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

/** `freshen`: it is still the current one, and takes these fields. `invalidate`: it is not. `none`: nothing is told of it. */
type HeadEffect = 'freshen' | 'invalidate' | 'none';

const validators = ['etag', 'last-modified'] as const;

/**
 * Decides by a 200 to a HEAD about a stored response that could have been chosen for that request: it is current as long
 * as no validator that was received, and no Content-Length, differs from what is stored, nor which fields Vary names. A
 * stored response of another status is not. One that was purged, or is known to be outdated, becomes valid again by a validator
 * only: that nothing differs proves nothing of its bytes. `sizeBytes` is the length of what is stored.
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
  const isEnded = isInvalid === true || expiredAt !== undefined;
  return isEnded && !validators.some((name) => hasField(head, name)) ? 'none' : 'freshen';
}
