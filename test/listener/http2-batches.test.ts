/** The size of the batches that are written to HTTP/2 clients. */

import { expect, it } from 'vitest';
import { BatchSizer } from '../../src/listener/http2/frames.ts';

const kibibyte = 1024;

it.each<[string, readonly (readonly [sizeBytes: number, elapsedMs: number])[], number]>([
  ['at first', [], 16],
  ['a batch that was taken soon', [[16 * kibibyte, 250]], 32],
  ['a batch that was taken neither soon nor late', [[16 * kibibyte, 1_000]], 16],
  ['less than a batch, which changes nothing', [[16 * kibibyte - 1, 0]], 16],
  ['a batch that was taken late', [[16 * kibibyte, 1_001]], 4],
  ['less than a batch, taken late', [[1, 5_000]], 4],
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
      [128 * kibibyte, 0],
      [128 * kibibyte, 0],
    ],
    128,
  ],
])('%s', (_name, taken, kibibytes) => {
  const sizer = new BatchSizer();
  for (const [sizeBytes, elapsedMs] of taken) sizer.note(sizeBytes, elapsedMs);
  expect(sizer.bytes).toBe(kibibytes * kibibyte);
});
