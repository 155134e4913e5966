/** The framing of multipart/byteranges: several spans of one whole in one body (RFC 9110 §14.6, RFC 2046 §5.1). */

import { type Span, spanSize } from '../bytes/span.ts';
import { formatContentRange } from './content-range.ts';

/** What the parts are parts of. */
export interface Whole {
  readonly sizeBytes: number;
  /** Its Content-Type, which each part repeats; undefined when there is none. */
  readonly contentType: string | undefined;
}

/** All of a multipart body but the bytes of its parts. */
export interface ByterangesFraming {
  /** The Content-Type of the message. */
  readonly contentType: string;
  /** What stands before the bytes of each part, as many as there are spans: delimiter, part fields, empty line. */
  readonly heads: readonly Uint8Array[];
  /** What stands behind the last part. */
  readonly tail: Uint8Array;
  /** The length of the body, parts included: its Content-Length. */
  readonly sizeBytes: number;
}

/**
 * Frames `spans`, each a part of `whole`, in their order. `boundary` is one of `createBoundary`, which needs no quotes. A line
 * end stands before the first delimiter too: the grammar allows it to be absent, but nginx and Apache send it, and readers
 * such as zsync's find no part without it.
 * There is no Content-Range beside the Content-Type of the message (RFC 9110 §15.3.7.2).
 */
export function frameByteranges(spans: readonly Span[], whole: Whole, boundary: string): ByterangesFraming {
  const typeLine = whole.contentType === undefined ? '' : `Content-Type: ${whole.contentType}\r\n`;
  const heads = spans.map((span) => {
    const rangeLine = `Content-Range: ${formatContentRange(span, whole.sizeBytes)}\r\n`;
    return octets(`\r\n--${boundary}\r\n${typeLine}${rangeLine}\r\n`);
  });
  const tail = octets(`\r\n--${boundary}--\r\n`);
  const headBytes = heads.reduce((sum, head) => sum + head.length, 0);
  const partBytes = spans.reduce((sum, span) => sum + spanSize(span), 0);
  return {
    contentType: `multipart/byteranges; boundary=${boundary}`,
    heads,
    tail,
    sizeBytes: headBytes + partBytes + tail.length,
  };
}

/** 128 bits, so that nobody can put the boundary into the data beforehand. */
const boundaryBytes = 16;

/** A boundary that cannot be foretold, of letters and digits; `random` gives that many unpredictable bytes. */
export function createBoundary(random: (size: number) => Uint8Array): string {
  return Array.from(random(boundaryBytes), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** One octet for each character, as in field values (RFC 9110 §5.5). Cut to octets, other characters could be CR LF. */
function octets(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => (character > '\u00ff' ? 0x3f : character.charCodeAt(0)));
}
