/**
 * Validators: entity tags and modification dates, and their strength (RFC 9110 §8.8). Also makes the conditional fields that
 * ask an origin whether a stored response is current (RFC 9111 §4.3.1).
 */

import { type Field, type Fields, fieldValue } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { parseDateField, parseHttpDate } from './http-date.ts';

/** An entity tag. `opaque` is the text between the quotes; it can only be compared for equality. */
export interface EntityTag {
  readonly kind: 'strong' | 'weak';
  readonly opaque: string;
}

/** The parts of a stored response that its validators are read from. */
export type Validated = Pick<StoredResponse, 'fields' | 'ownEntityTag' | 'responseAt'>;

/** `W/` is case-sensitive. Between the quotes, white space and quotes are forbidden, commas and obs-text allowed (RFC 9110 §8.8.3). */
const entityTag = /(W\/)?"([\x21\x23-\x7e\x80-\uffff]*)"/y;

/** Parses a text that is exactly one entity tag; undefined for any other text. */
export function parseEntityTag(text: string): EntityTag | undefined {
  const member = readEntityTag(text, 0);
  return member?.end === text.length ? member.tag : undefined;
}

/**
 * Parses the value of If-Match or If-None-Match: `*`, or the listed entity tags (RFC 9110 §13.1.1, §13.1.2). Empty
 * members are skipped, so the list may be empty (§5.6.1.2). Undefined when a member is neither empty nor an entity tag.
 */
export function parseEntityTagList(value: string): '*' | readonly EntityTag[] | undefined {
  if (value === '*') return '*';
  const tags: EntityTag[] = [];
  let position = 0;
  let isMemberDue = true;
  while (position < value.length) {
    const character = value.charAt(position);
    if (character === ',') isMemberDue = true;
    if (character === ',' || character === ' ' || character === '\t') {
      position += 1;
      continue;
    }
    const member = isMemberDue ? readEntityTag(value, position) : undefined;
    if (member === undefined) return undefined;
    tags.push(member.tag);
    position = member.end;
    isMemberDue = false;
  }
  return tags;
}

/** Checks whether two tags identify the same bytes (RFC 9110 §8.8.3.2). Tags that match only weakly do not allow bytes to be combined. */
export function strongMatch(a: EntityTag, b: EntityTag): boolean {
  return a.kind === 'strong' && b.kind === 'strong' && a.opaque === b.opaque;
}

/** Checks whether two tags, weak or strong, identify equivalent representations (RFC 9110 §8.8.3.2). */
export function weakMatch(a: EntityTag, b: EntityTag): boolean {
  return a.opaque === b.opaque;
}

/**
 * Returns the entity tag that clients are sent: the one that Rangeway made, else the origin's ETag. Undefined when there is
 * none. The origin's tag may be malformed.
 */
export function effectiveEntityTag(response: Validated): string | undefined {
  return response.ownEntityTag ?? fieldValue(response.fields, 'etag');
}

/**
 * Checks whether a Last-Modified is a strong validator: the Date of the same response, by the same clock, is at least one
 * second later, so that a second change within that second would show (RFC 9110 §8.8.2.2). Both are in epoch milliseconds.
 */
export function isStrongDate(lastModifiedAt: number, dateAt: number): boolean {
  return dateAt - lastModifiedAt >= 1_000;
}

/**
 * Returns the Last-Modified of a stored response, in epoch milliseconds, if it is a strong validator; otherwise undefined.
 * Without a Date, the time of receipt takes its place (RFC 9110 §6.6.1).
 */
export function strongLastModified(response: Validated, now: number): number | undefined {
  const lastModifiedAt = parseDateField(response.fields, 'last-modified', now);
  if (lastModifiedAt === undefined) return undefined;
  const dateAt = parseDateField(response.fields, 'date', now) ?? response.responseAt;
  return isStrongDate(lastModifiedAt, dateAt) ? lastModifiedAt : undefined;
}

/** Reads the entity tag that starts at `position`; `end` is exclusive. */
function readEntityTag(text: string, position: number): { readonly tag: EntityTag; readonly end: number } | undefined {
  entityTag.lastIndex = position;
  const match = entityTag.exec(text);
  if (match === null) return undefined;
  const [whole, weakness, opaque = ''] = match;
  return { tag: { kind: weakness === undefined ? 'strong' : 'weak', opaque }, end: position + whole.length };
}

/** Returns the strong validator of a response for If-Range (RFC 9110 §13.1.5): its tag, or a strong date where it has no tag. */
export function strongValidator(response: Validated, now: number): string | undefined {
  const entityTag = fieldValue(response.fields, 'etag');
  if (entityTag !== undefined) return parseEntityTag(entityTag)?.kind === 'strong' ? entityTag : undefined;
  return strongLastModified(response, now) === undefined ? undefined : fieldValue(response.fields, 'last-modified');
}

/**
 * Compares the versions of two responses by the origin's validators. `same` only by a strong validator: no other allows bytes
 * to be combined (RFC 9110 §8.8.1, §15.3.7.3).
 */
export function compareVersions(a: Validated, b: Validated, now: number): 'same' | 'other' | 'unknown' {
  const tagA = entityTagOf(a);
  const tagB = entityTagOf(b);
  if (tagA !== undefined && tagB !== undefined) {
    if (strongMatch(tagA, tagB)) return 'same';
    return weakMatch(tagA, tagB) ? 'unknown' : 'other';
  }
  const dateA = fieldValue(a.fields, 'last-modified');
  const dateB = fieldValue(b.fields, 'last-modified');
  if (dateA === undefined || dateB === undefined) return 'unknown';
  if (dateA !== dateB) return 'other';
  return tagA === undefined && tagB === undefined && strongLastModified(a, now) !== undefined ? 'same' : 'unknown';
}

function entityTagOf(response: Validated): EntityTag | undefined {
  const value = fieldValue(response.fields, 'etag');
  return value === undefined ? undefined : parseEntityTag(value);
}

/**
 * Returns the fields to add to a validation: If-None-Match with the origin's entity tag and If-Modified-Since with its
 * Last-Modified, as the origin wrote them. Never a tag that Rangeway made. Empty when the origin gave no valid validator: the
 * response cannot be validated then. The request must have no other precondition and no Range.
 */
export function conditionalFields(stored: Pick<StoredResponse, 'fields' | 'responseAt'>): Fields {
  const fields: Field[] = [];
  const entityTag = fieldValue(stored.fields, 'etag');
  if (entityTag !== undefined && parseEntityTag(entityTag) !== undefined) fields.push(['if-none-match', entityTag]);
  const lastModified = fieldValue(stored.fields, 'last-modified');
  if (lastModified !== undefined && parseHttpDate(lastModified, stored.responseAt) !== undefined) {
    fields.push(['if-modified-since', lastModified]);
  }
  return fields;
}
