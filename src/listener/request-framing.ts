/** How the end of a request's body is known: whatever two readers could read in two ways is refused. */

import type { Fields } from '../http/fields.ts';

/** A request's framing, or why it is ambiguous. */
export type RequestFraming =
  | { readonly kind: 'none' }
  | { readonly kind: 'length'; readonly sizeBytes: number }
  | { readonly kind: 'chunked' }
  | { readonly kind: 'refused'; readonly reason: string };

const codingName = 'transfer-encoding';
const lengthName = 'content-length';

/** Old gateways read `_` in a name, and any other sign, as they read `-`. */
const framingLike = /^(?:transfer[^a-z0-9-]encoding|content[^a-z0-9-]length)$/;

const unframed: RequestFraming = { kind: 'none' };

/**
 * RFC 9112 §6.1 and §6.3. Whatever two recipients could read in two ways is refused: Content-Length beside
 * Transfer-Encoding or sent twice, a length that is no plain number, any coding but `chunked`, and Transfer-Encoding
 * from a client of HTTP/1.0. So are fields whose names some recipients take for one of these.
 */
export function readRequestFraming(version: string, fields: Fields): RequestFraming {
  const codings: string[] = [];
  const lengths: string[] = [];
  for (const [name, value] of fields) {
    // Every request has fields; few have names that are as long as these two.
    if (name.length !== codingName.length && name.length !== lengthName.length) continue;
    if (name === codingName) codings.push(value);
    else if (name === lengthName) lengths.push(value);
    else if (framingLike.test(name)) return refused(`${name} looks like a field of framing`);
  }
  if (codings.length > 0) return readCodings(version, codings, lengths);
  return lengths.length > 0 ? readLengths(lengths) : unframed;
}

function readCodings(version: string, codings: readonly string[], lengths: readonly string[]): RequestFraming {
  if (lengths.length > 0) return refused('Content-Length beside Transfer-Encoding');
  if (version === '1.0') return refused('Transfer-Encoding in HTTP/1.0');
  const isChunked = codings.length === 1 && codings[0]?.toLowerCase() === 'chunked';
  return isChunked ? { kind: 'chunked' } : refused('Transfer-Encoding is not chunked');
}

function readLengths([length = '', another]: readonly string[]): RequestFraming {
  if (another !== undefined) return refused('Content-Length is there twice');
  const sizeBytes = Number(length);
  const isNumber = /^[0-9]+$/.test(length) && Number.isSafeInteger(sizeBytes);
  return isNumber ? { kind: 'length', sizeBytes } : refused('Content-Length is no number of bytes');
}

function refused(reason: string): RequestFraming {
  return { kind: 'refused', reason };
}
