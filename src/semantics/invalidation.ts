/**
 * Decides which stored responses become invalid: after an unsafe request (RFC 9111 §4.4), and by the groups that an origin
 * invalidates together (RFC 9875). Also reads the tags by which an operator purges: Surrogate-Key and Cache-Tag, which no RFC
 * defines. They are read as the CDNs that introduced them read them.
 */

import { type Fields, fieldLines, hasField, trimWhitespace } from '../http/fields.ts';
import { isSafeMethod } from './method.ts';
import { parseStrings } from './structured-fields.ts';

/** An exchange with the origin that did not use the cache. */
interface InvalidationInput {
  readonly method: string;
  readonly scheme: 'http' | 'https';
  readonly authority: string;
  /** Origin-form. */
  readonly target: string;
  /** The fields of the request. */
  readonly fields: Fields;
  readonly response: { readonly status: number; readonly fields: Fields };
}

/**
 * Returns the targets whose stored responses become invalid after an exchange, in origin-form, of the request's scheme and
 * authority. There are none unless the method is unsafe and the status is 2xx or 3xx. Otherwise they are the request's target
 * as received, those of Location and Content-Location, and that of Destination, which COPY and MOVE write to (RFC 4918 §10.3). A URI
 * of another origin is ignored: otherwise one site could empty another's cache.
 */
export function targetsToInvalidate(input: InvalidationInput): string[] {
  const { method, scheme, authority, target, fields, response } = input;
  if (isSafeMethod(method) || response.status < 200 || response.status >= 400) return [];
  const others = ['location', 'content-location']
    .flatMap((name) => fieldLines(response.fields, name))
    .concat(destinationsOf(method, fields))
    .map((reference) => resolveOwn(reference, { scheme, authority, target }))
    .filter((other) => other !== undefined);
  return [...new Set([target, ...others])];
}

function destinationsOf(method: string, fields: Fields): readonly string[] {
  return method === 'COPY' || method === 'MOVE' ? fieldLines(fields, 'destination') : [];
}

/**
 * Returns the paths, with a slash at their end, below which all stored responses become invalid after an exchange: DELETE and MOVE of
 * a collection remove its members too, and COPY and MOVE replace those of their Destination (RFC 4918 §9.6.1, §9.8.4, §9.9.3). For
 * MOVE and COPY anything may be a collection; for DELETE, which is frequent, what is named as one by the slash (§5.2), what a client of
 * WebDAV deletes, and what is answered with 207. There are none where the response may be the page that an application sends to every method: that has changed nothing, and
 * any client could empty the cache with it.
 */
export function collectionsToInvalidate(input: InvalidationInput): string[] {
  const { method, scheme, authority, target, fields, response } = input;
  const written = destinationsOf(method, fields).map((reference) =>
    resolveOwn(reference, { scheme, authority, target }),
  );
  const removed = method === 'MOVE' || (method === 'DELETE' && mayBeCollection(input)) ? [target] : [];
  const all = [...removed, ...written].filter((each) => each !== undefined);
  if (all.length === 0 || !hasChangedCollection(response)) return [];
  return [...new Set(all.map((each) => pathOf(each).replace(/\/?$/, '/')))];
}

/** Request fields of WebDAV (RFC 4918 §10); Translate is Microsoft's, whose client names collections without the slash. */
const webdavFields = ['depth', 'if', 'lock-token', 'translate'];

function mayBeCollection({ target, fields, response }: InvalidationInput): boolean {
  return pathOf(target).endsWith('/') || response.status === 207 || webdavFields.some((name) => hasField(fields, name));
}

/** Servers answer with 201, 204, or 207 where some members stay (RFC 4918 §9.6.1, §9.9.4); lighttpd with 200 and no content. */
function hasChangedCollection({ status, fields }: InvalidationInput['response']): boolean {
  if (status === 200) return fieldLines(fields, 'content-length').join() === '0';
  return status === 201 || status === 204 || status === 207;
}

function pathOf(target: string): string {
  return target.replace(/\?.*$/s, '');
}

/** Returns the target (origin-form) that a reference in a response names; undefined where it is not a URL of the same origin. */
export function resolveOwn(
  reference: string,
  { scheme, authority, target }: Pick<InvalidationInput, 'scheme' | 'authority' | 'target'>,
): string | undefined {
  const url = URL.parse(reference, `${scheme}://${authority}${target}`);
  return url === null || url.origin !== URL.parse(`${scheme}://${authority}`)?.origin
    ? undefined
    : url.pathname + url.search;
}

/** Number of groups of one field that count, the first ones. RFC 9875 §2 requires at least 32. */
export const maxGroups = 128;

