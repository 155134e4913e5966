/** The look-up by tag in memory: it finds present entries, and keeps nothing of entries that have left. */

import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { TagIndex } from '../../src/store/memory/memory-shelf.ts';
import { createMemoryStore } from '../../src/store/memory/memory-store.ts';
import type { Store } from '../../src/store/store.ts';
import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { sequentialIds } from '../support/clocks/sequential-ids.ts';
import {
  findFirst,
  openSampleWriter,
  pushOut,
  sampleMetadata,
  storePart,
  storeTagged,
  taggedMetadata,
  writeSample,
} from '../support/stores/stored-sample.ts';

it('finds the things with a tag until they are deleted', () => {
  const index = new TagIndex<object>();
  const [one, two] = [{}, {}];
  index.add(one, ['a', 'b', 'a']);
  index.add(two, ['b']);
  index.add(two);
  expect([index.tagged('a'), index.tagged('b'), index.tagged('c')]).toEqual([[one], [one, two], []]);
  expect(index.tagged('b')[0]).toBe(one);
  index.delete(one, ['a', 'b', 'a']);
  index.delete(one, ['b', 'c']);
  index.delete(one);
  expect([index.tagged('a'), index.tagged('b'), index.size]).toEqual([[], [two], 1]);
  index.delete(two, ['b']);
  expect(index.size).toBe(0);
});

describe('nothing is left in the tag indexes', () => {
  const block = 1024;
  const sizeBytes = 3 * block;

  /** Collects the indexes that anything is added to from now on. */
  function watchIndexes(): ReadonlySet<TagIndex<object>> {
    const seen = new Set<TagIndex<object>>();
    const { add } = TagIndex.prototype;
    vi.spyOn(TagIndex.prototype, 'add').mockImplementation(function (this: TagIndex<object>, thing, tags) {
      seen.add(this);
      add.call(this, thing, tags);
    });
    onTestFinished(() => void vi.restoreAllMocks());
    return seen;
  }

  function createStore(): Store {
    return createMemoryStore({
      maxSizeBytes: 64 * block,
      blockSizeBytes: block,
      now: () => 1_000,
      randomId: sequentialIds(),
    });
  }

  const departures: readonly [string, (store: Store) => Promise<unknown>][] = [
    ['were evicted', (store) => pushOut(store, 4 * block)],
    ['were removed by tag', (store) => Promise.all(['t', 'last'].map((tag) => store.removeTagged(tag)))],
    ['were removed by key', (store) => Promise.all([...Array(30).keys()].map((at) => store.removeKey(`k${at}`)))],
    ['were in a closed store', (store) => store.close()],
  ];
  const stores: readonly [string, () => Store][] = [
    ['a memory store', createStore],
    [
      'a memory tier in front of one',
      () => createTieredStore(createMemoryTier({ maxSizeBytes: 64 * block }), createStore(), () => 1_000),
    ],
  ];
  const rows = stores.flatMap(([name, create]) => departures.map(([how, depart]) => ({ name, create, how, depart })));

  it.each(rows)('of $name, of entries that $how', async ({ create, depart }) => {
    const indexes = watchIndexes();
    const store = create();
    for (let at = 0; at < 30; at += 1) {
      const sample = { key: `k${at % 20}`, sizeBytes, seed: at };
      await store.replaceMetadata(await storeTagged(store, sample, [`${at}`], 2_000), taggedMetadata(at, ['t']));
      await store.find(sample.key);
    }
    const part = { key: 'k3', variant: 'part', sizeBytes: 4 * block };
    const entry = await storePart(store, part, [1]);
    const tagged = await store.replaceMetadata(entry, taggedMetadata(0, ['t']));
    await using writer = tagged && (await store.resume(tagged));
    if (writer !== undefined) await writeSample(writer, block, part);
    await writer?.commit({ metadata: taggedMetadata(0, ['last']), sizeBytes: part.sizeBytes });
    expect((await findFirst(store, 'k3'))?.metadata.tags).toEqual(['last']);
    await writer?.[Symbol.asyncDispose]();
    expect([...indexes].map(({ size }) => size)).toEqual(create === createStore ? [2] : [2, 2]);
    await depart(store);
    expect([...indexes].map(({ size }) => size)).toEqual([...indexes].map(() => 0));
  });

  it('of metadata that did not fit', async () => {
    const indexes = watchIndexes();
    const store = createStore();
    const entry = await storeTagged(store, { key: 'k', sizeBytes }, ['t']);
    const writers = await Promise.all(
      [1, 2, 3].map((at) => openSampleWriter(store, { key: `w${at}`, sizeBytes: 12 * block })),
    );
    for (const writer of writers) await writeSample(writer, block, { key: 'w', sizeBytes: 12 * block });
    const tags = Array.from({ length: 200 }, (_, at) => `${at}`);
    expect((await store.replaceMetadata(entry, taggedMetadata(0, tags)))?.metadata.tags).toEqual(tags);
    expect((await findFirst(store, 'k'))?.metadata).toEqual({ ...sampleMetadata(0), tags: ['t'] });
    expect([...indexes].map(({ size }) => size)).toEqual([1]);
    expect(await store.removeTagged('7')).toEqual([]);
    expect(await store.removeTagged('t')).toEqual(['k']);
    for (const writer of writers) await writer[Symbol.asyncDispose]();
  });
});
