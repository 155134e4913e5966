import { describe, expect, it } from 'vitest';
import { createTokenBucket, paceBody } from '../../../src/cli/demo/legacy-origin.ts';
import type { Clock } from '../../../src/http/clock.ts';

/** A clock that completes every wait at once, and advances by its length. */
function createSteppingClock(): Clock & { advance(ms: number): void } {
  let now = 0;
  return {
    now: () => now,
    after(delayMs, callback) {
      now += delayMs;
      callback();
      return () => {};
    },
    advance(ms) {
      now += ms;
    },
  };
}

describe('a token bucket of 1000 bytes a second and a burst of 100', () => {
  // Each step: milliseconds that pass, bytes taken, and milliseconds that these bytes must wait.
  const scripts: readonly (readonly (readonly [passMs: number, bytes: number, waitMs: number])[])[] = [
    [[0, 100, 0]],
    [[0, 101, 1]],
    [
      [0, 100, 0],
      [0, 50, 50],
    ],
    [
      [0, 100, 0],
      [50, 50, 0],
    ],
    [
      [0, 100, 0],
      [0, 50, 50],
      [0, 50, 100],
    ],
    [
      [10_000, 100, 0],
      [0, 1, 1],
    ],
    [
      [0, 1100, 1000],
      [1000, 1, 1],
    ],
  ];
  it.each(scripts.map((script) => [JSON.stringify(script), script] as const))('%s', (_name, script) => {
    const clock = createSteppingClock();
    const bucket = createTokenBucket({ bytesPerSecond: 1000, burstBytes: 100 }, clock);
    const waits = script.map(([passMs, bytes]) => {
      clock.advance(passMs);
      return bucket.take(bytes);
    });
    expect(waits).toEqual(script.map(([, , waitMs]) => waitMs));
  });
});

describe('a paced body', () => {
  it('has the same bytes, and takes the time of their rate', async () => {
    const clock = createSteppingClock();
    const chunks = [100_000, 1, 0, 65_536].map((size, index) => new Uint8Array(size).fill(index));
    const bucket = createTokenBucket({ bytesPerSecond: 10_000, burstBytes: 0 }, clock);
    const pieces: Uint8Array[] = [];
    for await (const piece of paceBody(chunks, bucket, clock)) pieces.push(piece);
    expect(Buffer.concat(pieces).equals(Buffer.concat(chunks))).toBe(true);
    expect(clock.now()).toBeGreaterThanOrEqual(16_553);
    expect(clock.now()).toBeLessThan(16_553 + pieces.length);
  });

  it('is not read ahead of its reader', async () => {
    const clock = createSteppingClock();
    let read = 0;
    const source = function* (): Generator<Uint8Array> {
      for (; read < 10; read += 1) yield new Uint8Array(10);
    };
    const bucket = createTokenBucket({ bytesPerSecond: 1, burstBytes: 1000 }, clock);
    const pieces = paceBody(source(), bucket, clock);
    await pieces.next();
    expect(read).toBe(0);
    await pieces.next();
    expect(read).toBe(1);
  });
});
