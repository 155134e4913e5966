/** What every store promises. A store passes by being created here; see memory-store.test.ts for how. */

import { describe, expect, it, onTestFinished } from 'vitest';
import type { Store, StoredEntry } from '../../src/store/store.ts';
import { patternBytes } from '../support/pattern-body.ts';
import {
  findFirst,
  openSampleWriter,
  readAll,
  readEntry,
  readKey,
  sampleMetadata,
  storeSample,
  writeSample,
} from '../support/stored-sample.ts';
import { storeModel } from './store-model.ts';

/** What a store is created with; everything else it brings along. */
export interface StoreLimits {
  readonly maxSizeBytes: number;
  readonly blockSizeBytes: number;
}

/** Creates an empty store within the running test; cleans up by `onTestFinished`. The suite closes the store. */
export type CreateStore = (limits: StoreLimits) => Promise<Store>;

const key = 'https://example.org/film.mp4';

/** Runs the suite. `blockSizeBytes` decides how long the bodies are: a few blocks. */
export function storeContract(name: string, create: CreateStore, { blockSizeBytes = 1024 } = {}): void {
  const openStore = async (maxBlocks = 4096) => {
    const store = await create({ maxSizeBytes: maxBlocks * blockSizeBytes, blockSizeBytes });
    onTestFinished(() => store.close());
    return store;
  };
  describe(name, () => {
    describe('writing', () => writing(openStore, blockSizeBytes));
    describe('reading', () => reading(openStore, blockSizeBytes));
    describe('finding and changing', () => finding(openStore, blockSizeBytes));
    describe('room', () => room(openStore, blockSizeBytes));
    it('does what the simplest model does, in any order of steps', () => storeModel(create, blockSizeBytes));
  });
}

type OpenStore = (maxBlocks?: number) => Promise<Store>;

