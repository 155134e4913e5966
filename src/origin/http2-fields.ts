/** The fields of a request as HTTP/2 has them. */

import type { OutgoingHttpHeaders } from 'node:http2';
import { ProxyError } from '../http/proxy-error.ts';
import type { OriginRequest } from './origin.ts';

/**
 * Fields of a connection, which HTTP/2 does not have (RFC 9113 §8.2.2), and those that the connection writes itself. Expect
 * is among them, as over HTTP/1.1.
 */
const connectionFields: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
]);

/**
 * The largest head that is sent, as SETTINGS_MAX_HEADER_LIST_SIZE counts it (RFC 9113 §6.5.2). Node does not send more, and says
 * so as if the origin had refused it; many origins end the connection on more, with all that is under way on it.
 */
const maxHeadBytes = 64 * 1024;
const lineOverheadBytes = 32;

const tokenPattern = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const targetPattern = /^\/[\x21-\x7e\x80-\xff]*$/;
const valuePattern = /^[\t\x20-\x7e\x80-\xff]*$/;

/**
 * The pseudo-header fields (RFC 9113 §8.3.1), `:authority` being what Host says, and the others. Lines of one name are
 * joined (RFC 9110 §5.3), those of Cookie as RFC 9113 §8.2.3 says. Throws `malformed_request` for what cannot be sent: with
 * a line break in it, say, which HTTP/2 would carry to an origin that speaks HTTP/1.1 behind a gateway. Throws
 * `fields_too_large` for more than HTTP/2 carries.
 */
export function http2Fields(request: OriginRequest, authority: string): OutgoingHttpHeaders {
  const { method, target, fields, bodySizeBytes } = request;
  const headers: OutgoingHttpHeaders = Object.create(null);
  headers[':method'] = checked(method, tokenPattern);
  headers[':scheme'] = 'https';
  headers[':authority'] = checked(fields.find(([name]) => name === 'host')?.[1] ?? authority, valuePattern);
  headers[':path'] = checked(target, targetPattern);
  for (const [name, value] of fields) {
    if (connectionFields.has(name)) continue;
    const known = headers[checked(name, tokenPattern)];
    const joined = known === undefined ? value : `${known}${name === 'cookie' ? '; ' : ', '}${value}`;
    headers[name] = checked(joined, valuePattern);
  }
  if (bodySizeBytes !== undefined) headers['content-length'] = String(bodySizeBytes);
  const headBytes = sizeOf(headers);
  if (headBytes > maxHeadBytes) throw new ProxyError('fields_too_large', { detail: `${headBytes} bytes over HTTP/2` });
  return headers;
}

function sizeOf(headers: OutgoingHttpHeaders): number {
  const lines = Object.entries(headers);
  return lines.reduce((sum, [name, value]) => sum + name.length + String(value).length + lineOverheadBytes, 0);
}

function checked(text: string, pattern: RegExp): string {
  if (pattern.test(text)) return text;
  throw new ProxyError('malformed_request', { detail: 'a part of the request cannot be sent to an origin' });
}
