/** The contract of a store: writing. */

import { expect, it } from 'vitest';
import {
  blockOf,
  findFirst,
  openSampleWriter,
  readAll,
  readKey,
  sampleMetadata,
  storeSample,
  writeBlocks,
  writeSample,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import type { OpenStore } from './store-contract.ts';

const key = 'https://example.org/film.mp4';

/** Defines the tests of this part; `block` is the store's block size. */
export function writing(openStore: OpenStore, block: number): void {
  it('does not find a generation before its commit', async () => {
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

  it('returns written blocks through the writer, before and after the commit', async () => {
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

  it('does not return a block that was not written', async () => {
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

  it('replaces the earlier generation at once by a commit', async () => {
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

  const misplaced: readonly [string, 'known' | 'unknown', number, number][] = [
    ['a block too early', 'unknown', 2, block],
    ['a block before the first', 'known', -1, block],
    ['a block between two', 'known', 1.5, block],
    ['a block after the last', 'known', 4, block],
    ['an empty block', 'known', 1, 0],
    ['an empty block', 'unknown', 1, 0],
    ['a block that is too short', 'known', 1, block - 1],
    ['a block that is too long', 'known', 1, block + 1],
    ['a block that is too long', 'unknown', 1, block + 1],
    ['a last block that is too long', 'known', 3, block],
  ];
  for (const [mistake, length, index, sizeBytes] of misplaced) {
    it(`refuses ${mistake}, length ${length} beforehand`, async () => {
      const store = await openStore();
      await using writer = await openSampleWriter(store, { key, sizeBytes: 4 * block - 1 }, length);
      await writer.writeBlock(0, patternBytes(0, block));
      await expect(writer.writeBlock(index, patternBytes(0, sizeBytes))).rejects.toThrow(RangeError);
      expect(writer.hasBlock(index)).toBe(false);
    });
  }

  it('refuses a block after a short one', async () => {
    const store = await openStore();
    await using writer = await openSampleWriter(store, { key, sizeBytes: 4 * block }, 'unknown');
    await writer.writeBlock(0, patternBytes(0, block - 1));
    await expect(writer.writeBlock(1, patternBytes(0, 1))).rejects.toThrow(RangeError);
  });

  const orders: readonly (readonly number[])[] = [
    [5, 4, 3, 2, 1, 0],
    [2, 0, 5, 1, 4, 3],
    [5, 0, 1, 2, 3, 4],
  ];
  for (const order of orders) {
    it(`accepts blocks in the order ${order.join(' ')}`, async () => {
      const store = await openStore();
      const sample = { key, sizeBytes: 5 * block + 7, seed: 4 };
      await using writer = await openSampleWriter(store, sample);
      for (const [at, index] of order.entries()) {
        expect(order.map((each) => writer.hasBlock(each))).toEqual(order.map((_, each) => each < at));
        await writer.writeBlock(index, blockOf(sample, block, index));
      }
      await writer.commit({ metadata: sampleMetadata(4), sizeBytes: sample.sizeBytes });
      expect(await readKey(store, key)).toEqual(Buffer.from(patternBytes(0, sample.sizeBytes, 4)));
    });
  }

  for (const length of ['known', 'unknown'] as const) {
    it(`does not overwrite a present block, length ${length} beforehand`, async () => {
      const store = await openStore();
      await using writer = await openSampleWriter(store, { key, sizeBytes: 2 * block }, length);
      await Promise.all([1, 2, 3].map((seed) => writer.writeBlock(0, patternBytes(0, block, seed))));
      await writer.writeBlock(0, patternBytes(0, 5, 4));
      expect(Buffer.from(await writer.readBlock(0))).toEqual(Buffer.from(patternBytes(0, block, 1)));
      await writer.writeBlock(1, patternBytes(block, 2 * block, 1));
      await writer.commit({ metadata: sampleMetadata(), sizeBytes: 2 * block });
      expect(await readKey(store, key)).toEqual(Buffer.from(patternBytes(0, 2 * block, 1)));
    });
  }

  it('accepts many blocks at once', async () => {
    const store = await openStore();
    const sample = { key, sizeBytes: 20 * block, seed: 3 };
    await using writer = await openSampleWriter(store, sample);
    const indexes = [...Array(20).keys()].reverse();
    await Promise.all(indexes.map((index) => writer.writeBlock(index, blockOf(sample, block, index))));
    await writer.commit({ metadata: sampleMetadata(3), sizeBytes: sample.sizeBytes });
    expect(await readKey(store, key)).toEqual(Buffer.from(patternBytes(0, sample.sizeBytes, 3)));
  });

  it('commits only when every block is present', async () => {
    const store = await openStore();
    const sample = { key, sizeBytes: 3 * block };
    await using writer = await openSampleWriter(store, sample);
    await writeBlocks(writer, block, sample, [0, 2]);
    const final = { metadata: sampleMetadata(), sizeBytes: sample.sizeBytes };
    await expect(writer.commit(final)).rejects.toThrow(RangeError);
    await writeBlocks(writer, block, sample, [1]);
    expect(await writer.commit(final)).toMatchObject({ isComplete: true });
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
