/** Pattern bodies differ at every offset. */

import { expect, it } from 'vitest';
import { patternByte, patternBytes } from './pattern-body.ts';

it('a slice depends only on its offsets, beyond 2^32 too', () => {
  for (const start of [0, 1, 65_535, 2 ** 32 - 5, 2 ** 40]) {
    const bytes = patternBytes(start, start + 100, 3);
    expect(patternBytes(start + 40, start + 60, 3)).toEqual(bytes.slice(40, 60));
    expect(bytes[7]).toBe(patternByte(start + 7, 3));
  }
});

it('slices at different offsets and of different seeds differ', () => {
  const seen = new Set<string>();
  for (const seed of [0, 1, 2]) {
    for (let power = 4; power < 48; power += 1) {
      seen.add(Buffer.from(patternBytes(2 ** power, 2 ** power + 16, seed)).toString('hex'));
    }
  }
  expect(seen.size).toBe(3 * 44);
});
