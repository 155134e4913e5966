/**
 * Tags that an origin gives its responses, so that whoever runs a cache can have all of one tag removed: the fields
 * Surrogate-Key and Cache-Tag, which no RFC defines. They are read as the CDNs read them that have brought them up.
 */

import { type Fields, fieldLines, hasField, trimWhitespace } from '../http/fields.ts';

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
