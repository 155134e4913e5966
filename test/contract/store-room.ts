/** What every store promises about its size. */

import { expect, it } from 'vitest';
import type { Store, StoredEntry } from '../../src/store/store.ts';
import { patternBytes } from '../support/pattern-body.ts';
import { findFirst, openSampleWriter, readKey, storeSample } from '../support/stored-sample.ts';
import type { OpenStore } from './store-contract.ts';

const key = 'https://example.org/film.mp4';

/** Defines the tests of this part; `block` is the store's block size. */
export function room(openStore: OpenStore, block: number): void {
  it('stays within its size', async () => {
    const store = await openStore(64);
    for (let at = 0; at < 40; at += 1) await storeSample(store, { key: `k${at}`, sizeBytes: 4 * block, seed: at });
    const kept: number[] = [];
    for (let at = 0; at < 40; at += 1) {
      const bytes = await readKey(store, `k${at}`);
      if (bytes === undefined) continue;
      kept.push(at);
      expect(bytes).toEqual(Buffer.from(patternBytes(0, 4 * block, at)));
    }
    expect(kept.length).toBeGreaterThan(1);
    expect(kept.length).toBeLessThanOrEqual(64 / 4);
    expect(kept).toContain(39);
  });

  const uses: readonly [string, (store: Store, entry: StoredEntry) => Promise<unknown>][] = [
    ['opened', async (_, entry) => (await entry.open()).close()],
    ['peeked at for a block', async (_, entry) => entry.peekBlock(0)],
  ];
  for (const [what, use] of uses) {
    it(`pushes out an idle entry before one that is ${what}`, async () => {
      const store = await openStore(64);
      await storeSample(store, { key: 'used', sizeBytes: 4 * block, seed: 1 });
      await storeSample(store, { key: 'idle', sizeBytes: 4 * block, seed: 2 });
      for (let at = 0; at < 40; at += 1) {
        await use(store, (await findFirst(store, 'used')) as StoredEntry);
        await storeSample(store, { key: `k${at}`, sizeBytes: 4 * block, seed: at });
      }
      expect(await readKey(store, 'idle')).toBeUndefined();
      expect(await readKey(store, 'used')).toEqual(Buffer.from(patternBytes(0, 4 * block, 1)));
    });
  }

  it('refuses a body that is known to be too large', async () => {
    const store = await openStore(64);
    const opening = openSampleWriter(store, { key, sizeBytes: store.maxEntryBytes + 1 });
    await expect(opening).rejects.toMatchObject({ name: 'StoreFault', reason: 'too_large' });
  });

  it('refuses a body that grows too large, and is as before', async () => {
    const store = await openStore(64);
    await storeSample(store, { key: 'small', sizeBytes: 1 });
    const sizeBytes = store.maxEntryBytes + block;
    const storing = storeSample(store, { key, sizeBytes }, 'unknown');
    await expect(storing).rejects.toMatchObject({ name: 'StoreFault', reason: 'too_large' });
    expect(await store.find(key)).toEqual([]);
    await storeSample(store, { key, sizeBytes: store.maxEntryBytes - (store.maxEntryBytes % block) });
    expect(await store.find(key)).toHaveLength(1);
  });

  it('counts what writers hold, refuses more than fits, and has the room again afterwards', async () => {
    const store = await openStore(64);
    const writers: Awaited<ReturnType<typeof openSampleWriter>>[] = [];
    const openMany = async () => {
      for (let at = 0; at < 20; at += 1) {
        writers.push(await openSampleWriter(store, { key: `w${at}`, sizeBytes: store.maxEntryBytes }));
      }
    };
    await expect(openMany()).rejects.toMatchObject({ name: 'StoreFault', reason: 'no_room' });
    for (const writer of writers) await writer[Symbol.asyncDispose]();
    await storeSample(store, { key, sizeBytes: 4 * block, seed: 9 });
    expect(await readKey(store, key)).toEqual(Buffer.from(patternBytes(0, 4 * block, 9)));
  });
}
