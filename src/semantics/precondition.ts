/** Preconditions: whether a request gets its response, a 304 or a 412, and whether its Range counts (RFC 9110 §13). */

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

/** The parts of a request that its preconditions come from. */
export interface ConditionalRequest {
  readonly method: string;
  readonly fields: Fields;
}

/** The parts of a stored response that preconditions are evaluated against. */
export type SelectedResponse = Validated & Pick<StoredResponse, 'status'>;

/** What a request gets. `range` says whether its Range field is to be applied or the whole is to be sent. */
export type PreconditionOutcome =
  | { readonly kind: 'proceed'; readonly range: 'apply' | 'ignore' }
  | { readonly kind: 'not-modified' }
  | { readonly kind: 'precondition-failed' };

/** Methods that select no representation, for which conditions say nothing (RFC 9110 §13.2.1). */
const methodsWithoutSelection: ReadonlySet<string> = new Set(['CONNECT', 'OPTIONS', 'TRACE']);

/**
 * Evaluates the preconditions of a request against the response that it would get without them, in the order of
 * RFC 9110 §13.2.2: If-Match, else If-Unmodified-Since; If-None-Match, else If-Modified-Since; If-Range. Unless that
 * response is a 2xx there is nothing to evaluate (§13.2.1). Range comes last, for a GET that would get a 200 (§14.2).
 * If-Match and If-Unmodified-Since, which a cache leaves to the origin, are evaluated too: to its clients a gateway is
 * the origin (§3.7), and nobody else knows the tags that it made.
 *
 * A malformed list of entity tags matches nothing: If-Match fails, If-None-Match holds. A malformed date makes its
 * condition void (§13.1.3, §13.1.4). `now` is in epoch milliseconds and only settles two-digit years.
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
 * Whether a client that sent these fields can make use of a 304: it has a copy, by its If-None-Match or, without that, its
 * If-Modified-Since, and the validators of the 304, if there are any, are those of that copy (RFC 9110 §15.4.5). `now` as
 * above.
 */
export function explainsNotModified(request: Fields, notModified: Fields, now: number): boolean {
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

/** If-Match (RFC 9110 §13.1.1) and, without it, If-Unmodified-Since (§13.1.4); true when neither objects. */
function isUnchanged(fields: Fields, response: SelectedResponse, now: number): boolean {
  const ifMatch = fieldValue(fields, 'if-match');
  if (ifMatch !== undefined) return matchesAny(ifMatch, response, strongMatch);
  const unmodifiedSince = parseDateField(fields, 'if-unmodified-since', now);
  if (unmodifiedSince === undefined) return true;
  const lastModifiedAt = parseDateField(response.fields, 'last-modified', now);
  return lastModifiedAt === undefined || lastModifiedAt <= unmodifiedSince;
}

/** If-None-Match (RFC 9110 §13.1.2) and, without it, If-Modified-Since (§13.1.3); true when neither objects. */
function isNewToClient(fields: Fields, response: SelectedResponse, now: number, isRead: boolean): boolean {
  const ifNoneMatch = fieldValue(fields, 'if-none-match');
  if (ifNoneMatch !== undefined) return !matchesAny(ifNoneMatch, response, weakMatch);
  const modifiedSince = isRead ? parseDateField(fields, 'if-modified-since', now) : undefined;
  if (modifiedSince === undefined) return true;
  const modifiedAt = modificationTime(response, now);
  // Against a Date instead of a Last-Modified, a time that is yet to come would match whatever there is.
  if (modifiedSince > now && !hasField(response.fields, 'last-modified')) return true;
  return modifiedAt === undefined || modifiedAt > modifiedSince;
}

/** Range with If-Range: a strong entity tag that matches, or exactly the date, if that is strong (RFC 9110 §13.1.5). */
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

/** Whether a list of entity tags, or `*` for any, names the current representation. */
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

/** The tag that clients get, and the origin's own, which they may have from elsewhere. */
function knownEntityTags(response: SelectedResponse): readonly EntityTag[] {
  const current = currentEntityTag(response);
  const origin = parseEntityTag(fieldValue(response.fields, 'etag') ?? '');
  return [current, origin].filter((tag) => tag !== undefined);
}

function currentEntityTag(response: SelectedResponse): EntityTag | undefined {
  const text = effectiveEntityTag(response);
  return text === undefined ? undefined : parseEntityTag(text);
}

/** What If-Modified-Since is compared with: Last-Modified, else Date, else the time of receipt (RFC 9111 §4.3.2). */
function modificationTime(response: SelectedResponse, now: number): number | undefined {
  if (hasField(response.fields, 'last-modified')) return parseDateField(response.fields, 'last-modified', now);
  return parseDateField(response.fields, 'date', now) ?? response.responseAt;
}
