/** Trailer fields that a client may be sent. */

import { validateHeaderName, validateHeaderValue } from 'node:http';
import type { Field, Fields } from '../http/fields.ts';
import type { BodyStream } from '../http/message.ts';

/**
 * Fields that mean something only before the content (RFC 9110 §6.5.1): those that frame, route, authenticate, modify a
 * request, control its response, or tell how the content is to be read.
 */
const neverTrailing: ReadonlySet<string> = new Set(
  ['age', 'authorization', 'cache-control', 'connection', 'cookie', 'date', 'etag', 'expect', 'expires', 'host']
    .concat(['keep-alive', 'last-modified', 'location', 'max-forwards', 'pragma', 'proxy-authenticate'])
    .concat([
      'proxy-authentication-info',
      'proxy-authorization',
      'proxy-connection',
      'range',
      'retry-after',
      'set-cookie',
    ])
    .concat(['te', 'trailer', 'transfer-encoding', 'upgrade', 'vary', 'via', 'warning', 'www-authenticate']),
);

/** Digests of content can be known only at its end (RFC 9530 §2), and are the one thing to say of it there. */
const neverTrailingFamilies = /^(?:content-(?!digest$)|if-|accept-|access-control-|cache-|:)/;

/** The trailer fields of a body that was read to its end, without those that must not trail or cannot be written. */
export function selectTrailers({ trailers }: BodyStream): Fields {
  const fields = trailers?.() ?? [];
  return fields.length === 0 ? fields : fields.filter(mayTrail);
}

function mayTrail([name, value]: Field): boolean {
  if (neverTrailing.has(name) || neverTrailingFamilies.test(name)) return false;
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
    return true;
  } catch {
    return false;
  }
}
