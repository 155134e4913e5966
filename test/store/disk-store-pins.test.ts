/** Pinned generations in the disk store: they outlive a restart, and are removed soon after their pins end. */

import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { bodyFiles, openTestStore } from '../support/stores/disk-store.ts';
import {
  canOpen,
  openSampleWriter,
  readEntry,
  sampleMetadata,
  storeSample,
  writeSample,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const block = 16 * 1024;
const pinMs = 60_000;

/** Stores two generations of each key, the first one pinned; returns when all pins end, in epoch milliseconds. */
async function storePinned(store: Store, keys: readonly string[], sizeBytes: number, now: number): Promise<number> {
  const pinPreviousUntil = now + pinMs;
  for (const key of keys) {
    await storeSample(store, { key, sizeBytes, seed: 1 });
    const sample = { key, sizeBytes, seed: 2 };
    await using writer = await openSampleWriter(store, sample);
    await writeSample(writer, block, sample);
    await writer.commit({ metadata: sampleMetadata(2), sizeBytes, pinPreviousUntil });
  }
  return pinPreviousUntil;
}

/** Counts the rows, and the pinned ones, of the index of a closed store. */
function rowsOf(dir: string): { rows: unknown; pinned: unknown } {
  const database = new DatabaseSync(join(dir, 'index.sqlite'));
  try {
    const { rows, pinned } = {
      ...database.prepare('SELECT COUNT(*) AS rows, COUNT(pinned_until) AS pinned FROM entries').get(),
    };
    return { rows, pinned };
  } finally {
    database.close();
  }
}

describe('a restart', () => {
  it.each([700, 5 * block])('keeps a generation whose pin has not ended: %i bytes', async (sizeBytes) => {
    const first = await openTestStore();
    const pinnedUntil = await storePinned(first.store, ['k'], sizeBytes, first.clock.now());
    await first.store.close();
    const { store } = await openTestStore({ dir: first.dir });
    const found = await store.find('k');
    expect(found.map((entry) => entry.pinnedUntil)).toEqual([undefined, pinnedUntil]);
    for (const [at, entry] of found.entries()) {
      expect(await readEntry(store, entry)).toEqual(Buffer.from(patternBytes(0, sizeBytes, 2 - at)));
    }
  });

  it('removes all generations whose pins have ended, with their files', async () => {
    const first = await openTestStore();
    const keys = Array.from({ length: 200 }, (_, at) => `k${at}`);
    await storePinned(first.store, keys, 700, first.clock.now());
    await storePinned(first.store, ['file'], 5 * block, first.clock.now());
    await first.store.close();
    expect(rowsOf(first.dir)).toEqual({ rows: 402, pinned: 201 });
    expect(await bodyFiles(first.dir)).toHaveLength(4);
    const now = () => first.clock.now() + 2 * pinMs;
    const { store } = await openTestStore({ dir: first.dir, now });
    await expect.poll(() => bodyFiles(first.dir)).toHaveLength(2);
    await expect.poll(() => canOpen(store, 'file')).toBe(true);
    await store.close();
    expect(rowsOf(first.dir)).toEqual({ rows: 201, pinned: 0 });
  });
});

it('generations whose pins have ended are evicted before current ones', async () => {
  const sizeBytes = 4 * block;
  const { store, clock } = await openTestStore({ maxSizeBytes: 24 * sizeBytes });
  const keys = Array.from({ length: 10 }, (_, at) => `k${at}`);
  await storePinned(store, keys, sizeBytes, clock.now());
  clock.advance(2 * pinMs);
  await using writer = await openSampleWriter(store, { key: 'large', sizeBytes: 9 * sizeBytes });
  await writeSample(writer, block, { key: 'large', sizeBytes: 9 * sizeBytes });
  expect(await Promise.all(keys.map((key) => canOpen(store, key)))).toEqual(keys.map(() => true));
});

it('a pin that was altered in the index costs the entry', async () => {
  const first = await openTestStore();
  await storePinned(first.store, ['k'], 700, first.clock.now());
  await storeSample(first.store, { key: 'other', sizeBytes: 700 });
  await first.store.close();
  const database = new DatabaseSync(join(first.dir, 'index.sqlite'));
  database.exec(`
    UPDATE entries SET pinned_until = NULL WHERE pinned_until IS NOT NULL;
    UPDATE entries SET pinned_until = 1 << 50 WHERE key = 'other';
  `);
  database.close();
  const { store, events } = await openTestStore({ dir: first.dir });
  expect(await store.find('k')).toMatchObject([{ metadata: sampleMetadata(2) }]);
  expect(await store.find('other')).toEqual([]);
  expect(events.map(({ level }) => level)).toEqual(['warn', 'warn']);
});
