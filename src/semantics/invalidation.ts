/**
 * What makes stored responses invalid: an unsafe request (RFC 9111 §4.4), the groups that an origin declares invalid together (RFC
 * 9875), and the tags by which an operator purges (Surrogate-Key and Cache-Tag, which no RFC defines; they are read as the CDNs read
 * them that introduced them).
 */

import { type Fields, fieldLines, hasField, trimWhitespace } from '../http/fields.ts';
import { isSafeMethod } from './method.ts';
import { parseStrings } from './structured-fields.ts';

/** An exchange that went past the cache. */
interface InvalidationInput {
  readonly method: string;
  readonly scheme: 'http' | 'https';
  readonly authority: string;
  /** Origin-form. */
  readonly target: string;
  readonly response: { readonly status: number; readonly fields: Fields };
}

/**
 * The targets (origin-form, of the request's own scheme and authority) whose stored responses are invalid after an
 * exchange: none unless the method is unsafe and the response no error; otherwise the request's target as it was
 * received and those of Location and Content-Location. A URI of another origin is left alone, or one site could empty
 * another's cache.
 */
export function targetsToInvalidate({ method, scheme, authority, target, response }: InvalidationInput): string[] {
  if (isSafeMethod(method) || response.status < 200 || response.status >= 400) return [];
  const others = ['location', 'content-location']
    .flatMap((name) => fieldLines(response.fields, name))
    .map((reference) => resolveOwn(reference, { scheme, authority, target }))
    .filter((other) => other !== undefined);
  return [...new Set([target, ...others])];
}

/** The target (origin-form) that a reference in a response names; undefined where it is none of the same origin. */
export function resolveOwn(
  reference: string,
  { scheme, authority, target }: Pick<InvalidationInput, 'scheme' | 'authority' | 'target'>,
): string | undefined {
  const url = URL.parse(reference, `${scheme}://${authority}${target}`);
  return url === null || url.origin !== URL.parse(`${scheme}://${authority}`)?.origin
    ? undefined
    : url.pathname + url.search;
}

/** How many groups of one field count, the first ones; the law wants at least 32 (RFC 9875 §2). */
export const maxGroups = 128;

/** How many characters a group may have; longer ones do not count. The law wants at least 32 (RFC 9875 §2). */
export const maxGroupLength = 256;

/**
 * The groups that a response belongs to, as Cache-Groups tells them, each once; letter case counts, parameters do not.
 * None when the field is no List of Strings (RFC 9875 §2, RFC 9651 §2). Never throws.
 */
export function parseCacheGroups(response: Fields): readonly string[] {
  return groupsOf(response, 'cache-groups');
}

/**
 * The groups whose stored responses are invalid after an exchange, as Cache-Group-Invalidation tells them: none where the
 * method is safe (RFC 9875 §3). An error invalidates nothing here, as it does nothing to the target (RFC 9111 §4.4): or
 * else whoever is refused could empty the cache. What is invalidated this way invalidates nothing more (RFC 9875 §2.2.1).
 */
export function groupsToInvalidate({
  method,
  response,
}: Pick<InvalidationInput, 'method' | 'response'>): readonly string[] {
  if (isSafeMethod(method) || response.status < 200 || response.status >= 400) return [];
  return groupsOf(response.fields, 'cache-group-invalidation');
}

/**
 * What a store knows a group by: equal for the same group of the same URI origin only (RFC 9875 §2.1). `origin` is the
 * scheme and the authority in its normal form: `https://example.com`.
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

/** How many tags of one response count, the first ones; as many as Cloudflare takes. */
export const maxTags = 1000;

/** How many characters a tag may have, as at Fastly and Cloudflare; longer ones do not count. */
export const maxTagLength = 1024;

/** How many characters of one field count, as at Fastly (16,384 bytes) and Cloudflare (16 KB); a tag that is cut off there does not. */
export const maxTagFieldLength = 16_384;

/** The names of the fields, in lower case. */
const surrogateKeyField = 'surrogate-key';
const cacheTagField = 'cache-tag';

/**
 * The tags of a message, each once, those of Surrogate-Key first: of a response what it is tagged with, of a PURGE request
 * what it is about. In Surrogate-Key white space separates them, in Cache-Tag commas; both name tags of one kind, letter
 * case counts, and empty ones are none. Never throws.
 */
export function parseTags(fields: Fields): readonly string[] {
  if (!hasTagField(fields)) return [];
  const keys = countedText(fieldLines(fields, surrogateKeyField).join(' '), /[ \t]/).split(/[ \t]+/);
  const tags = countedText(fieldLines(fields, cacheTagField).join(','), /,/).split(',').map(trimWhitespace);
  return [...new Set([...keys, ...tags].filter(isTag))].slice(0, maxTags);
}

/** Whether a message has one of the fields, whatever is in it. */
export function hasTagField(fields: Fields): boolean {
  return hasField(fields, surrogateKeyField) || hasField(fields, cacheTagField);
}

/** Whether a text can be a tag. */
export function isTag(text: string): boolean {
  return text !== '' && text.length <= maxTagLength;
}

/** What a store knows a tag by: equal for the same tag only, and never what it knows a group by (`groupTag`). */
export function storedTag(tag: string): string {
  return `tag:${tag}`;
}

/**
 * What a store knows the spellings of one URI by that are not its normal form; `normalKey` is the key of that form. Never what it
 * knows a tag or a group by.
 */
export function spellingTag(normalKey: string): string {
  return `uri:${normalKey}`;
}

/** Whether a store knows the spellings of a URI by this text. */
export function isSpellingTag(text: string): boolean {
  return text.startsWith('uri:');
}

/** The tag that a store knows by this text; undefined for that of a group. */
export function tagOfStored(text: string): string | undefined {
  return text.startsWith('tag:') ? text.slice(4) : undefined;
}

/** As much of a field as counts: up to the last separator before the limit, where it is longer. */
function countedText(text: string, separator: RegExp): string {
  if (text.length <= maxTagFieldLength) return text;
  let end = maxTagFieldLength;
  while (end > 0 && !separator.test(text.charAt(end))) end -= 1;
  return text.slice(0, end);
}
