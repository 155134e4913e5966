/** The index of the disk store while it cannot be written: removals and lost blocks are remembered, and written later. */

import { expect, it, onTestFinished } from 'vitest';
import { DiskIndex } from '../../src/store/disk/index/disk-index.ts';
import { IndexConnection } from '../../src/store/disk/index/index-connection.ts';
import { encodeMetadata, type PutEntry } from '../../src/store/disk/index/index-rows.ts';
import { StoreFault } from '../../src/store/store.ts';
import { temporaryDirectory } from '../support/stores/disk-store.ts';
import { sampleMetadata, taggedMetadata } from '../support/stores/stored-sample.ts';

const entry = { key: 'k', variant: '', generation: 'ab-1', sizeBytes: 100_000, isInline: false, isComplete: true };
const indexed = { ...entry, metadata: sampleMetadata() };

/** Returns the argument of `DiskIndex.put` for an entry. */
function toPut(entry: PutEntry['entry'], allocatedBytes: number): PutEntry {
  return { entry, metadata: encodeMetadata(entry.metadata), allocatedBytes };
}

/** Opens an index with one entry; `calls` records its callbacks. */
async function openIndex() {
  const connection = new IndexConnection({ dir: await temporaryDirectory(), blockSizeBytes: 1024, emit: () => {} });
  onTestFinished(() => connection.close());
  const calls: string[] = [];
  const index = new DiskIndex({
    connection,
    now: () => 1,
    emit: () => {},
    onRemoved: (generation) => void calls.push(`removed ${generation}`),
    onFilesUnneeded: (generation) => void calls.push(`unneeded ${generation}`),
  });
  index.put(toPut(indexed, 5000));
  return { connection, index, calls };
}

/** Makes every change fail from now on, as a full disk does; returns a function that ends that. */
function failChanges(connection: IndexConnection): () => void {
  const { change } = connection;
  connection.change = () => {
    throw new StoreFault('no_room', 'as the test wants it');
  };
  return () => {
    connection.change = change;
  };
}

it('a lost block makes its entry incomplete once, and a commit makes it complete again', async () => {
  const { connection, index } = await openIndex();
  const endFailing = failChanges(connection);
  expect(index.markIncomplete(entry.generation)).toBe(true);
  expect(index.markIncomplete(entry.generation)).toBe(false);
  expect(index.find('k')).toMatchObject([{ isComplete: false }]);
  endFailing();
  expect(index.find('k')).toMatchObject([{ isComplete: false }]);
  index.put(toPut(indexed, 5000));
  expect(index.find('k')).toMatchObject([{ isComplete: true }]);
  expect(index.markIncomplete(entry.generation)).toBe(true);
  expect(index.find('k')).toMatchObject([{ isComplete: false }]);
});

it('a removed entry is not found, its removal is reported at once, and its row is deleted later', async () => {
  const { connection, index, calls } = await openIndex();
  const endFailing = failChanges(connection);
  index.remove([entry.generation]);
  index.remove([entry.generation]);
  expect(index.find('k')).toEqual([]);
  expect(index.get('k', entry.generation)).toBeUndefined();
  expect(index.markIncomplete(entry.generation)).toBe(false);
  expect(calls.filter((each) => each.startsWith('removed'))).toEqual([`removed ${entry.generation}`]);
  expect(index.allocatedBytes).toBe(5000);
  endFailing();
  index.flush();
  expect(index.allocatedBytes).toBe(0);
});

const tagged = { kind: 'tag', tag: 't' } as const;

it('entries removed by tag are neither found nor removed again while their rows remain', async () => {
  const { connection, index, calls } = await openIndex();
  for (let at = 0; at < 100; at += 1) {
    const place = { ...entry, key: `k${at}`, generation: `cd-${at}` };
    index.put(toPut({ ...place, metadata: taggedMetadata(at, ['t']) }, 100));
  }
  const endFailing = failChanges(connection);
  const first = index.removeChosen(tagged, undefined);
  const last = index.removeChosen(tagged, first.next);
  expect(last.next).toBeUndefined();
  const keys = [...first.keys, ...last.keys];
  expect(keys).toEqual(Array.from({ length: 100 }, (_, at) => `k${at}`));
  for (const key of keys) expect(index.find(key)).toEqual([]);
  expect(calls.filter((each) => each.startsWith('removed'))).toHaveLength(100);
  expect(index.removeChosen(tagged, undefined).keys).toEqual([]);
  expect(index.allocatedBytes).toBe(5000 + 100 * 100);
  endFailing();
  index.flush();
  expect(index.allocatedBytes).toBe(5000);
  expect(index.removeChosen(tagged, undefined)).toEqual({ keys: [], next: undefined });
});

it('a removal by tag goes by the written tags, not by those that could not be written', async () => {
  const { connection, index } = await openIndex();
  index.put(toPut({ ...indexed, metadata: taggedMetadata(0, ['old']) }, 5000));
  const endFailing = failChanges(connection);
  const replaced = index.replaceMetadata('k', entry.generation, taggedMetadata(0, ['new']));
  expect(replaced?.metadata.tags).toEqual(['new']);
  endFailing();
  expect(index.removeChosen({ kind: 'tag', tag: 'new' }, undefined).keys).toEqual([]);
  expect(index.removeChosen({ kind: 'tag', tag: 'old' }, undefined).keys).toEqual(['k']);
});

it('the new size of an entry is counted only once it is written', async () => {
  const { connection, index } = await openIndex();
  const endFailing = failChanges(connection);
  expect(index.resize(entry.generation, 9000)).toBe(false);
  expect(index.allocatedBytes).toBe(5000);
  endFailing();
  expect(index.resize(entry.generation, 9000)).toBe(true);
  expect(index.allocatedBytes).toBe(9000);
});

it('a replaced generation is reported as removed, and a generation that is put again is not', async () => {
  const { index, calls } = await openIndex();
  index.put(toPut({ ...indexed, isComplete: false }, 6000));
  expect(calls).toEqual([]);
  index.put(toPut({ ...indexed, generation: 'ab-2' }, 7000));
  expect(calls).toEqual(['removed ab-1', 'unneeded ab-1']);
  expect(index.allocatedBytes).toBe(7000);
});

it('the size of tags is counted when they are added, replaced and removed', async () => {
  const { index } = await openIndex();
  const { length } = JSON.stringify(sampleMetadata());
  index.replaceMetadata('k', entry.generation, taggedMetadata(0, ['x'.repeat(1000)]));
  const grown = index.allocatedBytes;
  expect(grown).toBeGreaterThan(5000 + 3000);
  expect(grown).toBeLessThan(5000 + 3000 + length);
  index.replaceMetadata('k', entry.generation, taggedMetadata(0, ['y'.repeat(1000)]));
  expect(index.allocatedBytes).toBe(grown);
  index.replaceMetadata('k', entry.generation, sampleMetadata());
  expect(index.allocatedBytes).toBe(5000);
});
