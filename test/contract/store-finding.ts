/** The contract of a store: look-ups, replaced metadata and removals. */

import { expect, it } from 'vitest';
import type { StoredEntry } from '../../src/store/store.ts';
import {
  findFirst,
  openSampleWriter,
  readEntry,
  readKey,
  sampleMetadata,
  storeSample,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import type { OpenStore } from './store-contract.ts';

const key = 'https://example.org/film.mp4';

/** Defines the tests of this part; `block` is the store's block size. */
export function finding(openStore: OpenStore, block: number): void {
  it('keeps the variants of a key apart, the last committed first', async () => {
    const store = await openStore();
    for (const [at, variant] of ['gzip', 'br', 'plain', 'gzip'].entries()) {
      await storeSample(store, { key, variant, sizeBytes: block, seed: at });
    }
    await storeSample(store, { key: `${key}?other`, sizeBytes: 1 });
    const entries = await store.find(key);
    expect(entries.map((entry) => entry.variant)).toEqual(['gzip', 'plain', 'br']);
    for (const [at, seed] of [3, 2, 1].entries()) {
      const entry = entries[at] as StoredEntry;
      expect(await readEntry(store, entry)).toEqual(Buffer.from(patternBytes(0, block, seed)));
    }
  });

  it('peeks at the same entries as it finds, or cannot peek', async () => {
    const store = await openStore();
    const lookUp = async () => {
      const found = (await store.find(key)).map((entry) => entry.generation);
      const peeked = store.peek(key)?.map((entry) => entry.generation);
      expect(peeked ?? found).toEqual(found);
      return found.length;
    };
    expect(await lookUp()).toBe(0);
    const entry = await storeSample(store, { key, sizeBytes: block });
    expect(await lookUp()).toBe(1);
    await storeSample(store, { key, variant: 'b', sizeBytes: block });
    expect(await lookUp()).toBe(2);
    await store.removeEntry(entry);
    expect(await lookUp()).toBe(1);
    await store.removeKey(key);
    expect(await lookUp()).toBe(0);
  });

  it('replaces metadata without changing the body', async () => {
    const store = await openStore();
    const old = await storeSample(store, { key, sizeBytes: 2 * block, seed: 5 });
    const fresh = await store.replaceMetadata(old, sampleMetadata('fresh'));
    expect(fresh).toMatchObject({ generation: old.generation, sizeBytes: 2 * block, variant: '' });
    for (const entry of [fresh, await findFirst(store, key), store.peek(key)?.[0] ?? fresh]) {
      expect(entry?.metadata).toEqual(sampleMetadata('fresh'));
    }
    expect(old.metadata).toEqual(sampleMetadata(5));
    expect(await readKey(store, key)).toEqual(Buffer.from(patternBytes(0, 2 * block, 5)));
  });

  it('keeps the order of variants when metadata is replaced', async () => {
    const store = await openStore();
    const older = await storeSample(store, { key, variant: 'older', sizeBytes: 1 });
    await storeSample(store, { key, variant: 'newer', sizeBytes: 1 });
    await store.replaceMetadata(older, sampleMetadata('fresh'));
    expect((await store.find(key)).map((entry) => entry.variant)).toEqual(['newer', 'older']);
  });

  it('does not replace the metadata of a generation that is not current', async () => {
    const store = await openStore();
    const old = await storeSample(store, { key, sizeBytes: block, seed: 1 });
    const current = await storeSample(store, { key, sizeBytes: block, seed: 2 });
    expect(await store.replaceMetadata(old, sampleMetadata('late'))).toBeUndefined();
    expect((await findFirst(store, key))?.metadata).toEqual(sampleMetadata(2));
    await store.removeEntry(current);
    expect(await store.replaceMetadata(current, sampleMetadata('late'))).toBeUndefined();
    expect(await store.find(key)).toEqual([]);
  });

  it('keeps the current generation when an earlier one is removed', async () => {
    const store = await openStore();
    const old = await storeSample(store, { key, sizeBytes: block, seed: 1 });
    const current = await storeSample(store, { key, sizeBytes: block, seed: 2 });
    await store.removeEntry(old);
    expect((await findFirst(store, key))?.generation).toBe(current.generation);
    expect(await readKey(store, key)).toEqual(Buffer.from(patternBytes(0, block, 2)));
  });

  it('counts the variants that it removes with a key', async () => {
    const store = await openStore();
    for (const variant of ['a', 'b', 'c']) await storeSample(store, { key, variant, sizeBytes: block });
    await storeSample(store, { key: `${key}?other`, sizeBytes: block });
    expect(await store.removeKey(key)).toBe(3);
    expect(await store.removeKey(key)).toBe(0);
    expect(await store.find(key)).toEqual([]);
    expect(await store.find(`${key}?other`)).toHaveLength(1);
  });

  it('accepts a commit after the key was removed', async () => {
    const store = await openStore();
    await using writer = await openSampleWriter(store, { key, sizeBytes: 1 });
    await store.removeKey(key);
    await writer.writeBlock(0, patternBytes(0, 1));
    await writer.commit({ metadata: sampleMetadata(), sizeBytes: 1 });
    expect(await store.find(key)).toHaveLength(1);
  });
}
