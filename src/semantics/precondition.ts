/** Evaluates preconditions: whether a request gets its response, a 304 or a 412, and whether its Range applies (RFC 9110 §13). */

import { type Fields, fieldValue, hasField } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { parseDateField, parseHttpDate } from './http-date.ts';
import {
  type EntityTag,
  effectiveEntityTag,
  parseEntityTag,
  parseEntityTagList,
  strongLastModified,
  strongMatch,
  type Validated,
  weakMatch,
} from './validator.ts';

/** The parts of a request that its preconditions are read from. */
export interface ConditionalRequest {
  readonly method: string;
  readonly fields: Fields;
}

/** The parts of a stored response that preconditions are evaluated against. */
export type SelectedResponse = Validated & Pick<StoredResponse, 'status'>;

/** Result of the preconditions. `range` says whether the Range field applies or the whole is sent. */
export type PreconditionOutcome =
  | { readonly kind: 'proceed'; readonly range: 'apply' | 'ignore' }
  | { readonly kind: 'not-modified' }
  | { readonly kind: 'precondition-failed' };

/** Methods that select no representation; preconditions do not apply to them (RFC 9110 §13.2.1). */
const methodsWithoutSelection: ReadonlySet<string> = new Set(['CONNECT', 'OPTIONS', 'TRACE']);

/**
 * Evaluates the preconditions of a request, in the order of RFC 9110 §13.2.2: If-Match, else If-Unmodified-Since;
 * If-None-Match, else If-Modified-Since; If-Range. `response` is the response that the request would get without preconditions;
 * unless it is a 2xx, nothing is evaluated (§13.2.1). Range comes last, for a GET that would get a 200 (§14.2). A cache leaves
 * If-Match and If-Unmodified-Since to the origin. They are evaluated here because a gateway is the origin to its clients
 * (§3.7), and only this proxy knows the entity tags that it made.
 *
 * A malformed list of entity tags matches nothing: If-Match fails, If-None-Match holds. A malformed date makes its condition
 * void (§13.1.3, §13.1.4). `now`, in epoch milliseconds, settles two-digit years and tells which If-Modified-Since is in the
 * future.
 */
export function evaluatePreconditions(
  request: ConditionalRequest,
  response: SelectedResponse,
  now: number,
): PreconditionOutcome {
  const isSuccessful = response.status >= 200 && response.status <= 299;
  if (!isSuccessful || methodsWithoutSelection.has(request.method)) return { kind: 'proceed', range: 'ignore' };
  if (!isUnchanged(request.fields, response, now)) return { kind: 'precondition-failed' };
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  if (!isNewToClient(request.fields, response, now, isRead)) {
    return isRead ? { kind: 'not-modified' } : { kind: 'precondition-failed' };
  }
  return { kind: 'proceed', range: mayApplyRange(request, response, now) ? 'apply' : 'ignore' };
}

/**
 * Checks whether a client that sent these request fields can use a 304. It can if it has a copy, as its If-None-Match or else
 * its If-Modified-Since shows, and if the validators of the 304, where there are any, match that copy (RFC 9110 §15.4.5). `now`
 * is in epoch milliseconds.
 */
export function canUseNotModified(request: Fields, notModified: Fields, now: number): boolean {
  const ifNoneMatch = fieldValue(request, 'if-none-match');
  if (ifNoneMatch !== undefined) {
    const tags = parseEntityTagList(ifNoneMatch);
    const text = fieldValue(notModified, 'etag');
    if (tags === undefined || tags === '*' || text === undefined) return tags !== undefined;
    const current = parseEntityTag(text);
    return current !== undefined && tags.some((tag) => weakMatch(tag, current));
  }
  const modifiedSince = parseDateField(request, 'if-modified-since', now);
  if (modifiedSince === undefined) return false;
  const modifiedAt = parseDateField(notModified, 'last-modified', now);
  return modifiedAt === undefined || modifiedAt <= modifiedSince;
}