function writing(openStore: OpenStore, block: number): void {
  it('knows nothing before a commit', async () => {
    const store = await openStore();
    await using writer = await openSampleWriter(store, { key, sizeBytes: 2 * block });
    await writeSample(writer, block, { key, sizeBytes: 2 * block });
    expect(await store.find(key)).toEqual([]);
    expect(store.peek(key) ?? []).toEqual([]);
  });

  it('forgets a writer that is disposed without a commit', async () => {
    const store = await openStore();
    const writer = await openSampleWriter(store, { key, sizeBytes: 2 * block });
    await writeSample(writer, block, { key, sizeBytes: 2 * block });
    await writer[Symbol.asyncDispose]();
    await writer[Symbol.asyncDispose]();
    expect(await store.find(key)).toEqual([]);
  });

  const sizes = [0, 1, block - 1, block, block + 1, 3 * block, 3 * block + 7];
  for (const length of ['known', 'unknown'] as const) {
    for (const sizeBytes of sizes) {
      it(`keeps ${sizeBytes} bytes, length ${length} beforehand`, async () => {
        const store = await openStore();
        const entry = await storeSample(store, { key, variant: 'v', sizeBytes, seed: 7 }, length);
        const found = await findFirst(store, key);
        for (const each of [entry, found]) {
          expect(each).toMatchObject({ key, variant: 'v', generation: entry.generation, sizeBytes });
          expect(each?.metadata).toEqual(sampleMetadata(7));
        }
        expect(patternBytes(0, sizeBytes, 7)).toEqual(new Uint8Array((await readKey(store, key)) ?? []));
      });
    }
  }

  it('gives written blocks through the writer, before and after the commit', async () => {
    const store = await openStore();
    const sizeBytes = 2 * block + 5;
    await using writer = await openSampleWriter(store, { key, sizeBytes }, 'unknown');
    await writer.writeBlock(0, patternBytes(0, block));
    expect(await readAll(writer, block, block)).toEqual(Buffer.from(patternBytes(0, block)));
    await writer.writeBlock(1, patternBytes(block, 2 * block));
    await writer.writeBlock(2, patternBytes(2 * block, sizeBytes));
    expect(await readAll(writer, sizeBytes, block)).toEqual(Buffer.from(patternBytes(0, sizeBytes)));
    await writer.commit({ metadata: sampleMetadata(), sizeBytes });
    expect(await readAll(writer, sizeBytes, block)).toEqual(Buffer.from(patternBytes(0, sizeBytes)));
    await store.removeKey(key);
    expect(await readAll(writer, sizeBytes, block)).toEqual(Buffer.from(patternBytes(0, sizeBytes)));
  });

  it('has no block that was not written', async () => {
    const store = await openStore();
    await using writer = await openSampleWriter(store, { key, sizeBytes: 2 * block });
    await writer.writeBlock(0, patternBytes(0, block));
    expect(writer.peekBlock(1)).toBeUndefined();
    await expect(writer.readBlock(1)).rejects.toMatchObject({ code: 'bytes_gone' });
  });

  it('stores the metadata of the commit, not that of the opening', async () => {
    const store = await openStore();
    await using writer = await openSampleWriter(store, { key, sizeBytes: 0 });
    await writer.commit({ metadata: sampleMetadata('final'), sizeBytes: 0 });
    expect((await findFirst(store, key))?.metadata).toEqual(sampleMetadata('final'));
  });

  it('replaces the earlier generation with a commit, all at once', async () => {
    const store = await openStore();
    const first = await storeSample(store, { key, sizeBytes: 3 * block, seed: 1 });
    await using writer = await openSampleWriter(store, { key, sizeBytes: block, seed: 2 });
    await writeSample(writer, block, { key, sizeBytes: block, seed: 2 });
    expect((await store.find(key)).map((entry) => entry.generation)).toEqual([first.generation]);
    const second = await writer.commit({ metadata: sampleMetadata(2), sizeBytes: block });
    expect((await store.find(key)).map((entry) => entry.generation)).toEqual([second.generation]);
    expect(second.generation).not.toBe(first.generation);
    expect(await readKey(store, key)).toEqual(Buffer.from(patternBytes(0, block, 2)));
  });

  it('lets the last commit win when several writers write one key', async () => {
    const store = await openStore();
    const samples = [1, 2, 3].map((seed) => ({ key, sizeBytes: 2 * block, seed }));
    const writers = await Promise.all(samples.map((sample) => openSampleWriter(store, sample)));
    await Promise.all(writers.map((writer, at) => writeSample(writer, block, samples[at] ?? { key, sizeBytes: 0 })));
    for (const [at, writer] of writers.entries()) {
      await writer.commit({ metadata: sampleMetadata(at + 1), sizeBytes: 2 * block });
    }
    for (const writer of writers) await writer[Symbol.asyncDispose]();
    expect((await store.find(key)).map((entry) => entry.generation)).toEqual([writers[2]?.generation]);
    expect(await readKey(store, key)).toEqual(Buffer.from(patternBytes(0, 2 * block, 3)));
  });

  const misplaced: readonly [string, number, number][] = [
    ['a block too early', 1, 5],
    ['a block again', 0, 5],
    ['an empty block', 1, 0],
    ['a block that is too long', 1, block + 1],
  ];
  for (const [what, index, sizeBytes] of misplaced) {
    it(`refuses ${what}`, async () => {
      const store = await openStore();
      await using writer = await openSampleWriter(store, { key, sizeBytes: 4 * block });
      if (what !== 'a block too early') await writer.writeBlock(0, patternBytes(0, block));
      await expect(writer.writeBlock(index, patternBytes(0, sizeBytes))).rejects.toThrow(RangeError);
    });
  }

  it('refuses a block after a short one', async () => {
    const store = await openStore();
    await using writer = await openSampleWriter(store, { key, sizeBytes: 4 * block });
    await writer.writeBlock(0, patternBytes(0, block - 1));
    await expect(writer.writeBlock(1, patternBytes(0, 1))).rejects.toThrow(RangeError);
  });

  it('refuses a commit of bytes that were not written', async () => {
    const store = await openStore();
    await using writer = await openSampleWriter(store, { key, sizeBytes: 2 * block });
    await writer.writeBlock(0, patternBytes(0, block));
    const commit = writer.commit({ metadata: sampleMetadata(), sizeBytes: 2 * block });
    await expect(commit).rejects.toThrow(RangeError);
    expect(await store.find(key)).toEqual([]);
  });
}

