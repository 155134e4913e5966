/**
 * Field lines as plain data: an ordered list of lower-case names with values (RFC 9110 §5). Also converts names to the spelling
 * that HTTP/1.1 peers are used to.
 */

import { memoizeByText } from './collections.ts';

/** One field line. The name is lower-case; the value has no leading or trailing white space. */
export type Field = readonly [name: string, value: string];

/** Field lines in the order received. */
export type Fields = readonly Field[];

/**
 * Returns the value of a field: its lines joined with `, ` (RFC 9110 §5.3), or undefined when there is none. Not for
 * Set-Cookie, whose lines cannot be joined: see `fieldLines`.
 */
export function fieldValue(fields: Fields, name: string): string | undefined {
  let value: string | undefined;
  for (const [lineName, lineValue] of fields) {
    if (lineName === name) value = value === undefined ? lineValue : `${value}, ${lineValue}`;
  }
  return value;
}

/** Returns the values of all lines of a field, in order. */
export function fieldLines(fields: Fields, name: string): string[] {
  const lines: string[] = [];
  for (const [lineName, lineValue] of fields) if (lineName === name) lines.push(lineValue);
  return lines;
}

/** Checks whether there is at least one line with this name. */
export function hasField(fields: Fields, name: string): boolean {
  for (let at = 0; at < fields.length; at += 1) if (fields[at]?.[0] === name) return true;
  return false;
}

/** Returns a copy with one line at the end in place of all lines of its name. */
export function withField(fields: Fields, name: string, value: string): Fields {
  return [...fields.filter(([lineName]) => lineName !== name), [name, value]];
}

/** Returns a copy without the fields of these names. */
export function withoutFields(fields: Fields, names: ReadonlySet<string>): Fields {
  const kept: Field[] = [];
  for (const field of fields) if (!names.has(field[0])) kept.push(field);
  return kept;
}

/** Returns the members of a comma-separated list, trimmed, without empty ones (RFC 9110 §5.6.1.2). Does not recognise quoted strings. */
export function listMembers(value: string | undefined): string[] {
  if (value === undefined) return [];
  return value
    .split(',')
    .map(trimWhitespace)
    .filter((member) => member !== '');
}

/**
 * Removes the spaces and tabs around a text (OWS, RFC 9110 §5.6.3). A loop, because a pattern for trailing white space takes
 * quadratic time for a long run of white space inside the text.
 */
export function trimWhitespace(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isWhitespace(text.charCodeAt(start))) start += 1;
  while (end > start && isWhitespace(text.charCodeAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

function isWhitespace(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

/** Words of field names, between hyphens, that are not written with one initial capital. */
const specialWords: ReadonlyMap<string, string> = new Map(
  ['CDN', 'CH', 'DNS', 'DNT', 'DPR', 'GPC', 'HTTP2', 'ID', 'IP', 'MD5', 'MIME', 'NEL', 'P3P', 'TE', 'UA', 'URI', 'URL']
    .concat(['ETag', 'RateLimit', 'SOAPAction', 'SourceMap', 'WebSocket', 'WWW', 'XSS'])
    .map((word) => [word.toLowerCase(), word]),
);

/**
 * Returns a lower-case field name in its conventional case: `content-type` becomes `Content-Type`, `etag` becomes `ETag`. Field
 * names are case-insensitive (RFC 9110 §5.1), but some old HTTP/1.1 peers compare them as bytes. Not for HTTP/2, which requires
 * lower case (RFC 9113 §8.2.1).
 */
export const wireFieldName: (name: string) => string = memoizeByText(512, (name) =>
  name.split('-').map(wireWord).join('-'),
);

function wireWord(word: string): string {
  return specialWords.get(word) ?? word.charAt(0).toUpperCase() + word.slice(1);
}
