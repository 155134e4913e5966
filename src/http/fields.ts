/**
 * Field lines as plain data: an ordered list of lower-case name and value (RFC 9110 §5); and names in the spelling that HTTP/1.1
 * peers are used to.
 */

/** One field line. The name is lower-case; the value has no leading or trailing white space. */
export type Field = readonly [name: string, value: string];

/** Field lines in the order in which they came. */
export type Fields = readonly Field[];

/**
 * The value of a field: its lines joined with `, ` (RFC 9110 §5.3), or undefined when there is none.
 * Not for Set-Cookie, whose lines cannot be joined: see `fieldLines`.
 */
export function fieldValue(fields: Fields, name: string): string | undefined {
  let value: string | undefined;
  for (const [lineName, lineValue] of fields) {
    if (lineName === name) value = value === undefined ? lineValue : `${value}, ${lineValue}`;
  }
  return value;
}

/** The values of all lines of a field, in order. */
export function fieldLines(fields: Fields, name: string): string[] {
  const lines: string[] = [];
  for (const [lineName, lineValue] of fields) if (lineName === name) lines.push(lineValue);
  return lines;
}

/** Whether there is at least one line of this name. */
export function hasField(fields: Fields, name: string): boolean {
  for (let at = 0; at < fields.length; at += 1) if (fields[at]?.[0] === name) return true;
  return false;
}

/** A copy in which one line replaces all lines of its name, or is added at the end. */
export function withField(fields: Fields, name: string, value: string): Fields {
  return [...fields.filter(([lineName]) => lineName !== name), [name, value]];
}

/** A copy without the fields of these names. */
export function withoutFields(fields: Fields, names: ReadonlySet<string>): Fields {
  const kept: Field[] = [];
  for (const field of fields) if (!names.has(field[0])) kept.push(field);
  return kept;
}

/** The members of a comma-separated list, trimmed, empty ones dropped (RFC 9110 §5.6.1.2). Knows no quoted strings. */
export function listMembers(value: string | undefined): string[] {
  if (value === undefined) return [];
  return value
    .split(',')
    .map(trimWhitespace)
    .filter((member) => member !== '');
}

/**
 * A text without the spaces and tabs around it (OWS, RFC 9110 §5.6.3). A loop, because a pattern for trailing white
 * space takes quadratic time over a long run of it inside the text.
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

/** Words that are not written with one capital first, as they stand between the hyphens of a field name. */
const specialWords: ReadonlyMap<string, string> = new Map(
  ['CDN', 'CH', 'DNS', 'DNT', 'DPR', 'GPC', 'HTTP2', 'ID', 'IP', 'MD5', 'MIME', 'NEL', 'P3P', 'TE', 'UA', 'URI', 'URL']
    .concat(['ETag', 'RateLimit', 'SOAPAction', 'SourceMap', 'WebSocket', 'WWW', 'XSS'])
    .map((word) => [word.toLowerCase(), word]),
);

/** How many names are remembered; a peer that invents names must not fill the memory. */
const rememberedNames = 512;
const remembered = new Map<string, string>();

/**
 * A lower-case field name in its conventional case: `content-type` becomes `Content-Type`, `etag` becomes `ETag`.
 * Field names are case-insensitive (RFC 9110 §5.1), but some old HTTP/1.1 peers compare them as bytes. HTTP/2 wants
 * them in lower case (RFC 9113 §8.2.1): not for it.
 */
export function wireFieldName(name: string): string {
  const known = remembered.get(name);
  if (known !== undefined) return known;
  const wireName = name.split('-').map(wireWord).join('-');
  if (remembered.size < rememberedNames) remembered.set(name, wireName);
  return wireName;
}

function wireWord(word: string): string {
  return specialWords.get(word) ?? word.charAt(0).toUpperCase() + word.slice(1);
}
