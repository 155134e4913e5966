/** The contract of a store: parts, which are incomplete entries. */

import { expect, it } from 'vitest';
import type { EntryWriter, Store, StoredEntry } from '../../src/store/store.ts';
import {
  blockOf,
  findFirst,
  openSampleWriter,
  readAll,
  readKey,
  sampleMetadata,
  storePart,
  storeSample,
  writeBlocks,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import type { OpenStore } from './store-contract.ts';

const key = 'https://example.org/film.mp4';

/** Defines the tests of this part; `block` is the store's block size. */
export function parts(openStore: OpenStore, block: number): void {
  const sample = { key, variant: 'v', sizeBytes: 5 * block + 3, seed: 6 };
  const { sizeBytes } = sample;
  const whole = Buffer.from(patternBytes(0, sizeBytes, 6));
  const all = [0, 1, 2, 3, 4, 5];

  /** Opens a store with a writer that has published the sample with these blocks. */
  const publishing = async (indexes: readonly number[]) => {
    const store = await openStore();
    const writer = await openSampleWriter(store, sample);
    await writeBlocks(writer, block, sample, indexes);
    await writer.publish(sampleMetadata(6));
    return { store, writer, entry: (await findFirst(store, key)) as StoredEntry };
  };
  const resumed = async (store: Store, entry: StoredEntry): Promise<EntryWriter> => {
    const writer = await store.resume(entry);
    if (writer === undefined) throw new Error('the entry is gone');
    return writer;
  };

  it('finds a published part as incomplete', async () => {
    const { store, writer, entry } = await publishing([1, 4]);
    const { generation } = writer;
    expect(entry).toMatchObject({ key, variant: 'v', generation, sizeBytes, isComplete: false });
    expect(entry.metadata).toEqual(sampleMetadata(6));
    expect(store.peek(key)?.[0]?.isComplete ?? false).toBe(false);
    await writer[Symbol.asyncDispose]();
    expect(await findFirst(store, key)).toMatchObject({ generation, isComplete: false });
  });

  it('returns the blocks that are present, and no others', async () => {
    const { writer, entry } = await publishing([5, 2]);
    await writer[Symbol.asyncDispose]();
    const reader = await entry.open();
    for (const index of all) {
      const reading = reader.readBlock(index);
      if (index === 5 || index === 2)
        expect(Buffer.from(await reading)).toEqual(Buffer.from(blockOf(sample, block, index)));
      else await expect(reading).rejects.toMatchObject({ code: 'bytes_gone' });
    }
    reader.close();
  });

  it('reports which blocks are present, during writing and later', async () => {
    const { store, writer, entry } = await publishing([5, 2, 1]);
    expect([...(await entry.readPresence())]).toEqual([
      { start: 1, end: 3 },
      { start: 5, end: 6 },
    ]);
    await writer.writeBlock(0, blockOf(sample, block, 0));
    const later = [
      { start: 0, end: 3 },
      { start: 5, end: 6 },
    ];
    expect([...(await entry.readPresence())]).toEqual(later);
    await writer[Symbol.asyncDispose]();
    expect([...(await ((await findFirst(store, key)) as StoredEntry).readPresence())]).toEqual(later);
  });

  it('reports all blocks of a complete entry as present, and none of an empty one', async () => {
    const store = await openStore();
    for (const each of [sample, { ...sample, key: 'small', sizeBytes: 3 }]) {
      const present = await (await storeSample(store, each)).readPresence();
      expect([...present]).toEqual([{ start: 0, end: Math.ceil(each.sizeBytes / block) }]);
    }
    const empty = await storeSample(store, { ...sample, key: 'empty', sizeBytes: 0 });
    expect([...(await empty.readPresence())]).toEqual([]);
  });

  it('does not report the blocks of a removed entry', async () => {
    const store = await openStore();
    for (const each of [sample, { ...sample, key: 'small', sizeBytes: 3 }]) {
      const entry = await storeSample(store, each);
      await store.removeEntry(entry);
      await expect(entry.readPresence()).rejects.toMatchObject({ code: 'bytes_gone' });
    }
  });

  it('returns blocks to a reader that was opened before they were written', async () => {
    const { writer, entry } = await publishing([0]);
    const reader = await entry.open();
    await expect(reader.readBlock(3)).rejects.toMatchObject({ code: 'bytes_gone' });
    await writer.writeBlock(3, blockOf(sample, block, 3));
    expect(Buffer.from(await reader.readBlock(3))).toEqual(Buffer.from(blockOf(sample, block, 3)));
    await writer[Symbol.asyncDispose]();
    expect(Buffer.from(await reader.readBlock(3))).toEqual(Buffer.from(blockOf(sample, block, 3)));
    reader.close();
  });

  it('replaces the earlier generation when a part is published', async () => {
    const store = await openStore();
    const earlier = await storeSample(store, { ...sample, seed: 1 });
    const other = await storeSample(store, { ...sample, variant: 'w' });
    const entry = await storePart(store, sample, [0]);
    expect((await store.find(key)).map((each) => each.generation)).toEqual([entry.generation, other.generation]);
    await expect(earlier.open()).rejects.toMatchObject({ code: 'bytes_gone' });
  });

  it('does not publish a part of unknown length', async () => {
    const store = await openStore();
    await using writer = await openSampleWriter(store, sample, 'unknown');
    await expect(writer.publish(sampleMetadata())).rejects.toThrow(RangeError);
    expect(await store.find(key)).toEqual([]);
  });

  it('publishes a part without any blocks yet', async () => {
    const { store, writer } = await publishing([]);
    await writer[Symbol.asyncDispose]();
    expect(await findFirst(store, key)).toMatchObject({ isComplete: false, sizeBytes });
  });

  it('publishes only once', async () => {
    const { store, writer } = await publishing([0]);
    await writer.publish(sampleMetadata('again'));
    expect((await findFirst(store, key))?.metadata).toEqual(sampleMetadata(6));
    await writer[Symbol.asyncDispose]();
  });

  it('has a complete entry after the commit', async () => {
    const { store, writer, entry } = await publishing([3]);
    await writeBlocks(writer, block, sample, all);
    const committed = await writer.commit({ metadata: sampleMetadata('final'), sizeBytes });
    await writer[Symbol.asyncDispose]();
    for (const each of [committed, await findFirst(store, key)]) {
      expect(each).toMatchObject({ generation: entry.generation, isComplete: true });
      expect(each?.metadata).toEqual(sampleMetadata('final'));
    }
    expect(await store.find(key)).toHaveLength(1);
    expect(await readKey(store, key)).toEqual(whole);
  });

  it('keeps a part incomplete when its metadata is replaced', async () => {
    const { store, writer, entry } = await publishing([3]);
    expect(await store.replaceMetadata(entry, sampleMetadata('fresh'))).toMatchObject({ isComplete: false });
    expect(await findFirst(store, key)).toMatchObject({ isComplete: false, metadata: sampleMetadata('fresh') });
    await writeBlocks(writer, block, sample, [4]);
    expect(Buffer.from(await writer.readBlock(4))).toEqual(Buffer.from(blockOf(sample, block, 4)));
    await writer[Symbol.asyncDispose]();
  });

  it('lets later writers complete a part', async () => {
    const store = await openStore();
    const entry = await storePart(store, sample, [5, 1]);
    for (const indexes of [[3], [0, 2]]) {
      const writer = await resumed(store, entry);
      await writeBlocks(writer, block, sample, indexes);
      await writer[Symbol.asyncDispose]();
    }
    await using writer = await resumed(store, entry);
    expect(writer.generation).toBe(entry.generation);
    expect(all.map((index) => writer.hasBlock(index))).toEqual([true, true, true, true, false, true]);
    expect(writer.peekBlock(4)).toBeUndefined();
    await expect(writer.readBlock(4)).rejects.toMatchObject({ code: 'bytes_gone' });
    await expect(writer.commit({ metadata: sampleMetadata(), sizeBytes })).rejects.toThrow(RangeError);
    await writer.writeBlock(4, blockOf(sample, block, 4));
    expect(await readAll(writer, sizeBytes, block)).toEqual(whole);
    await writer.commit({ metadata: sampleMetadata('whole'), sizeBytes });
    expect(await findFirst(store, key)).toMatchObject({ isComplete: true, metadata: sampleMetadata('whole') });
    expect(await readKey(store, key)).toEqual(whole);
  });

  it('does not overwrite a present block of a resumed part', async () => {
    const store = await openStore();
    const entry = await storePart(store, sample, [2]);
    await using writer = await resumed(store, entry);
    await writer.writeBlock(2, blockOf({ ...sample, seed: 99 }, block, 2));
    expect(Buffer.from(await writer.readBlock(2))).toEqual(Buffer.from(blockOf(sample, block, 2)));
  });

  it('allows one writer of a generation at a time', async () => {
    const { store, writer, entry } = await publishing([2]);
    await expect(store.resume(entry)).rejects.toThrow(Error);
    await writer[Symbol.asyncDispose]();
    const second = await resumed(store, entry);
    await expect(store.resume(entry)).rejects.toThrow(Error);
    await second[Symbol.asyncDispose]();
    await (await resumed(store, entry))[Symbol.asyncDispose]();
  });

  it('resumes a complete entry with all its blocks', async () => {
    for (const each of [sample, { ...sample, key: 'small', sizeBytes: 3 }]) {
      const store = await openStore();
      const entry = await storeSample(store, each);
      await using writer = await resumed(store, entry);
      expect(await readAll(writer, each.sizeBytes, block)).toEqual(Buffer.from(patternBytes(0, each.sizeBytes, 6)));
      expect(await writer.commit({ metadata: sampleMetadata(1), sizeBytes: each.sizeBytes })).toMatchObject(
        entryLike(entry),
      );
      expect(await readKey(store, each.key)).toEqual(Buffer.from(patternBytes(0, each.sizeBytes, 6)));
    }
  });

  const departures: readonly [string, (store: Store, entry: StoredEntry) => Promise<unknown>][] = [
    ['was replaced', (store) => storeSample(store, { ...sample, sizeBytes: 1 })],
    ['was replaced by another part', (store) => storePart(store, sample, [0])],
    ['was removed', (store, entry) => store.removeEntry(entry)],
    ['was removed with its key', (store) => store.removeKey(key)],
  ];
  for (const [departure, depart] of departures) {
    it(`does not resume a part that ${departure}`, async () => {
      const store = await openStore();
      const entry = await storePart(store, sample, [1]);
      await depart(store, entry);
      expect(await store.resume(entry)).toBeUndefined();
    });

    it(`lets the writer of a part that ${departure} go on, and does not find the part again`, async () => {
      const { store, writer, entry } = await publishing([1]);
      await depart(store, entry);
      const left = (await store.find(key)).map((each) => each.generation);
      expect(left).not.toContain(entry.generation);
      await writeBlocks(writer, block, sample, all);
      await writer.publish(sampleMetadata('late'));
      expect(await readAll(writer, sizeBytes, block)).toEqual(whole);
      const commit = writer.commit({ metadata: sampleMetadata('late'), sizeBytes });
      await expect(commit).rejects.toMatchObject({ name: 'StoreFault', reason: 'removed' });
      await writer[Symbol.asyncDispose]();
      expect((await store.find(key)).map((each) => each.generation)).toEqual(left);
      expect(await store.resume(entry)).toBeUndefined();
    });
  }

  it('refuses blocks, publication and commit after the writer was disposed', async () => {
    const { writer } = await publishing([1]);
    await writer[Symbol.asyncDispose]();
    const fault = { name: 'StoreFault', reason: 'io' };
    await expect(writer.writeBlock(0, blockOf(sample, block, 0))).rejects.toMatchObject(fault);
    await expect(writer.publish(sampleMetadata())).rejects.toMatchObject(fault);
    await expect(writer.commit({ metadata: sampleMetadata(), sizeBytes })).rejects.toMatchObject(fault);
  });
}

function entryLike({ key: place, variant, generation, sizeBytes }: StoredEntry) {
  return { key: place, variant, generation, sizeBytes, isComplete: true };
}
