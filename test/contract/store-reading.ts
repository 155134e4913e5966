/** The contract of a store: reading. */

import { expect, it } from 'vitest';
import type { Store, StoredEntry } from '../../src/store/store.ts';
import {
  blockOf,
  findFirst,
  openSampleWriter,
  pushOut,
  readAll,
  sampleMetadata,
  storePart,
  storeSample,
  writeBlocks,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import type { OpenStore } from './store-contract.ts';

const key = 'https://example.org/film.mp4';

/** Defines the tests of this part; `block` is the store's block size. */
export function reading(openStore: OpenStore, block: number): void {
  const sizeBytes = 3 * block + 1;
  const bytes = Buffer.from(patternBytes(0, sizeBytes, 1));

  const departures: readonly [string, (store: Store, entry: StoredEntry) => Promise<unknown>][] = [
    ['was replaced', (store) => storeSample(store, { key, sizeBytes: block, seed: 2 })],
    ['was removed', (store, entry) => store.removeEntry(entry)],
    ['was removed with its key', (store) => store.removeKey(key)],
    ['was evicted', (store) => pushOut(store, 4 * block)],
    [
      'was replaced and pinned',
      async (store) => {
        await using writer = await openSampleWriter(store, { key, sizeBytes: 0 });
        await writer.commit({ metadata: sampleMetadata(), sizeBytes: 0, pinPreviousUntil: Number.POSITIVE_INFINITY });
      },
    ],
    ['got other metadata', (store, entry) => store.replaceMetadata(entry, sampleMetadata('other'))],
  ];
  for (const [departure, depart] of departures) {
    it(`keeps the bytes of a reader whose entry ${departure}`, async () => {
      const store = await openStore(96);
      const entry = await storeSample(store, { key, sizeBytes, seed: 1 });
      const reader = await entry.open();
      await depart(store, entry);
      expect(await readAll(reader, sizeBytes, block)).toEqual(bytes);
      reader.close();
      reader.close();
    });
  }

  for (const [departure, depart] of departures) {
    it(`keeps the bytes of a reader of a part that ${departure}, and of its writer`, async () => {
      const store = await openStore(96);
      const sample = { key, sizeBytes, seed: 1 };
      await using writer = await openSampleWriter(store, sample);
      await writeBlocks(writer, block, sample, [3, 1]);
      await writer.publish(sampleMetadata(1));
      const entry = (await findFirst(store, key)) as StoredEntry;
      const reader = await entry.open();
      await depart(store, entry);
      await writeBlocks(writer, block, sample, [2]);
      for (const source of [reader, writer]) {
        for (const index of [1, 2, 3]) {
          expect(Buffer.from(await source.readBlock(index))).toEqual(Buffer.from(blockOf(sample, block, index)));
        }
        await expect(source.readBlock(0)).rejects.toMatchObject({ code: 'bytes_gone' });
      }
      reader.close();
    });
  }

  it('keeps the bytes of a reader of a part that was evicted after its writer was disposed', async () => {
    const store = await openStore(96);
    const sample = { key, sizeBytes, seed: 1 };
    const reader = await (await storePart(store, sample, [0, 3])).open();
    await pushOut(store, 4 * block);
    for (const index of [0, 3]) {
      expect(Buffer.from(await reader.readBlock(index))).toEqual(Buffer.from(blockOf(sample, block, index)));
    }
    reader.close();
  });

  it('does not open a generation that was removed', async () => {
    const store = await openStore();
    const entry = await storeSample(store, { key, sizeBytes, seed: 1 });
    await store.removeEntry(entry);
    await expect(entry.open()).rejects.toMatchObject({ code: 'bytes_gone' });
  });

  it('returns the same bytes to many readers at once', async () => {
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

  it('returns only right blocks from a peek', async () => {
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
