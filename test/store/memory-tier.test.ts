/** The memory tier: one bound for entries and blocks, of which blocks have what entries leave. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { blockWeight, entryWeight } from '../../src/store/memory/memory-size.ts';
import { createMemoryTier } from '../../src/store/memory/memory-tier.ts';
import type { StoredEntry } from '../../src/store/store.ts';
import { sampleMetadata } from '../support/stored-sample.ts';

const size = 1000;
const bytes = new Uint8Array(size);
const maxSizeBytes = 64 * blockWeight(size);

/** An entry of which only the weight counts. */
function entry(key: string): StoredEntry {
  return { key, variant: '', metadata: sampleMetadata() } as StoredEntry;
}

/** A tier with as many blocks as fit, and how many that are. */
function fullTier() {
  const tier = createMemoryTier({ maxSizeBytes });
  for (let index = 0; tier.hasRoomFor(size); index += 1) tier.keepBlock('g', index, bytes);
  return tier;
}

describe('the room of blocks', () => {
  it('is all that there is, as long as there are no entries', () => {
    expect(fullTier().blockCount).toBe(64);
  });

  it('becomes less by what entries take, and more by what they leave', () => {
    const tier = fullTier();
    tier.keepEntries('k', [entry('k')]);
    const left = 64 - Math.ceil((entryWeight('k', '', sampleMetadata()) + 1) / blockWeight(size));
    expect(tier.blockCount).toBe(left);
    expect(tier.hasRoomFor(size)).toBe(false);
    tier.forgetEntries('k');
    expect(tier.hasRoomFor(size)).toBe(true);
    tier.keepEntries('k', [entry('k')]);
    tier.clear();
    for (let index = 0; index < 64; index += 1) tier.keepBlock('g', index, bytes);
    expect(tier.blockCount).toBe(64);
  });

  it('is never less than seven eighths, for the entries that were used longest ago leave then', () => {
    const tier = fullTier();
    for (let at = 0; at < 1000; at += 1) tier.keepEntries(`k${at}`, [entry(`k${at}`)]);
    expect(tier.blockCount).toBeGreaterThanOrEqual(56);
    expect([tier.entriesOf('k0'), tier.entriesOf('k999')?.length]).toEqual([undefined, 1]);
  });
});

it('never keeps more than its bound, whatever comes and goes', () => {
  const key = fc.nat(40).map((at) => `k${at}`);
  const step = fc.oneof(
    fc.record({ keep: key }),
    fc.record({ forget: key }),
    fc.record({ block: fc.nat(100), length: fc.integer({ min: 1, max: 4 * size }) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const tier = createMemoryTier({ maxSizeBytes });
      for (const taken of steps) {
        if ('keep' in taken) tier.keepEntries(taken.keep, [entry(taken.keep)]);
        else if ('forget' in taken) tier.forgetEntries(taken.forget);
        else tier.keepBlock('g', taken.block, new Uint8Array(taken.length));
        expect(tier.sizeBytes).toBeLessThanOrEqual(maxSizeBytes);
      }
    }),
  );
});
