/** How the end of a response's body is known, read from its head. */

import { type Fields, fieldLines } from '../http/fields.ts';
import type { Framing } from './origin.ts';

/** A response's framing, or why it is ambiguous. */
export type FramingReading =
  | { readonly kind: 'framed'; readonly framing: Framing; readonly sizeBytes: number | undefined }
  | { readonly kind: 'ill_framed'; readonly reason: string };

/**
 * RFC 9112 §6.3, for a client that sends no TE: `chunked` is then the only transfer coding it can undo (§6.1). Stricter than
 * §6.3 where a response has Content-Length beside Transfer-Encoding or twice: either is a sign of response splitting.
 * A response to HEAD, a 204 and a 304 have no body, whatever their fields say of one; `sizeBytes` is undefined for them.
 *
 * In HTTP/2 END_STREAM ends a body as surely as a last chunk does, and Transfer-Encoding has no place (RFC 9113 §8.1, §8.2.2).
 */
export function readFraming(method: string, status: number, fields: Fields, version: '1.1' | '2'): FramingReading {
  const codings = fieldLines(fields, 'transfer-encoding');
  const lengths = fieldLines(fields, 'content-length');
  if (codings.length > 0 && lengths.length > 0) return illFramed('Content-Length beside Transfer-Encoding');
  if (codings.length > (version === '2' ? 0 : 1) || (codings[0] ?? 'chunked').toLowerCase() !== 'chunked') {
    return illFramed(`Transfer-Encoding: ${codings.join(', ')}`);
  }
  const sizeBytes = parseLength(lengths);
  if (lengths.length > 0 && sizeBytes === undefined) return illFramed(`Content-Length: ${lengths.join(', ')}`);

  if (method === 'HEAD' || status === 204 || status === 304) return framed('none', undefined);
  if (codings.length > 0) return framed('chunked', undefined);
  if (sizeBytes !== undefined) return framed('length', sizeBytes);
  return framed(version === '2' ? 'chunked' : 'close', undefined);
}

/** Bytes that cannot be counted exactly are refused rather than rounded. */
function parseLength(lines: readonly string[]): number | undefined {
  const [line] = lines;
  if (lines.length !== 1 || line === undefined || !/^\d+$/.test(line)) return undefined;
  const sizeBytes = Number(line);
  return Number.isSafeInteger(sizeBytes) ? sizeBytes : undefined;
}

function framed(framing: Framing, sizeBytes: number | undefined): FramingReading {
  return { kind: 'framed', framing, sizeBytes };
}

function illFramed(reason: string): FramingReading {
  return { kind: 'ill_framed', reason };
}
