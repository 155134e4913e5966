/** The contract of a store: removal by tag. */

import { expect, it } from 'vitest';
import type { Store, StoredEntry } from '../../src/store/store.ts';
import {
  canOpen,
  findFirst,
  openSampleWriter,
  pushOut,
  readAll,
  readKey,
  storePart,
  storeSample,
  storeTagged,
  taggedMetadata,
  writeBlocks,
  writeSample,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import type { OpenStore } from './store-contract.ts';

const key = 'https://example.org/film.mp4';

/** Tags that are all different, however similar they look. */
const oddTags: readonly string[] = [
  'tag',
  'Tag',
  'tag ',
  ' tag',
  'ta',
  'tags',
  '',
  '%',
  't%',
  't_g',
  '*',
  "'",
  '"',
  '\\',
  '\n',
  '\0',
  'tag\0',
  'tag\0more',
  '\u00e9',
  'e\u0301',
  '\u{1f39e}',
  '\ud83c',
  '\ud83d',
  '\ufffd',
  '1',
  '1.0',
  '__proto__',
  'constructor',
  JSON.stringify(['https://example.org', 'tag']),
  JSON.stringify(['https://example.org:8443', 'tag']),
  'x'.repeat(10_000),
  `${'x'.repeat(9_999)}y`,
];

/** Defines the tests of this part; `block` is the store's block size. */
export function tags(openStore: OpenStore, block: number, boundsItself: boolean): void {
  const sizeBytes = 3 * block + 1;
  const sample = { key, variant: '', sizeBytes, seed: 1 };
  const whole = Buffer.from(patternBytes(0, sizeBytes, 1));
  const removed = { name: 'StoreFault', reason: 'removed' };

  it('removes the entries with the tag, of all keys and variants, and no others', async () => {
    const store = await openStore();
    await storeTagged(store, { ...sample, key: 'a', variant: '1' }, ['t']);
    await storeTagged(store, { ...sample, key: 'a', variant: '2' }, ['other']);
    await storeTagged(store, { ...sample, key: 'a', variant: '3' }, ['t']);
    await storeTagged(store, { ...sample, key: 'b' }, ['other', 't']);
    await storeTagged(store, { ...sample, key: 'c' }, ['other']);
    await storeTagged(store, { ...sample, key: 'd' }, []);
    await storeSample(store, { ...sample, key: 'e' });
    expect(await removal(store, 't')).toEqual(['a', 'b']);
    expect(await placesIn(store, [...'abcde'])).toEqual(['a2', 'c', 'd', 'e']);
    expect(await readKey(store, 'a')).toEqual(whole);
    expect(await removal(store, 't')).toEqual([]);
    expect(await removal(store, 'other')).toEqual(['a', 'c']);
    expect(await placesIn(store, [...'abcde'])).toEqual(['d', 'e']);
  });

  it('compares tags exactly', async () => {
    const store = await openStore();
    for (const [at, tag] of oddTags.entries()) await storeTagged(store, { key: `k${at}`, sizeBytes: 1 }, [tag]);
    for (const [at, tag] of oddTags.entries()) {
      expect((await findFirst(store, `k${at}`))?.metadata.tags).toEqual([tag]);
      expect([tag, await removal(store, tag)]).toEqual([tag, [`k${at}`]]);
    }
  });

  it.each(['a', 'b', 'c'])('removes an entry with several tags by each of them: %s', async (tag) => {
    const store = await openStore();
    await storeTagged(store, sample, ['a', 'b', 'c', 'b']);
    expect(await removal(store, tag)).toEqual([key]);
    for (const other of ['a', 'b', 'c']) expect(await removal(store, other)).toEqual([]);
    expect(await store.find(key)).toEqual([]);
  });

  it('removes very many entries', async () => {
    const store = await openStore();
    const keys = Array.from({ length: 300 }, (_, at) => `k${at}`);
    for (const each of keys) await storeTagged(store, { key: each, sizeBytes: 1 }, ['t', each]);
    await storeTagged(store, sample, ['other']);
    expect(await removal(store, 't')).toEqual([...keys].sort());
    expect(await placesIn(store, keys)).toEqual([]);
    expect(await store.find(key)).toHaveLength(1);
  });

  const replacements: readonly [string, (store: Store, entry: StoredEntry, tags: readonly string[]) => unknown][] = [
    ['other metadata', (store, entry, next) => store.replaceMetadata(entry, taggedMetadata('fresh', next))],
    ['a new generation', (store, _, next) => storeTagged(store, { ...sample, seed: 2 }, next)],
  ];
  for (const [replacement, replace] of replacements) {
    it(`goes by the tags of ${replacement}, no longer by those before`, async () => {
      const store = await openStore();
      let entry = await storeTagged(store, sample, []);
      for (const [next, gone] of [
        [['new', 'both'], 'none'],
        [['both'], 'new'],
        [['both'], 'new'],
        [['both', 'late'], 'new'],
        [['late', 'both'], 'new'],
        [['last'], 'both'],
      ] as const) {
        await replace(store, entry, next);
        entry = (await findFirst(store, key)) as StoredEntry;
        expect(entry.metadata.tags).toEqual(next);
        expect(await removal(store, gone)).toEqual([]);
        expect(await store.find(key)).toHaveLength(1);
      }
      expect(await removal(store, 'last')).toEqual([key]);
      expect(await store.find(key)).toEqual([]);
    });

    it(`does not remove an entry by a tag that it lost with ${replacement}`, async () => {
      const store = await openStore();
      const entry = await storeTagged(store, sample, ['a', 'b']);
      await replace(store, entry, []);
      for (const tag of ['a', 'b']) expect(await removal(store, tag)).toEqual([]);
      expect(await store.find(key)).toHaveLength(1);
    });
  }

  it('goes by the tags of the current generation while a new one is written', async () => {
    const store = await openStore();
    await storeTagged(store, sample, ['earlier']);
    await using writer = await openSampleWriter(store, { ...sample, seed: 2 });
    await writeSample(writer, block, { ...sample, seed: 2 });
    expect(await removal(store, 'later')).toEqual([]);
    expect(await removal(store, 'earlier')).toEqual([key]);
    await writer.commit({ metadata: taggedMetadata(2, ['later']), sizeBytes });
    expect(await removal(store, 'later')).toEqual([key]);
  });

  it('removes a published generation, whose writer goes on and can no longer commit', async () => {
    const store = await openStore();
    await using writer = await openSampleWriter(store, sample);
    await writeBlocks(writer, block, sample, [1]);
    await writer.publish(taggedMetadata(1, ['t']));
    expect(await removal(store, 't')).toEqual([key]);
    expect(await store.find(key)).toEqual([]);
    await writeSample(writer, block, sample);
    expect(await readAll(writer, sizeBytes, block)).toEqual(whole);
    await expect(writer.commit({ metadata: taggedMetadata(1, ['t']), sizeBytes })).rejects.toMatchObject(removed);
    expect(await removal(store, 't')).toEqual([]);
  });

  it('goes by the tags of the commit, no longer by those of the publication', async () => {
    const store = await openStore();
    await using writer = await openSampleWriter(store, sample);
    await writer.publish(taggedMetadata(1, ['published', 'both']));
    await writeSample(writer, block, sample);
    await writer.commit({ metadata: taggedMetadata(1, ['both', 'committed']), sizeBytes });
    expect(await removal(store, 'published')).toEqual([]);
    expect(await removal(store, 'committed')).toEqual([key]);
    expect(await removal(store, 'both')).toEqual([]);
  });

  it('removes a part without a writer, and one that is resumed', async () => {
    const store = await openStore();
    for (const each of ['left', 'resumed']) {
      const part = await storePart(store, { ...sample, key: each }, [2]);
      await store.replaceMetadata(part, taggedMetadata(each, ['t']));
    }
    const entry = (await findFirst(store, 'resumed')) as StoredEntry;
    await using writer = await store.resume(entry);
    expect(await removal(store, 't')).toEqual(['left', 'resumed']);
    expect(await placesIn(store, ['left', 'resumed'])).toEqual([]);
    if (writer !== undefined) await writeSample(writer, block, sample);
    await expect(writer?.commit({ metadata: entry.metadata, sizeBytes })).rejects.toMatchObject(removed);
  });

  it('removes a pinned generation by the tags that it had', async () => {
    const clock = { now: 1_000 };
    const store = await openStore(4096, { now: () => clock.now });
    for (const [seed, each] of ['a', 'b', 'c'].entries()) {
      await storeTagged(store, { ...sample, seed }, [each], 2_000);
    }
    expect(await removal(store, 'b')).toEqual([key]);
    expect((await store.find(key)).map(({ metadata }) => metadata.tags)).toEqual([['c'], ['a']]);
    expect(await removal(store, 'c')).toEqual([key]);
    const [pinned, ...others] = await store.find(key);
    expect(pinned).toMatchObject({ pinnedUntil: 2_000, metadata: { tags: ['a'] } });
    expect(others).toEqual([]);
    clock.now = 2_000;
    expect(await removal(store, 'a')).toEqual([]);
    await expect(pinned?.open()).rejects.toMatchObject({ code: 'bytes_gone' });
  });

  const departures: readonly [string, (store: Store, entry: StoredEntry) => Promise<unknown>][] = [
    ['was removed', (store, entry) => store.removeEntry(entry)],
    ['was removed with its key', (store) => store.removeKey(key)],
    ['was removed by another tag', (store) => store.removeTagged('other')],
    ['was evicted', (store) => pushOut(store, 4 * block)],
  ];
  it.each(departures.slice(0, boundsItself ? undefined : -1))(
    'spares the successor of an entry that %s',
    async (_, depart) => {
      const store = await openStore(64);
      await depart(store, await storeTagged(store, sample, ['t', 'other']));
      expect(await canOpen(store, key)).toBe(false);
      await storeTagged(store, { ...sample, seed: 2 }, ['new']);
      expect(await removal(store, 't')).toEqual([]);
      expect(await readKey(store, key)).toEqual(Buffer.from(patternBytes(0, sizeBytes, 2)));
      expect(await removal(store, 'new')).toEqual([key]);
    },
  );

  it('frees the room of removed entries', async () => {
    const store = await openStore(64);
    for (let round = 0; round < 10; round += 1) {
      for (let at = 0; at < 12; at += 1) {
        await storeTagged(store, { key: `k${at}`, sizeBytes: 4 * block, seed: at }, ['t']);
      }
      expect(await removal(store, 't')).toContain('k11');
      expect(await placesIn(store, ['k0', 'k11'])).toEqual([]);
    }
    const size = store.maxEntryBytes - (store.maxEntryBytes % block);
    expect(await storeSample(store, { key, sizeBytes: size })).toMatchObject({ isComplete: true });
  });

  it('leaves the bytes of a removed entry to open readers only', async () => {
    const store = await openStore();
    const entry = await storeTagged(store, sample, ['t']);
    const reader = await entry.open();
    await reader.readBlock(0);
    expect(await removal(store, 't')).toEqual([key]);
    expect(await readAll(reader, sizeBytes, block)).toEqual(whole);
    reader.close();
    await expect(entry.open()).rejects.toMatchObject({ code: 'bytes_gone' });
    expect(await store.replaceMetadata(entry, taggedMetadata('late', ['t']))).toBeUndefined();
    expect(await store.resume(entry)).toBeUndefined();
    expect(await removal(store, 't')).toEqual([]);
  });

  it('removes during writes, and returns the removed keys', async () => {
    const store = await openStore();
    await storeTagged(store, sample, ['t']);
    const removing = removal(store, 't');
    const other = { ...sample, key: 'other' };
    await storeTagged(store, other, ['else']);
    expect(await removing).toEqual([key]);
    expect(await placesIn(store, [key, 'other'])).toEqual(['other']);
    expect(await readKey(store, 'other')).toEqual(whole);
  });
}

/** Removes by a tag; returns the keys, sorted, and checks that each was returned only once. */
async function removal(store: Store, tag: string): Promise<string[]> {
  const keys = await store.removeTagged(tag);
  expect(new Set(keys).size).toBe(keys.length);
  return [...keys].sort();
}

/** Returns the entries that are found under these keys: each key with its variant. */
async function placesIn(store: Store, keys: readonly string[]): Promise<string[]> {
  const found = await Promise.all(keys.map((each) => store.find(each)));
  for (const [at, each] of keys.entries())
    expect(store.peek(each)?.length ?? found[at]?.length).toBe(found[at]?.length);
  return found.flat().map(({ key: place, variant }) => `${place}${variant}`);
}
