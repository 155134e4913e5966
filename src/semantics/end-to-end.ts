/** Which fields end at a connection, and which go from end to end (RFC 9110 §7.6.1). */

import { type Fields, fieldLines, listMembers, withoutFields } from '../http/fields.ts';

/** Fields of one connection, whether or not Connection names them. Trailer too: trailers are not passed on here. */
const connectionFields: ReadonlySet<string> = new Set([
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Fields, and families of fields, that are for all recipients by their definition. */
const endToEndFields: ReadonlySet<string> = new Set([
  'age',
  'allow',
  'authorization',
  'cache-control',
  'cache-status',
  'cdn-loop',
  'cookie',
  'date',
  'etag',
  'expect',
  'expires',
  'forwarded',
  'host',
  'last-modified',
  'location',
  'max-forwards',
  'origin',
  'pragma',
  'proxy-authorization',
  'range',
  'referer',
  'retry-after',
  'server',
  'set-cookie',
  'strict-transport-security',
  'traceparent',
  'tracestate',
  'user-agent',
  'vary',
  'via',
  'www-authenticate',
  'x-real-ip',
]);
const endToEndFamilies = ['accept', 'access-control-', 'content-', 'if-', 'sec-', 'x-forwarded-'];

/**
 * A copy without the fields of the connection: Connection, every field it names, and those that are of the connection
 * anyway. For requests and responses alike.
 *
 * A peer must not name a field there that is for all recipients; Cache-Control is the RFC's example. One that does
 * could take away what the other side relies on (Host, X-Forwarded-For, Vary, Content-Length), so such fields stay.
 */
export function withoutConnectionFields(fields: Fields): Fields {
  const lines = fieldLines(fields, 'connection');
  if (lines.length === 0) return withoutFields(fields, connectionFields);
  const named = new Set(lines.flatMap(listMembers).map((option) => option.toLowerCase()));
  return fields.filter(([name]) => !connectionFields.has(name) && (!named.has(name) || isEndToEnd(name)));
}

function isEndToEnd(name: string): boolean {
  return endToEndFields.has(name) || endToEndFamilies.some((family) => name.startsWith(family));
}