/** If-Match (RFC 9110 §13.1.1), else If-Unmodified-Since (§13.1.4); false where the condition fails. */
function isUnchanged(fields: Fields, response: SelectedResponse, now: number): boolean {
  const ifMatch = fieldValue(fields, 'if-match');
  if (ifMatch !== undefined) return matchesAny(ifMatch, response, strongMatch);
  const unmodifiedSince = parseDateField(fields, 'if-unmodified-since', now);
  if (unmodifiedSince === undefined) return true;
  const lastModifiedAt = parseDateField(response.fields, 'last-modified', now);
  return lastModifiedAt === undefined || lastModifiedAt <= unmodifiedSince;
}

/** If-None-Match (RFC 9110 §13.1.2), else If-Modified-Since (§13.1.3); false where the client's copy is current. */
function isNewToClient(fields: Fields, response: SelectedResponse, now: number, isRead: boolean): boolean {
  const ifNoneMatch = fieldValue(fields, 'if-none-match');
  if (ifNoneMatch !== undefined) return !matchesAny(ifNoneMatch, response, weakMatch);
  const modifiedSince = isRead ? parseDateField(fields, 'if-modified-since', now) : undefined;
  if (modifiedSince === undefined) return true;
  const modifiedAt = modificationTime(response, now);
  // Without Last-Modified the time is compared with Date, and a time in the future would match every response.
  if (modifiedSince > now && !hasField(response.fields, 'last-modified')) return true;
  return modifiedAt === undefined || modifiedAt > modifiedSince;
}

/**
 * Range with If-Range: applies if the entity tag matches strongly, or the date is exactly the Last-Modified and that is strong
 * (RFC 9110 §13.1.5).
 */
function mayApplyRange(request: ConditionalRequest, response: SelectedResponse, now: number): boolean {
  if (request.method !== 'GET' || response.status !== 200 || !hasField(request.fields, 'range')) return false;
  const ifRange = fieldValue(request.fields, 'if-range');
  if (ifRange === undefined) return true;
  const tag = parseEntityTag(ifRange);
  if (tag !== undefined) {
    const current = currentEntityTag(response);
    return current !== undefined && strongMatch(tag, current);
  }
  const date = parseHttpDate(ifRange, now);
  return date !== undefined && date === strongLastModified(response, now);
}

/** Whether a list of entity tags, or `*`, matches the current representation. */
function matchesAny(
  list: string,
  response: SelectedResponse,
  isMatch: (a: EntityTag, b: EntityTag) => boolean,
): boolean {
  // Most clients send back the one tag that they were given.
  if (list === effectiveEntityTag(response)) {
    const tag = parseEntityTag(list);
    if (tag !== undefined) return isMatch(tag, tag);
  }
  const tags = parseEntityTagList(list);
  if (tags === '*') return true;
  return tags?.some((tag) => knownEntityTags(response).some((known) => isMatch(tag, known))) === true;
}

/** The entity tag that clients are sent, and the origin's own tag, which clients may have from elsewhere. */
function knownEntityTags(response: SelectedResponse): readonly EntityTag[] {
  const current = currentEntityTag(response);
  const origin = parseEntityTag(fieldValue(response.fields, 'etag') ?? '');
  return [current, origin].filter((tag) => tag !== undefined);
}

function currentEntityTag(response: SelectedResponse): EntityTag | undefined {
  const text = effectiveEntityTag(response);
  return text === undefined ? undefined : parseEntityTag(text);
}

/** The time that If-Modified-Since is compared with: Last-Modified, else Date, else the time of receipt (RFC 9111 §4.3.2). */
function modificationTime(response: SelectedResponse, now: number): number | undefined {
  if (hasField(response.fields, 'last-modified')) return parseDateField(response.fields, 'last-modified', now);
  return parseDateField(response.fields, 'date', now) ?? response.responseAt;
}
