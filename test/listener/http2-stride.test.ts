/** The size of the pieces that are sent to HTTP/2 clients (stride). */

import { expect, it } from 'vitest';
import { PieceSizer } from '../../src/listener/http2/response-writer.ts';

const kibibyte = 1024;

it.each<[string, readonly (readonly [sizeBytes: number, elapsedMs: number])[], number]>([
  ['at first', [], 16],
  ['a piece that was taken soon', [[16 * kibibyte, 250]], 32],
  ['a piece that was taken neither soon nor late', [[16 * kibibyte, 1_000]], 16],
  ['less than a piece, which changes nothing', [[16 * kibibyte - 1, 0]], 16],
  ['a piece that was taken late', [[16 * kibibyte, 1_001]], 4],
  ['less than a piece, taken late', [[1, 5_000]], 4],
  [
    'late repeatedly',
    [
      [1, 5_000],
      [1, 5_000],
      [1, 5_000],
    ],
    4,
  ],
  [
    'soon repeatedly',
    [
      [16 * kibibyte, 0],
      [32 * kibibyte, 0],
      [64 * kibibyte, 0],
      [64 * kibibyte, 0],
    ],
    64,
  ],
])('%s', (_name, taken, kibibytes) => {
  const stride = new PieceSizer();
  for (const [sizeBytes, elapsedMs] of taken) stride.note(sizeBytes, elapsedMs);
  expect(stride.bytes).toBe(kibibytes * kibibyte);
});
