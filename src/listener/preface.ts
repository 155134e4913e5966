/** Tells HTTP/2 from HTTP/1 by what a connection begins with. */

import type { BeginningReading } from './beginning.ts';

/** What a client of HTTP/2 sends first (RFC 9113 §3.4). */
const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');

/** HTTP/2 as soon as the whole preface is there, and HTTP/1 as soon as it cannot be. Nothing is used up. */
export function readPreface(bytes: Buffer): BeginningReading<'http1' | 'http2'> {
  const compared = Math.min(bytes.length, preface.length);
  if (bytes.compare(preface, 0, compared, 0, compared) !== 0) return { kind: 'decided', value: 'http1', usedBytes: 0 };
  return compared < preface.length ? { kind: 'more' } : { kind: 'decided', value: 'http2', usedBytes: 0 };
}
