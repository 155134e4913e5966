/** The contract of a store: writing a body of one block in one step, with `openWhole`. */

import { expect, it } from 'vitest';
import type { Store, WholeWriter } from '../../src/store/store.ts';
import { findFirst, readKey, sampleMetadata, storeSample } from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import type { OpenStore } from './store-contract.ts';

const key = 'https://example.org/image.png';

function openWhole(store: Store, bytes: Uint8Array, variant = ''): WholeWriter | undefined {
  return store.openWhole?.({ key, variant, metadata: sampleMetadata(), sizeBytes: bytes.length }, bytes);
}

/** Defines the tests of this part; `block` is the store's block size. A store without `openWhole` passes. */
export function whole(openStore: OpenStore, block: number): void {
  for (const sizeBytes of [1, block - 1, block]) {
    it(`keeps ${sizeBytes} bytes`, async () => {
      const store = await openStore();
      const writer = openWhole(store, patternBytes(0, sizeBytes, 7));
      if (writer === undefined) return;
      expect(await store.find(key)).toEqual([]);
      const entry = await writer.commit({ metadata: sampleMetadata(7), sizeBytes });
      await writer[Symbol.asyncDispose]();
      const found = await findFirst(store, key);
      for (const each of [entry, found]) {
        expect(each).toMatchObject({ key, generation: writer.generation, sizeBytes, isComplete: true });
        expect(each?.metadata).toEqual(sampleMetadata(7));
      }
      expect(new Uint8Array((await readKey(store, key)) ?? [])).toEqual(patternBytes(0, sizeBytes, 7));
    });
  }

  it('forgets a writer that is disposed without a commit, and frees its room', async () => {
    const store = await openStore(8);
    const before = store.readUsage().usedBytes;
    for (let round = 0; round < 20; round += 1) {
      const writer = openWhole(store, patternBytes(0, block));
      await writer?.[Symbol.asyncDispose]();
      await writer?.[Symbol.asyncDispose]();
    }
    expect(await store.find(key)).toEqual([]);
    expect(store.readUsage().usedBytes).toBe(before);
  });

  it('replaces an earlier generation, and pins it where that is wanted', async () => {
    const store = await openStore();
    const earlier = await storeSample(store, { key, sizeBytes: block, seed: 1 });
    const writer = openWhole(store, patternBytes(0, block, 2), earlier.variant);
    if (writer === undefined) return;
    const pinPreviousUntil = 1_700_000_060_000;
    await writer.commit({ metadata: sampleMetadata(2), sizeBytes: block, pinPreviousUntil });
    await writer[Symbol.asyncDispose]();
    const generations = (await store.find(key)).map(({ generation }) => generation);
    expect(generations).toEqual([writer.generation, earlier.generation]);
  });

  it('counts the room of the body, and removes it with its key', async () => {
    const store = await openStore();
    const before = store.readUsage();
    const writer = openWhole(store, patternBytes(0, block));
    if (writer === undefined) return;
    await writer.commit({ metadata: sampleMetadata(), sizeBytes: block });
    expect(store.readUsage().usedBytes).toBeGreaterThanOrEqual(before.usedBytes + block);
    expect(await store.removeKey(key)).toBe(1);
    await writer[Symbol.asyncDispose]();
    expect(await store.find(key)).toEqual([]);
    expect(store.readUsage().entryCount).toBe(before.entryCount);
  });

  it('refuses a body larger than `maxEntryBytes`', async () => {
    const store = await openStore(64, { maxEntryBytes: block - 1 });
    expect(openWhole(store, patternBytes(0, block))).toBeUndefined();
  });

  it('stays within its size, and refuses where room would have to be made', async () => {
    const store = await openStore(32);
    for (let round = 0; round < 200; round += 1) {
      const bytes = patternBytes(0, block, round);
      const entry = { key: `${key}?${round}`, variant: '', metadata: sampleMetadata(), sizeBytes: block };
      const writer = store.openWhole?.(entry, bytes);
      const { usedBytes, maxSizeBytes } = store.readUsage();
      expect(usedBytes).toBeLessThanOrEqual(maxSizeBytes);
      if (writer === undefined) return;
      await writer.commit({ metadata: sampleMetadata(), sizeBytes: block }).catch(() => {});
      await writer[Symbol.asyncDispose]();
    }
  });
}
