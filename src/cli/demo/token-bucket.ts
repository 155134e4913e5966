/** A steady rate: a token bucket, and a body let through at its pace. */

import type { Clock } from '../../http/clock.ts';

/** How many bytes pass in one piece; small enough that a fill is seen to grow. */
const pieceBytes = 16 * 1024;

/** How fast bytes may pass. */
export interface Pace {
  readonly bytesPerSecond: number;
  /** What may pass at once after a rest. */
  readonly burstBytes: number;
}

/** Counts what passes against a pace. */
export interface TokenBucket {
  /** Takes bytes, on credit where there are too few, and tells for how many milliseconds to wait before they pass. */
  take(bytes: number): number;
}

/** A bucket that starts full. */
export function createTokenBucket(pace: Pace, clock: Clock): TokenBucket {
  let tokens = pace.burstBytes;
  let countedAt = clock.now();
  return {
    take(bytes) {
      const now = clock.now();
      tokens = Math.min(pace.burstBytes, tokens + ((now - countedAt) / 1000) * pace.bytesPerSecond) - bytes;
      countedAt = now;
      return tokens >= 0 ? 0 : Math.ceil((-tokens / pace.bytesPerSecond) * 1000);
    },
  };
}

/** The same bytes at the pace of a bucket. Nothing is read ahead: a reader that rests makes the body rest. */
export async function* paceBody(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  bucket: TokenBucket,
  clock: Clock,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const chunk of body) {
    for (let start = 0; start < chunk.byteLength; start += pieceBytes) {
      const piece = chunk.subarray(start, start + pieceBytes);
      const waitMs = bucket.take(piece.byteLength);
      if (waitMs > 0) await new Promise<void>((resolve) => void clock.after(waitMs, resolve));
      yield piece;
    }
  }
}
