/** The contract of a store: lists of entries, removal by prefix, and usage. */

import { describe, expect, it } from 'vitest';
import type { EntryChoice, EntryOrder, EntryRank, Store, StoredEntry } from '../../src/store/store.ts';
import {
  findFirst,
  openSampleWriter,
  readEntry,
  sampleMetadata,
  storePart,
  storeSample,
  storeTagged,
  writeBlocks,
  writeSample,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import type { OpenStore } from './store-contract.ts';

/** Keys that are easily confused, all of whole characters. */
const oddKeys: readonly string[] = [
  '',
  'a',
  'A',
  'a/',
  'a/b',
  'a/b/c',
  'a/B',
  'a0',
  'a%',
  'a%b',
  'a_',
  'a*',
  'a[b]',
  "a'",
  'a"',
  'a\\',
  'a\0',
  'a\0b',
  'a\u00e9',
  'ae\u0301',
  'a\uffff',
  'a\uffffb',
  'a\u{10000}',
  'a\u{1f39e}',
  'a\u{1f39e}b',
  'a\u{1f39f}',
  'a\u{10ffff}',
  'a\u{10ffff}\u{10ffff}',
  'b',
  '\u{10ffff}',
  '\u{10ffff}\u{10ffff}',
  'x'.repeat(3000),
  `${'x'.repeat(2999)}y`,
];

/** Prefixes: all keys, some with half a surrogate pair, with which no key begins, and a few more. */
const oddPrefixes: readonly string[] = [
  ...oddKeys,
  'a\ud83c',
  'a\udfff',
  '\udbff',
  '\ud800',
  'c',
  'x',
  'x'.repeat(3001),
];

const byPrefix = (prefix: string): EntryChoice => ({ kind: 'prefix', prefix });
const byTag = (tag: string): EntryChoice => ({ kind: 'tag', tag });

/** Checks whether a key begins with a prefix of whole characters, in the simplest way. */
function isChosen(prefix: string, key: string): boolean {
  const characters = [...prefix];
  return prefix.isWellFormed() && [...key].slice(0, characters.length).join('') === prefix;
}

/** Defines the tests of this part; `block` is the store's block size. */
export function listing(
  openStore: OpenStore,
  block: number,
  { isOneProcess, boundsItself }: { readonly isOneProcess: boolean; readonly boundsItself: boolean },
): void {
  const sizeBytes = 2 * block + 1;

  describe('a list', () => {
    it('has the entries with the prefix and no others, whatever the prefix is', async () => {
      const store = await openStore();
      for (const key of oddKeys) await storeSample(store, { key, sizeBytes: 1 });
      for (const prefix of oddPrefixes) {
        const want = oddKeys.filter((key) => isChosen(prefix, key)).sort();
        expect([prefix, (await keysOf(store, byPrefix(prefix))).sort()]).toEqual([prefix, want]);
      }
    });

    it.each([1, 2, 3, 7, 64, 65, 1000])('is the same in pages of %i', async (limit) => {
      const store = await openStore();
      for (let at = 0; at < 130; at += 1) {
        await storeTagged(store, { key: `k${at % 40}`, variant: `v${at}`, sizeBytes: 1 }, at % 2 === 0 ? ['even'] : []);
      }
      for (const [choice, count] of [
        [byPrefix('k1'), 34],
        [byPrefix(''), 130],
        [byTag('even'), 65],
      ] as const) {
        const whole = await placesOf(store, choice, 10_000);
        expect(whole).toHaveLength(count);
        expect(new Set(whole).size).toBe(count);
        expect(await placesOf(store, choice, limit)).toEqual(whole);
      }
    });

    it('has exactly the entries that look-ups find: whole, in part and pinned', async () => {
      const clock = { now: 1_000 };
      const store = await openStore(4096, { now: () => clock.now });
      await storeTagged(store, { key: 'k1', sizeBytes, seed: 1 }, ['t'], 2_000);
      await storeTagged(store, { key: 'k1', sizeBytes, seed: 2 }, ['t'], 2_000);
      const part = await storePart(store, { key: 'k2', sizeBytes, seed: 3 }, [1]);
      await store.replaceMetadata(part, { ...sampleMetadata(3), tags: ['t'] });
      await using writer = await openSampleWriter(store, { key: 'k3', sizeBytes });
      await writeBlocks(writer, block, { key: 'k3', sizeBytes }, [0]);
      for (const choice of [byPrefix('k'), byTag('t')]) {
        const { entries, next } = await store.list(choice, 10);
        expect(next).toBeUndefined();
        expect(entries.map(({ key, isComplete, pinnedUntil }) => [key, isComplete, pinnedUntil]).sort()).toEqual([
          ['k1', true, undefined],
          ['k1', true, 2_000],
          ['k2', false, undefined],
        ]);
        const whole = entries.find(({ key, pinnedUntil }) => key === 'k1' && pinnedUntil === undefined);
        expect(await readEntry(store, whole as StoredEntry)).toEqual(Buffer.from(patternBytes(0, sizeBytes, 2)));
      }
      clock.now = 2_000;
      for (const choice of [byPrefix('k'), byTag('t')]) expect(await keysOf(store, choice)).toHaveLength(2);
    });

    it('continues where it stopped although entries are stored and removed', async () => {
      const store = await openStore();
      for (const name of 'abcdefgh') await storeTagged(store, { key: `k${name}`, sizeBytes: 1 }, ['t']);
      for (const choice of [byPrefix('k'), byTag('t')]) {
        const first = await store.list(choice, 3);
        const listed = new Set(first.entries.map(({ key }) => key));
        const [gone = 'none', back = 'none'] = ['ka', 'kb', 'kc', 'kd', 'ke', 'kf', 'kg', 'kh'].filter(
          (key) => !listed.has(key),
        );
        for (const key of [gone, back, ...listed]) await store.removeKey(key);
        await storeTagged(store, { key: back, sizeBytes: 1 }, ['t']);
        const rest = await keysOf(store, choice, 3, first.next);
        expect(rest).not.toContain(gone);
        for (const key of rest) expect(listed).not.toContain(key);
        for (const key of [...listed, gone]) await storeTagged(store, { key, sizeBytes: 1 }, ['t']);
      }
    });

    it.each(['', 'x', 'WzFd', 'WyJhIl0', '%', 'e30'])(
      'rejects a cursor that it has not returned: %j',
      async (after) => {
        const store = await openStore();
        await storeTagged(store, { key: 'k', sizeBytes: 1 }, ['t']);
        const wanted = byPrefix('k');
        await expect(store.list(wanted, 10, after)).rejects.toBeInstanceOf(RangeError);
      },
    );

    it('is empty where no entry is chosen', async () => {
      const store = await openStore();
      for (const choice of [byPrefix(''), byTag('t')]) {
        expect(await store.list(choice, 10)).toEqual({ entries: [], next: undefined });
      }
    });
  });

  describe('a ranked list', () => {
    const key = (at: number): string => `scope http://a.test/${at % 3 === 0 ? 'Film' : 'song'}-${at}`;
    const sizeOf = (at: number): number => ((at * 7) % 40) + 1;
    const bornAt = (at: number): number => 1_000 + ((at * 11) % 40);

    /** Stores 40 entries of different sizes and ages, the even ones with a tag. */
    async function storeRanked(store: Store): Promise<void> {
      for (let at = 0; at < 40; at += 1) {
        const entry = await storeTagged(store, { key: key(at), sizeBytes: sizeOf(at) }, []);
        const tags = at % 2 === 0 ? ['even'] : [];
        await store.replaceMetadata(entry, { ...sampleMetadata(at), responseAt: bornAt(at), tags });
      }
    }
    const all = Array.from({ length: 40 }, (_, at) => at);
    const sortedBy = (rankOf: (at: number) => number | string, chosen = all): string[] =>
      chosen.toSorted((one, other) => (rankOf(one) < rankOf(other) ? -1 : 1)).map(key);

    it.each([1, 3, 39, 40, 100])('is in its order, either way, in pages of %i', async (limit) => {
      const store = await openStore();
      await storeRanked(store);
      const ranked = (by: EntryOrder['by'], choice = byPrefix(''), isDescending = false) =>
        rankedKeys(store, choice, { by, isDescending }, limit);
      const oldestLast = sortedBy((at) => -bornAt(at));
      for (const [by, want] of [
        ['key', sortedBy(key)],
        ['size', sortedBy(sizeOf)],
        ['age', oldestLast],
      ] as const) {
        expect([by, await ranked(by)]).toEqual([by, want]);
        expect([by, await ranked(by, byPrefix(''), true)]).toEqual([by, want.toReversed()]);
      }
      const even = all.filter((at) => at % 2 === 0);
      expect(await ranked('size', byTag('even'))).toEqual(sortedBy(sizeOf, even));
      const films = all.filter((at) => at % 3 === 0);
      expect(await ranked('age', byPrefix('scope http://a.test/Film'))).toEqual(sortedBy((at) => -bornAt(at), films));
    });

    it('can be limited to keys with a text after their first space', async () => {
      const store = await openStore();
      await storeRanked(store);
      const containing = (contains: string, by: EntryOrder['by'] = 'size') =>
        rankedKeys(store, byPrefix(''), { by, isDescending: true, contains }, 7);
      const want = sortedBy(
        sizeOf,
        all.filter((at) => at % 3 === 0),
      ).toReversed();
      for (const text of ['film', 'FILM', 'test/fILM-']) expect([text, await containing(text)]).toEqual([text, want]);
      expect(await containing('film', 'used')).toHaveLength(want.length);
      for (const text of ['scope', 'none', '%', '_']) expect([text, await containing(text)]).toEqual([text, []]);
    });

    it('has each entry once where ranks are equal, and goes on behind an entry that is gone', async () => {
      const store = await openStore();
      for (let at = 0; at < 30; at += 1) await storeSample(store, { key: `k ${at}`, sizeBytes: 5 });
      const order = { by: 'size', isDescending: true } as const;
      const whole = await rankedKeys(store, byPrefix('k'), order, 1000);
      expect(new Set(whole).size).toBe(30);
      expect(await rankedKeys(store, byPrefix('k'), order, 4)).toEqual(whole);
      const first = await store.listRanked(byPrefix('k'), order, 4);
      for (const { entry } of first.entries) await store.removeEntry(entry);
      expect(await rankedKeys(store, byPrefix('k'), order, 4, first.next)).toEqual(whole.slice(4));
    });

    it('orders keys by code points', async () => {
      const store = await openStore();
      for (const odd of oddKeys) await storeSample(store, { key: odd, sizeBytes: 1 });
      const want = oddKeys.toSorted((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other)));
      expect(await rankedKeys(store, byPrefix(''), { by: 'key', isDescending: false }, 5)).toEqual(want);
    });

    // Each process knows its own uses; the operations of a fleet merge them.
    if (isOneProcess)
      it('knows the last use of an entry, to the second', async () => {
        const clock = { now: 1_700_000_000_000 };
        const store = await openStore(4096, { now: () => clock.now });
        for (const name of 'abcd') await storeSample(store, { key: `k ${name}`, sizeBytes });
        const entries = new Map<string, StoredEntry>();
        for (const name of 'abcd') entries.set(name, (await findFirst(store, `k ${name}`)) as StoredEntry);
        const last = entries.get('a');
        expect(last && store.usedAt(last.generation)).toBeUndefined();
        for (const name of 'cab') {
          clock.now += 60_000;
          entries.get(name)?.peekBlock(0);
        }
        expect(last && store.usedAt(last.generation)).toBe(1_700_000_120_000);
        const byUse = (isDescending: boolean) => rankedKeys(store, byPrefix('k'), { by: 'used', isDescending }, 3);
        expect(await byUse(true)).toEqual(['k b', 'k a', 'k c', 'k d']);
        expect(await byUse(false)).toEqual(['k d', 'k c', 'k a', 'k b']);
        expect(store.usedAt('unknown')).toBeUndefined();
      });
  });

  it('has no block of a generation in memory that it does not have', async () => {
    const store = await openStore();
    const entry = await storePart(store, { key: 'k', sizeBytes }, [1]);
    expect([...store.blocksInMemory('unknown', 3)]).toEqual([]);
    const present = await entry.readPresence();
    for (const span of store.blocksInMemory(entry.generation, 3)) expect(present.hasAll(span)).toBe(true);
  });

  describe('a removal by prefix', () => {
    it('removes the entries with the prefix and no others, whatever the prefix is', async () => {
      const store = await openStore();
      for (const key of oddKeys) await storeSample(store, { key, sizeBytes: 1 });
      for (const prefix of oddPrefixes) {
        const want = oddKeys.filter((key) => isChosen(prefix, key));
        expect([prefix, [...(await store.removePrefixed(prefix))].sort()]).toEqual([prefix, [...want].sort()]);
        const left = oddKeys.filter((key) => !want.includes(key)).sort();
        expect([prefix, (await keysOf(store, byPrefix(''))).sort()]).toEqual([prefix, left]);
        for (const key of want) {
          expect(await store.find(key)).toEqual([]);
          await storeSample(store, { key, sizeBytes: 1 });
        }
      }
    });

    it('removes very many entries of all variants', async () => {
      const store = await openStore();
      for (let at = 0; at < 300; at += 1) {
        await storeSample(store, { key: `k${at % 200}`, variant: `v${at}`, sizeBytes: 1 });
      }
      await storeSample(store, { key: 'other', sizeBytes: 1 });
      const removed = await store.removePrefixed('k');
      expect([...removed].sort()).toEqual(Array.from({ length: 200 }, (_, at) => `k${at}`).sort());
      expect(await keysOf(store, byPrefix(''))).toEqual(['other']);
      if (boundsItself) expect(store.readUsage().entryCount).toBe(1);
    });

    it('removes entries that are pinned, in part, and being written', async () => {
      const clock = { now: 1_000 };
      const store = await openStore(4096, { now: () => clock.now });
      await storeTagged(store, { key: 'k1', sizeBytes, seed: 1 }, [], 2_000);
      await storeTagged(store, { key: 'k1', sizeBytes, seed: 2 }, [], 2_000);
      const sample = { key: 'k2', sizeBytes, seed: 3 };
      await using writer = await openSampleWriter(store, sample);
      await writeBlocks(writer, block, sample, [1]);
      await writer.publish(sampleMetadata(3));
      const entry = (await findFirst(store, 'k1')) as StoredEntry;
      const reader = await entry.open();
      expect([...(await store.removePrefixed('k'))].sort()).toEqual(['k1', 'k2']);
      expect(Buffer.from(await reader.readBlock(0))).toEqual(Buffer.from(patternBytes(0, block, 2)));
      reader.close();
      await writeSample(writer, block, sample);
      const final = { metadata: sampleMetadata(3), sizeBytes };
      await expect(writer.commit(final)).rejects.toMatchObject({ name: 'StoreFault', reason: 'removed' });
      expect(await keysOf(store, byPrefix(''))).toEqual([]);
    });
  });

  if (!boundsItself) return;
  it('reports its usage', async () => {
    const store = await openStore(64);
    const maxSizeBytes = 64 * block;
    expect(store.readUsage()).toMatchObject({ entryCount: 0, usedBytes: 0, maxSizeBytes });
    await storeSample(store, { key: 'a', sizeBytes: 4 * block });
    await storePart(store, { key: 'b', sizeBytes: 4 * block }, [0]);
    const full = store.readUsage();
    expect(full.entryCount).toBe(2);
    expect(full.usedBytes).toBeGreaterThan(4 * block);
    expect(full.usedBytes).toBeLessThan(maxSizeBytes);
    for (let at = 0; at < 40; at += 1) await storeSample(store, { key: `k${at}`, sizeBytes: 4 * block });
    const { entryCount, usedBytes } = store.readUsage();
    expect(entryCount).toBe((await keysOf(store, byPrefix(''))).length);
    expect(usedBytes).toBeLessThanOrEqual(maxSizeBytes);
    expect(usedBytes).toBeGreaterThan(maxSizeBytes / 2);
    await store.removePrefixed('');
    expect(store.readUsage()).toMatchObject({ entryCount: 0, usedBytes: 0, maxSizeBytes });
  });
}

