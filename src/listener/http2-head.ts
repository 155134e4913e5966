/** Heads of responses as HTTP/2 writes them. */

import { validateHeaderName, validateHeaderValue } from 'node:http';
import type { OutgoingHttpHeaders } from 'node:http2';
import type { Fields } from '../http/fields.ts';
import { formatHttpDate } from '../semantics/http-date.ts';
import type { ResponseHead } from './respond.ts';
import { isFramingField } from './response-head.ts';

/** Lines of one name may be written as one (RFC 9110 §5.3); of these, clients are known to misread the list. */
const keptApart: ReadonlySet<string> = new Set(['set-cookie', 'www-authenticate', 'proxy-authenticate']);

/** The head of a final response, with Date and Content-Length. Throws where Node, or a client, could misread a field. */
export function http2Head({ status, fields, contentLength, now }: ResponseHead): OutgoingHttpHeaders {
  const headers = http2Fields(fields);
  headers[':status'] = status;
  if (headers['date'] === undefined) headers['date'] = formatHttpDate(now);
  if (contentLength !== undefined) headers['content-length'] = String(contentLength);
  return headers;
}

/**
 * Fields without those of the connection (RFC 9113 §8.2.2), as Node takes them. Throws where a name or a value has characters
 * that it must not have: Node itself would take NUL for the end of a line.
 */
export function http2Fields(fields: Fields): OutgoingHttpHeaders {
  // Without a prototype, so that no name means anything to the object.
  const headers: OutgoingHttpHeaders = Object.create(null);
  for (const [name, value] of fields) {
    if (isFramingField(name)) continue;
    validateHeaderName(name);
    validateHeaderValue(name, value);
    const earlier = headers[name];
    if (earlier === undefined) headers[name] = value;
    else headers[name] = keptApart.has(name) ? [earlier, value].flat().map(String) : `${earlier}, ${value}`;
  }
  return headers;
}
