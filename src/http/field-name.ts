/** Field names as HTTP/1.1 peers are used to seeing them. */

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