function reading(openStore: OpenStore, block: number): void {
  const sizeBytes = 3 * block + 1;
  const bytes = Buffer.from(patternBytes(0, sizeBytes, 1));

  const departures: readonly [string, (store: Store, entry: StoredEntry) => Promise<unknown>][] = [
    ['was replaced', (store) => storeSample(store, { key, sizeBytes: block, seed: 2 })],
    ['was removed', (store, entry) => store.removeEntry(entry)],
    ['was removed with its key', (store) => store.removeKey(key)],
    ['was pushed out', (store) => pushOut(store, 4 * block)],
    ['got other metadata', (store, entry) => store.replaceMetadata(entry, sampleMetadata('other'))],
  ];
  for (const [what, depart] of departures) {
    it(`keeps the bytes of a reader whose entry ${what}`, async () => {
      const store = await openStore(96);
      const entry = await storeSample(store, { key, sizeBytes, seed: 1 });
      const reader = await entry.open();
      await depart(store, entry);
      expect(await readAll(reader, sizeBytes, block)).toEqual(bytes);
      reader.close();
      reader.close();
    });
  }

  it('opens no generation that was removed', async () => {
    const store = await openStore();
    const entry = await storeSample(store, { key, sizeBytes, seed: 1 });
    await store.removeEntry(entry);
    await expect(entry.open()).rejects.toMatchObject({ code: 'bytes_gone' });
  });

  it('gives the same bytes to many readers at once', async () => {
    const store = await openStore();
    const entry = await storeSample(store, { key, sizeBytes, seed: 1 });
    const readers = await Promise.all(Array.from({ length: 20 }, () => entry.open()));
    const bodies = await Promise.all(
      readers.map(async (reader) => {
        const body = await readAll(reader, sizeBytes, block);
        reader.close();
        return body;
      }),
    );
    for (const body of bodies) expect(body).toEqual(bytes);
  });

  it('peeks only at right blocks', async () => {
    const store = await openStore();
    const entry = await storeSample(store, { key, sizeBytes, seed: 1 });
    const reader = await entry.open();
    await readAll(reader, sizeBytes, block);
    for (const source of [entry, reader]) {
      for (let index = 0; index < 4; index += 1) {
        const expected = bytes.subarray(index * block, (index + 1) * block);
        expect(Buffer.from(source.peekBlock(index) ?? expected)).toEqual(expected);
      }
      expect(source.peekBlock(4)).toBeUndefined();
    }
    await expect(reader.readBlock(4)).rejects.toMatchObject({ code: 'bytes_gone' });
    reader.close();
  });
}

function finding(openStore: OpenStore, block: number): void {
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

  it('peeks at what it finds, or cannot tell', async () => {
    const store = await openStore();
    const told = async () => {
      const found = (await store.find(key)).map((entry) => entry.generation);
      const peeked = store.peek(key)?.map((entry) => entry.generation);
      expect(peeked ?? found).toEqual(found);
      return found.length;
    };
    expect(await told()).toBe(0);
    const entry = await storeSample(store, { key, sizeBytes: block });
    expect(await told()).toBe(1);
    await storeSample(store, { key, variant: 'b', sizeBytes: block });
    expect(await told()).toBe(2);
    await store.removeEntry(entry);
    expect(await told()).toBe(1);
    await store.removeKey(key);
    expect(await told()).toBe(0);
  });

  it('replaces metadata and touches no byte', async () => {
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

  it('replaces no metadata of a generation that is not current', async () => {
    const store = await openStore();
    const old = await storeSample(store, { key, sizeBytes: block, seed: 1 });
    const current = await storeSample(store, { key, sizeBytes: block, seed: 2 });
    expect(await store.replaceMetadata(old, sampleMetadata('late'))).toBeUndefined();
    expect((await findFirst(store, key))?.metadata).toEqual(sampleMetadata(2));
    await store.removeEntry(current);
    expect(await store.replaceMetadata(current, sampleMetadata('late'))).toBeUndefined();
    expect(await store.find(key)).toEqual([]);
  });

  it('removes no generation that is not current', async () => {
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

  it('commits after its key was removed', async () => {
    const store = await openStore();
    await using writer = await openSampleWriter(store, { key, sizeBytes: 1 });
    await store.removeKey(key);
    await writer.writeBlock(0, patternBytes(0, 1));
    await writer.commit({ metadata: sampleMetadata(), sizeBytes: 1 });
    expect(await store.find(key)).toHaveLength(1);
  });
}

function room(openStore: OpenStore, block: number): void {
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

/** Stores others until what was there first has had to leave. */
async function pushOut(store: Store, sizeBytes: number): Promise<void> {
  for (let at = 0; at < 60; at += 1) await storeSample(store, { key: `other${at}`, sizeBytes, seed: at });
}
