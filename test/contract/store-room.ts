/** The contract of a store: its size. */

import { expect, it } from 'vitest';
import type { Store, StoredEntry } from '../../src/store/store.ts';
import {
  blockOf,
  canOpen,
  findFirst,
  openSampleWriter,
  pushOut,
  readKey,
  sampleMetadata,
  storePart,
  storeSample,
  writeBlocks,
  writeSample,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import type { OpenStore } from './store-contract.ts';

const key = 'https://example.org/film.mp4';

/** Defines the tests of this part; `block` is the store's block size. */
export function room(openStore: OpenStore, block: number, boundsItself: boolean): void {
  limits(openStore, block);
  if (boundsItself) bounds(openStore, block);
}

/** The size of one body. */
function limits(openStore: OpenStore, block: number): void {
  it('refuses a body that is known to be too large', async () => {
    const store = await openStore(64);
    const opening = openSampleWriter(store, { key, sizeBytes: store.maxEntryBytes + 1 });
    await expect(opening).rejects.toMatchObject({ name: 'StoreFault', reason: 'too_large' });
  });

  it('refuses a body that grows too large, and works as before', async () => {
    const store = await openStore(64);
    await storeSample(store, { key: 'small', sizeBytes: 1 });
    const sizeBytes = store.maxEntryBytes + block;
    const storing = storeSample(store, { key, sizeBytes }, 'unknown');
    await expect(storing).rejects.toMatchObject({ name: 'StoreFault', reason: 'too_large' });
    expect(await store.find(key)).toEqual([]);
    await storeSample(store, { key, sizeBytes: store.maxEntryBytes - (store.maxEntryBytes % block) });
    expect(await store.find(key)).toHaveLength(1);
  });

  it('accepts bodies up to `maxEntryBytes`, and no larger ones', async () => {
    const maxEntryBytes = 40 * block + 1;
    const store = await openStore(64, { maxEntryBytes });
    expect(store.maxEntryBytes).toBe(maxEntryBytes);
    const fault = { name: 'StoreFault', reason: 'too_large' };
    await expect(openSampleWriter(store, { key, sizeBytes: maxEntryBytes + 1 })).rejects.toMatchObject(fault);
    await using writer = await openSampleWriter(store, { key, sizeBytes: maxEntryBytes + 1 }, 'unknown');
    await writeBlocks(writer, block, { key, sizeBytes: 40 * block }, Array(40).keys());
    await expect(writer.writeBlock(40, patternBytes(0, 2))).rejects.toMatchObject(fault);
    expect(Buffer.from(await writer.readBlock(39))).toEqual(
      Buffer.from(blockOf({ key, sizeBytes: 40 * block }, block, 39)),
    );
    await writer.writeBlock(40, patternBytes(40 * block, maxEntryBytes));
    await writer.commit({ metadata: sampleMetadata(), sizeBytes: maxEntryBytes });
    expect(await readKey(store, key)).toEqual(Buffer.from(patternBytes(0, maxEntryBytes)));
  });
}

/** The size of the whole store. */
function bounds(openStore: OpenStore, block: number): void {
  it('stays within its size', async () => {
    const store = await openStore(64);
    for (let at = 0; at < 40; at += 1) await storeSample(store, { key: `k${at}`, sizeBytes: 4 * block, seed: at });
    const found: number[] = [];
    for (let at = 0; at < 40; at += 1) {
      const bytes = await readKey(store, `k${at}`);
      if (bytes === undefined) continue;
      found.push(at);
      expect(bytes).toEqual(Buffer.from(patternBytes(0, 4 * block, at)));
    }
    expect(found.length).toBeGreaterThan(1);
    expect(found.length).toBeLessThanOrEqual(64 / 4);
    expect(found).toContain(39);
  });

  const uses: readonly [string, (store: Store, entry: StoredEntry) => Promise<unknown>][] = [
    ['opened', async (_, entry) => (await entry.open()).close()],
    ['peeked at for a block', async (_, entry) => entry.peekBlock(0)],
  ];
  for (const [useName, use] of uses) {
    it(`evicts an idle entry before one that is ${useName}`, async () => {
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

  it('does not count a query for the present blocks as a use', async () => {
    const store = await openStore(64);
    await storeSample(store, { key: 'used', sizeBytes: 4 * block, seed: 1 });
    await storeSample(store, { key: 'asked', sizeBytes: 4 * block, seed: 2 });
    for (let at = 0; at < 40; at += 1) {
      expect(await canOpen(store, 'used')).toBe(true);
      const entry = await findFirst(store, 'asked');
      // An evicted entry may still be found for a while.
      await entry?.readPresence().catch((error) => expect(error).toMatchObject({ code: 'bytes_gone' }));
      await storeSample(store, { key: `k${at}`, sizeBytes: 4 * block, seed: at });
    }
    expect(await readKey(store, 'asked')).toBeUndefined();
    expect(await readKey(store, 'used')).toEqual(Buffer.from(patternBytes(0, 4 * block, 1)));
  });

  it('counts the bytes of writers, refuses more than fit, and frees their room afterwards', async () => {
    const store = await openStore(64);
    const writers: Awaited<ReturnType<typeof openSampleWriter>>[] = [];
    const sizeBytes = store.maxEntryBytes - (store.maxEntryBytes % block);
    const writeMany = async () => {
      for (let at = 0; at < 20; at += 1) {
        const writer = await openSampleWriter(store, { key: `w${at}`, sizeBytes });
        writers.push(writer);
        await writeSample(writer, block, { key: `w${at}`, sizeBytes });
      }
    };
    await expect(writeMany()).rejects.toMatchObject({ name: 'StoreFault', reason: 'no_room' });
    for (const writer of writers) await writer[Symbol.asyncDispose]();
    await storeSample(store, { key, sizeBytes: 4 * block, seed: 9 });
    expect(await readKey(store, key)).toEqual(Buffer.from(patternBytes(0, 4 * block, 9)));
  });

  it('does not evict an entry that is being written', async () => {
    const store = await openStore(64);
    const sample = { key, sizeBytes: 8 * block, seed: 1 };
    const written = await storePart(store, { ...sample, key: 'resumed' }, [0, 1]);
    const resumed = await store.resume(written);
    const published = await openSampleWriter(store, sample);
    await writeBlocks(published, block, sample, [3]);
    await published.publish(sampleMetadata(1));
    await pushOut(store, 4 * block);
    for (const each of [key, 'resumed']) expect(await canOpen(store, each)).toBe(true);
    await published[Symbol.asyncDispose]();
    await resumed?.[Symbol.asyncDispose]();
    for (const name of ['more', 'yet more']) await pushOut(store, 4 * block, name);
    for (const each of [key, 'resumed']) expect(await canOpen(store, each)).toBe(false);
  });

  it('counts only the present blocks of a part', async () => {
    const store = await openStore(256);
    const sizeBytes = 60 * block;
    const keys = [...Array(8).keys()].map((at) => `part${at}`);
    for (const each of keys) await storePart(store, { key: each, sizeBytes }, [59, 3]);
    expect(await Promise.all(keys.map((each) => canOpen(store, each)))).toEqual(keys.map(() => true));
  });

  it('counts blocks that are added to a part', async () => {
    const store = await openStore(64);
    const sample = { key, sizeBytes: 14 * block };
    await storeSample(store, { key: 'earlier', sizeBytes: 8 * block });
    for (let at = 0; at < 8; at += 1) {
      const part = { ...sample, key: `part${at}` };
      const writer = await store.resume(await storePart(store, part, [0]));
      if (writer === undefined) throw new Error('a part is gone');
      await writeSample(writer, block, part);
      await writer[Symbol.asyncDispose]();
    }
    expect(await canOpen(store, 'earlier')).toBe(false);
    const isPresent = await Promise.all([...Array(8).keys()].map((at) => canOpen(store, `part${at}`)));
    expect(isPresent.filter(Boolean).length).toBeLessThanOrEqual(64 / 14);
    expect(isPresent.at(-1)).toBe(true);
  });
}
