/** The bound of the memory store: all bytes that it keeps alive count. */

import { describe, expect, it } from 'vitest';
import { createMemoryStore } from '../../src/store/memory/memory-store.ts';
import type { EntryWriter, Store, StoredEntry } from '../../src/store/store.ts';
import { sequentialIds } from '../support/clocks/sequential-ids.ts';
import {
  openSampleWriter,
  readAll,
  sampleMetadata,
  storePart,
  storeSample,
  writeSample,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const block = 1024;
const maxSizeBytes = 64 * block;
const sizeBytes = 8 * block;

function createStore(): Store {
  return createMemoryStore({ maxSizeBytes, blockSizeBytes: block, now: () => 0, randomId: sequentialIds() });
}

/** Stores entries until the first one is evicted; returns the others. */
async function fill(store: Store): Promise<StoredEntry[]> {
  const entries: StoredEntry[] = [];
  for (;;) {
    entries.push(await storeSample(store, { key: `k${entries.length}`, sizeBytes, seed: entries.length }));
    if (store.peek('k0')?.length === 0) return entries.slice(1);
  }
}

describe('an entry with a reader', () => {
  it('is not evicted, and new entries are refused meanwhile', async () => {
    const store = createStore();
    const readers = await Promise.all((await fill(store)).map((entry) => entry.open()));
    await expect(storeSample(store, { key: 'new', sizeBytes })).rejects.toMatchObject({ reason: 'no_room' });
    expect(store.peek('k1')).toHaveLength(1);
    readers[0]?.close();
    await storeSample(store, { key: 'new', sizeBytes });
    expect(store.peek('k1')).toEqual([]);
    expect(store.peek('k2')).toHaveLength(1);
    for (const reader of readers) reader.close();
  });

  it('counts after its removal, until its last reader is closed', async () => {
    const store = createStore();
    const [first, ...others] = await fill(store);
    if (first === undefined) throw new Error('the store took nothing');
    const [one, two] = [await first.open(), await first.open()];
    for (const entry of others) await entry.open();
    await store.removeEntry(first);
    const storing = () => storeSample(store, { key: 'new', sizeBytes });
    await expect(storing()).rejects.toMatchObject({ reason: 'no_room' });
    one.close();
    one.close();
    await expect(storing()).rejects.toMatchObject({ reason: 'no_room' });
    expect(await readAll(two, sizeBytes, block)).toEqual(Buffer.from(patternBytes(0, sizeBytes, 1)));
    two.close();
    await storing();
  });
});

it('bytes that a writer can still read count after the entry was removed', async () => {
  const store = createStore();
  const sample = { key: 'k', sizeBytes: 12 * block };
  const writers: EntryWriter[] = [];
  for (let at = 0; at < 3; at += 1) {
    const writer = await openSampleWriter(store, sample);
    await writeSample(writer, block, sample);
    await writer.commit({ metadata: sampleMetadata(), sizeBytes: sample.sizeBytes });
    writers.push(writer);
  }
  await store.removeKey('k');
  const [first] = writers;
  if (first === undefined) throw new Error('there is no writer');
  await expect(storeSample(store, sample)).rejects.toMatchObject({ reason: 'no_room' });
  expect(await readAll(first, sample.sizeBytes, block)).toEqual(Buffer.from(patternBytes(0, sample.sizeBytes)));
  await first[Symbol.asyncDispose]();
  await storeSample(store, sample);
});

describe('the room of a part', () => {
  const sample = { key: 'k', sizeBytes: 15 * block };

  it('grows with its blocks, and is free again once it is removed and its writer is disposed', async () => {
    const store = createStore();
    const writers: EntryWriter[] = [];
    for (let at = 0; at < 3; at += 1) {
      const part = { ...sample, key: `k${at}` };
      const writer = await store.resume(await storePart(store, part, [3]));
      if (writer === undefined) throw new Error('the part is gone');
      await writeSample(writer, block, part);
      writers.push(writer);
    }
    // Three parts of 15 blocks leave no room for another 15 blocks.
    await expect(storeSample(store, sample)).rejects.toMatchObject({ reason: 'no_room' });
    await store.removeKey('k0');
    await expect(storeSample(store, sample)).rejects.toMatchObject({ reason: 'no_room' });
    for (const writer of writers) await writer[Symbol.asyncDispose]();
    expect(store.peek('k1')).toHaveLength(1);
    await storeSample(store, sample);
    expect(store.peek('k1')).toHaveLength(1);
  });

  it('includes blocks that are written after its removal', async () => {
    const store = createStore();
    const writers: EntryWriter[] = [];
    for (let at = 0; at < 3; at += 1) {
      const part = { ...sample, key: `k${at}` };
      const writer = await store.resume(await storePart(store, part, []));
      if (writer === undefined) throw new Error('the part is gone');
      await store.removeKey(part.key);
      await writeSample(writer, block, part);
      writers.push(writer);
    }
    await expect(storeSample(store, sample)).rejects.toMatchObject({ reason: 'no_room' });
    for (const writer of writers) await writer[Symbol.asyncDispose]();
    for (let at = 0; at < 3; at += 1) await storeSample(store, { ...sample, key: `k${at}` });
    for (let at = 0; at < 3; at += 1) expect(store.peek(`k${at}`)).toHaveLength(1);
  });
});

it('entries without bytes count too', async () => {
  const store = createStore();
  for (let at = 0; at < 200; at += 1) await storeSample(store, { key: `k${at}`, sizeBytes: 0 });
  const found = Array.from({ length: 200 }, (_, at) => store.peek(`k${at}`)?.length ?? 0);
  const count = found.reduce((sum, one) => sum + one, 0);
  expect(count).toBeGreaterThan(10);
  expect(count).toBeLessThan(maxSizeBytes / 1000);
});

it('a small block does not keep alive the pool that it came from', async () => {
  const store = createStore();
  const pooled = Buffer.from('a small piece of a pool');
  await using writer = await openSampleWriter(store, { key: 'k', sizeBytes: pooled.length });
  await writer.writeBlock(0, pooled);
  expect(writer.peekBlock(0)?.buffer.byteLength).toBe(pooled.length);
});