/** Returns the key, variant and generation of each entry of a list, in its order. */
async function placesOf(store: Store, choice: EntryChoice, limit: number, from?: string): Promise<string[]> {
  const places: string[] = [];
  let after = from;
  do {
    const { entries, next } = await store.list(choice, limit, after);
    expect(entries.length).toBeLessThanOrEqual(limit);
    places.push(...entries.map(({ key, variant, generation }) => `${key} ${variant} ${generation}`));
    after = next;
  } while (after !== undefined);
  return places;
}

async function keysOf(store: Store, choice: EntryChoice, limit = 10, from?: string): Promise<string[]> {
  return (await placesOf(store, choice, limit, from)).map((place) => place.replace(/ [^ ]* [^ ]*$/, ''));
}

/** Returns the keys of a ranked list, in its order, read in pages. */
async function rankedKeys(
  store: Store,
  choice: EntryChoice,
  order: EntryOrder,
  limit: number,
  from?: EntryRank,
): Promise<string[]> {
  const keys: string[] = [];
  let after = from;
  do {
    const { entries, next } = await store.listRanked(choice, order, limit, after);
    expect(entries.length).toBeLessThanOrEqual(limit);
    keys.push(...entries.map(({ entry }) => entry.key));
    after = next;
  } while (after !== undefined);
  return keys;
}