/** Length of a group in characters; longer ones are ignored. RFC 9875 §2 requires at least 32. */
export const maxGroupLength = 256;

/**
 * Parses the groups that a response belongs to from Cache-Groups, each once; case-sensitive, without parameters. Empty when the
 * field is not a List of Strings (RFC 9875 §2, RFC 9651 §2). Never throws.
 */
export function parseCacheGroups(response: Fields): readonly string[] {
  return groupsOf(response, 'cache-groups');
}

/**
 * Returns the groups whose stored responses become invalid after an exchange, from Cache-Group-Invalidation; none where the
 * method is safe (RFC 9875 §3). An error response invalidates no group, as it does not invalidate the target (RFC 9111 §4.4):
 * otherwise a client that is refused could empty the cache. Invalidation by group does not cascade (RFC 9875 §2.2.1).
 */
export function groupsToInvalidate({
  method,
  response,
}: Pick<InvalidationInput, 'method' | 'response'>): readonly string[] {
  if (isSafeMethod(method) || response.status < 200 || response.status >= 400) return [];
  return groupsOf(response.fields, 'cache-group-invalidation');
}

/**
 * Returns the text by which a store knows a group: equal only for the same group of the same URI origin (RFC 9875 §2.1).
 * `origin` is the scheme and the normalised authority: `https://example.com`.
 */
export function groupTag(origin: string, group: string): string {
  return JSON.stringify([origin, group]);
}

function groupsOf(fields: Fields, name: string): readonly string[] {
  const lines = fieldLines(fields, name);
  if (lines.length === 0) return [];
  const groups = parseStrings(lines)?.filter((group) => group.length <= maxGroupLength);
  return [...new Set(groups)].slice(0, maxGroups);
}

/** Number of tags of one response that count, the first ones; the same limit as at Cloudflare. */
export const maxTags = 1000;

/** Length of a tag in characters, as at Fastly and Cloudflare; longer ones are ignored. */
export const maxTagLength = 1024;

/**
 * Number of characters of one field that count, as at Fastly (16,384 bytes) and Cloudflare (16 KB). A tag that is cut off there
 * is ignored.
 */
export const maxTagFieldLength = 16_384;

const surrogateKeyField = 'surrogate-key';
const cacheTagField = 'cache-tag';

/**
 * Parses the tags of a message, each once, those of Surrogate-Key first: the tags of a response, or the tags that a PURGE
 * request names. White space separates tags in Surrogate-Key, commas in Cache-Tag. Tags of both fields are of one kind. They
 * are case-sensitive; empty ones are ignored. Never throws.
 */
export function parseTags(fields: Fields): readonly string[] {
  if (!hasTagField(fields)) return [];
  const keys = countedText(fieldLines(fields, surrogateKeyField).join(' '), /[ \t]/).split(/[ \t]+/);
  const tags = countedText(fieldLines(fields, cacheTagField).join(','), /,/).split(',').map(trimWhitespace);
  return [...new Set([...keys, ...tags].filter(isTag))].slice(0, maxTags);
}

/** Checks whether a message has one of the tag fields, whatever its value. */
export function hasTagField(fields: Fields): boolean {
  return hasField(fields, surrogateKeyField) || hasField(fields, cacheTagField);
}

/** Checks whether a text can be a tag. */
export function isTag(text: string): boolean {
  return text !== '' && text.length <= maxTagLength;
}

/** Returns the text by which a store knows a tag: equal only for the same tag, and never equal to that of a group (`groupTag`). */
export function storedTag(tag: string): string {
  return `tag:${tag}`;
}

/**
 * Returns the text by which a store knows those spellings of one URI that are not its normal form. `normalKey` is the key of
 * the normal form. The text never equals that of a tag or a group.
 */
export function spellingTag(normalKey: string): string {
  return `uri:${normalKey}`;
}

/** Checks whether a store knows the spellings of a URI by this text. */
export function isSpellingTag(text: string): boolean {
  return text.startsWith('uri:');
}

/** Returns the tag that a store knows by this text; undefined where the text is that of a group or of spellings. */
export function tagOfStored(text: string): string | undefined {
  return text.startsWith('tag:') ? text.slice(4) : undefined;
}

/** The part of a field that counts: where it is too long, up to the last separator before the limit. */
function countedText(text: string, separator: RegExp): string {
  if (text.length <= maxTagFieldLength) return text;
  let end = maxTagFieldLength;
  while (end > 0 && !separator.test(text.charAt(end))) end -= 1;
  return text.slice(0, end);
}
