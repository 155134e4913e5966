/**
 * A body of any size that takes little memory. Its bytes repeat with a prime period, so that no two blocks of it look alike, and
 * any piece of it can be verified by comparing memory.
 */

import { patternBytes } from './pattern-body.ts';

/** The largest prime below 2^20. */
const periodBytes = 1_048_573;

/** Length of the longest piece that is returned at once. */
const pieceBytes = 256 * 1024;

const firstPeriod = patternBytes(0, periodBytes);
/** One period, and its beginning again, so that every piece is contiguous. */
const pieces = Buffer.concat([firstPeriod, firstPeriod.subarray(0, pieceBytes)]);

/** Returns bytes from `offset` on, at most up to `end` (exclusive). They are shared memory and must not be changed. */
export function periodicPiece(offset: number, end: number): Buffer {
  const start = offset % periodBytes;
  return pieces.subarray(start, start + Math.min(end - offset, pieceBytes));
}

/** Checks that these are the bytes of the body from `offset` on. */
export function isPeriodic(bytes: Uint8Array, offset: number): boolean {
  for (let at = 0; at < bytes.length; ) {
    const piece = periodicPiece(offset + at, offset + bytes.length);
    if (!piece.equals(bytes.subarray(at, at + piece.length))) return false;
    at += piece.length;
  }
  return true;
}
