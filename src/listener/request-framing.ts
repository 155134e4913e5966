/** How the end of a request's body is known, stricter than Node's parser reads it. */

import { type Fields, fieldLines } from '../http/fields.ts';

/** A request's framing, or why it is ambiguous. */
export type RequestFraming =
  | { readonly kind: 'none' }
  | { readonly kind: 'length'; readonly sizeBytes: number }
  | { readonly kind: 'chunked' }
  | { readonly kind: 'refused'; readonly reason: string };

/** Old gateways read `_` in a name, and any other sign, as they read `-`. */
const framingLike = /^(?:transfer[^a-z0-9-]encoding|content[^a-z0-9-]length)$/;

/**
 * RFC 9112 §6.1 and §6.3. Whatever two recipients could read in two ways is refused: Content-Length beside
 * Transfer-Encoding or sent twice, a length that is no plain number, any coding but `chunked`, and Transfer-Encoding
 * from a client of HTTP/1.0. So are fields whose names some recipients take for one of these.
 */
export function readRequestFraming(version: string, fields: Fields): RequestFraming {
  const disguised = fields.find(([name]) => framingLike.test(name));
  if (disguised !== undefined) return refused(`${disguised[0]} looks like a field of framing`);
  const codings = fieldLines(fields, 'transfer-encoding');
  const lengths = fieldLines(fields, 'content-length');
  if (codings.length > 0) {
    if (lengths.length > 0) return refused('Content-Length beside Transfer-Encoding');
    if (version === '1.0') return refused('Transfer-Encoding in HTTP/1.0');
    if (codings.length > 1 || codings[0]?.toLowerCase() !== 'chunked')
      return refused('Transfer-Encoding is not chunked');
    return { kind: 'chunked' };
  }
  const [length] = lengths;
  if (length === undefined) return { kind: 'none' };
  if (lengths.length > 1) return refused('Content-Length is there twice');
  const sizeBytes = Number(length);
  if (!/^[0-9]+$/.test(length) || !Number.isSafeInteger(sizeBytes))
    return refused('Content-Length is no number of bytes');
  return { kind: 'length', sizeBytes };
}

function refused(reason: string): RequestFraming {
  return { kind: 'refused', reason };
}
