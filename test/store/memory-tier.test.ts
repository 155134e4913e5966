/** The memory tier: entries and blocks share one bound, and the least used ones leave. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { packResponse } from '../../src/http/packed-response.ts';
import { entryWeight } from '../../src/store/memory/memory-shelf.ts';
import type { StoredEntry } from '../../src/store/store.ts';
import { createMemoryTier, keptBlockWeight } from '../../src/store/tiered/memory-tier.ts';
import { sampleMetadata } from '../support/stores/stored-sample.ts';

const size = 1000;
const bytes = new Uint8Array(size);
const maxSizeBytes = 64 * keptBlockWeight(size);

/** Returns an entry of which only the weight matters. */
function entry(key: string): StoredEntry {
  return { key, variant: '', metadata: sampleMetadata() } as StoredEntry;
}

/** Creates a tier filled with blocks. */
function fullTier() {
  const tier = createMemoryTier({ maxSizeBytes });
  for (let index = 0; tier.hasRoomFor(size); index += 1) tier.keepBlock('g', index, bytes);
  return tier;
}

describe('one bound for entries and blocks', () => {
  it('is all for blocks while there are no entries', () => {
    expect(fullTier().blockCount).toBe(64);
  });

  it('evicts blocks for entries, and frees the room of forgotten entries', () => {
    const tier = fullTier();
    tier.keepEntries('k', [entry('k')]);
    const left = 64 - Math.ceil(entryWeight('k', '', sampleMetadata()) / keptBlockWeight(size));
    expect(tier.blockCount).toBe(left);
    tier.forgetEntries('k');
    expect(tier.hasRoomFor(size)).toBe(true);
    tier.keepEntries('k', [entry('k')]);
    tier.clear();
    expect(tier.sizeBytes).toBe(0);
    for (let index = 0; index < 64; index += 1) tier.keepBlock('g', index, bytes);
    expect(tier.blockCount).toBe(64);
  });

  it('can be filled with entries when no block is used', () => {
    const tier = fullTier();
    const weight = entryWeight('k0000', '', sampleMetadata());
    const fitting = Math.floor(maxSizeBytes / weight);
    const keys = Array.from({ length: fitting }, (_, at) => `k${String(at).padStart(4, '0')}`);
    for (const key of keys) tier.keepEntries(key, [entry(key)]);
    expect(keys.filter((key) => tier.entriesOf(key) === undefined)).toEqual([]);
    expect(tier.blockCount).toBeLessThan(64);
  });

  it('keeps used blocks, however many entries are looked up once', () => {
    const tier = fullTier();
    const hot = [0, 1, 2, 3];
    for (const index of hot) tier.block('g', index);
    for (let at = 0; at < 1000; at += 1) {
      tier.keepEntries(`k${at}`, [entry(`k${at}`)]);
      for (const index of hot) expect(tier.block('g', index), `block ${index} after ${at} entries`).toBeDefined();
    }
  });

  it('keeps used entries, however many blocks are read once', () => {
    const tier = createMemoryTier({ maxSizeBytes });
    tier.keepEntries('hot', [entry('hot')]);
    for (let index = 0; index < 1000; index += 1) {
      tier.keepBlock('scan', index, bytes);
      expect(tier.entriesOf('hot'), `after ${index} blocks`).toHaveLength(1);
    }
  });

  it('keeps no entries that are larger than the bound', () => {
    const tier = createMemoryTier({ maxSizeBytes: 2000 });
    tier.keepEntries('k', [entry('k'), entry('k')]);
    expect([tier.entriesOf('k'), tier.sizeBytes]).toEqual([undefined, 0]);
  });
});

it('keeps 20,000 entries of 1 KiB in 128 MB', () => {
  const tier = createMemoryTier({ maxSizeBytes: 128e6 });
  const fields = Array.from({ length: 9 }, (_, at) => [`x-field-${at}`, 'a value of usual length'] as const);
  const keys = Array.from({ length: 20_000 }, (_, at) => `https://library.example/thumbnails/2026/01/${at}.webp`);
  for (const key of keys) {
    const pack = () => packResponse({ ...sampleMetadata(), fields })?.length;
    tier.keepEntries(key, [{ ...entry(key), pack } as StoredEntry]);
    tier.keepBlock(key, 0, new Uint8Array(1024));
  }
  expect(keys.filter((key) => tier.entriesOf(key) === undefined || tier.block(key, 0) === undefined)).toEqual([]);
  // There is room for twice as many.
  expect(tier.sizeBytes).toBeLessThan(64e6);
});

it('never keeps more than its bound in random use', () => {
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
