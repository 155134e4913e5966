/** The contract of a store: replaced generations that are pinned for clients that resume. */

import { expect, it } from 'vitest';
import { maxPins } from '../../src/store/entry-rules.ts';
import type { Store, StoredEntry } from '../../src/store/store.ts';
import {
  canOpen,
  findFirst,
  openSampleWriter,
  pushOut,
  readAll,
  readEntry,
  type Sample,
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
export function pins(openStore: OpenStore, block: number, boundsItself: boolean): void {
  const sizeBytes = 3 * block + 1;
  const sample = (seed: number, variant = '') => ({ key, variant, sizeBytes, seed });
  const bytes = (seed: number) => Buffer.from(patternBytes(0, sizeBytes, seed));
  const until = 2_000_000_000_000;

  /** Opens a store with a clock. */
  const openTimed = async (maxBlocks?: number) => {
    const clock = { now: until - 1000 };
    return { clock, store: await openStore(maxBlocks, { now: () => clock.now }) };
  };
  const replacements: readonly [string, (store: Store, next: Sample, pinPreviousUntil?: number) => Promise<unknown>][] =
    [
      ['a commit', commitOver],
      ['a publication', publishOver],
    ];
  for (const [replacement, replace] of replacements) {
    it(`keeps a generation that ${replacement} replaces until its pin ends`, async () => {
      const { clock, store } = await openTimed();
      const earlier = await storeSample(store, sample(1));
      expect(earlier.pinnedUntil).toBeUndefined();
      await replace(store, sample(2), until);
      const [current, pinned, ...others] = await store.find(key);
      expect(current).toMatchObject({ pinnedUntil: undefined, metadata: sampleMetadata(2) });
      const { generation } = earlier;
      expect(pinned).toMatchObject({ key, variant: '', generation, sizeBytes, isComplete: true, pinnedUntil: until });
      expect(pinned?.metadata).toEqual(sampleMetadata(1));
      expect(others).toEqual([]);
      expect(await readEntry(store, pinned as StoredEntry)).toEqual(bytes(1));
      clock.now = until - 1;
      expect(await pinnedIn(store)).toEqual([generation]);
      clock.now = until;
      expect(await pinnedIn(store)).toEqual([]);
      expect(await store.find(key)).toHaveLength(1);
    });

    it(`does not keep a generation that ${replacement} replaces without a pin, or with one that has ended`, async () => {
      const { clock, store } = await openTimed();
      for (const pin of [undefined, clock.now, 0, Number.NaN]) {
        const earlier = await storeSample(store, sample(1));
        await replace(store, sample(2), pin);
        expect(await store.find(key)).toHaveLength(1);
        await expect(earlier.open()).rejects.toMatchObject({ code: 'bytes_gone' });
      }
    });

    it(`does not keep a part that ${replacement} replaces`, async () => {
      const { store } = await openTimed();
      await storePart(store, sample(1), [0, 1, 2]);
      await replace(store, sample(2), until);
      expect(await store.find(key)).toHaveLength(1);
    });
  }

  it('rounds a fraction in the end of a pin up, and limits an infinite one', async () => {
    for (const [pin, pinnedUntil] of [
      [until - 0.5, until],
      [Number.POSITIVE_INFINITY, Number.MAX_SAFE_INTEGER],
    ] as const) {
      const { store } = await openTimed();
      await storeSample(store, sample(1));
      await commitOver(store, sample(2), pin);
      expect((await store.find(key))[1]).toMatchObject({ pinnedUntil });
    }
  });

  it('pins nothing when a generation that was published is committed', async () => {
    const { store } = await openTimed();
    await using writer = await openSampleWriter(store, sample(1));
    await writer.publish(sampleMetadata(1), until);
    await writeSample(writer, block, sample(1));
    await writer.commit({ metadata: sampleMetadata(1), sizeBytes, pinPreviousUntil: until });
    expect(await store.find(key)).toMatchObject([{ isComplete: true, pinnedUntil: undefined }]);
  });

  it('returns pinned generations after all current ones', async () => {
    const { store } = await openTimed();
    for (const [variant, seed] of [
      ['a', 1],
      ['b', 2],
      ['b', 3],
      ['a', 4],
      ['c', 5],
    ] as const) {
      await commitOver(store, sample(seed, variant), until);
    }
    const found = (await store.find(key)).map(({ variant, metadata, pinnedUntil }) => [
      variant,
      metadata.fields[0]?.[1],
      pinnedUntil,
    ]);
    expect(found).toEqual([
      ['c', '"5"', undefined],
      ['a', '"4"', undefined],
      ['b', '"3"', undefined],
      ['b', '"2"', until],
      ['a', '"1"', until],
    ]);
  });

  it(`keeps the last ${maxPins} pinned generations of a variant`, async () => {
    const { store } = await openTimed();
    for (let seed = 0; seed < maxPins + 3; seed += 1) await commitOver(store, sample(seed), until);
    await storeSample(store, sample(99, 'other'));
    const [, , ...pinned] = await store.find(key);
    const seeds = Array.from({ length: maxPins }, (_, at) => maxPins + 1 - at);
    expect(pinned.map(({ metadata }) => metadata)).toEqual(seeds.map(sampleMetadata));
    for (const [at, entry] of pinned.entries()) expect(await readEntry(store, entry)).toEqual(bytes(seeds[at] ?? 0));
  });

  it('does not count pins that have ended', async () => {
    const { clock, store } = await openTimed();
    await commitOver(store, sample(0));
    await commitOver(store, sample(1), until + 1000);
    for (let seed = 2; seed <= maxPins; seed += 1) await commitOver(store, sample(seed), until);
    clock.now = until;
    await commitOver(store, sample(9), until + 1000);
    expect((await store.find(key)).slice(1).map(({ metadata }) => metadata)).toEqual([maxPins, 0].map(sampleMetadata));
  });

  it('neither freshens nor resumes a pinned generation', async () => {
    const { store } = await openTimed();
    const earlier = await storeSample(store, sample(1));
    await commitOver(store, sample(2), until);
    const pinned = (await store.find(key))[1] as StoredEntry;
    for (const entry of [earlier, pinned]) {
      expect(await store.replaceMetadata(entry, sampleMetadata('late'))).toBeUndefined();
      expect(await store.resume(entry)).toBeUndefined();
    }
    expect((await store.find(key)).map(({ metadata }) => metadata)).toEqual([2, 1].map(sampleMetadata));
  });

  it('refuses a commit of a pinned generation, and keeps its bytes', async () => {
    const { store } = await openTimed();
    const writer = await openSampleWriter(store, sample(1));
    await writeSample(writer, block, sample(1));
    const final = { metadata: sampleMetadata(1), sizeBytes };
    await writer.commit(final);
    await commitOver(store, sample(2), until);
    await expect(writer.commit(final)).rejects.toMatchObject({ name: 'StoreFault', reason: 'removed' });
    expect(await readAll(writer, sizeBytes, block)).toEqual(bytes(1));
    expect(await store.resume((await store.find(key))[1] as StoredEntry)).toBeUndefined();
    await writer[Symbol.asyncDispose]();
    const [current, pinned] = await store.find(key);
    expect(current?.metadata).toEqual(sampleMetadata(2));
    expect(await readEntry(store, pinned as StoredEntry)).toEqual(bytes(1));
  });

  for (const order of ['before', 'after'] as const) {
    it(`pins a generation that is committed again just ${order} it is replaced`, async () => {
      const { store } = await openTimed();
      const [first, second] = [await openSampleWriter(store, sample(1)), await openSampleWriter(store, sample(2))];
      await writeSample(first, block, sample(1));
      await writeSample(second, block, sample(2));
      await first.commit({ metadata: sampleMetadata(1), sizeBytes });
      const again = () => first.commit({ metadata: sampleMetadata('again'), sizeBytes });
      const replacing = () => second.commit({ metadata: sampleMetadata(2), sizeBytes, pinPreviousUntil: until });
      const commits = order === 'before' ? [again(), replacing()] : [replacing(), again()];
      await Promise.allSettled(commits);
      for (const writer of [first, second]) await writer[Symbol.asyncDispose]();
      const [current, pinned, ...others] = await store.find(key);
      expect([current?.generation, pinned?.generation]).toEqual([second.generation, first.generation]);
      expect(others).toEqual([]);
      expect(await readEntry(store, pinned as StoredEntry)).toEqual(bytes(1));
    });
  }

  it('removes pinned generations', async () => {
    const { store } = await openTimed();
    for (const seed of [1, 2, 3]) await commitOver(store, sample(seed), until);
    const [current, pinned, oldest] = await store.find(key);
    await store.removeEntry(pinned as StoredEntry);
    expect((await store.find(key)).map((each) => each.generation)).toEqual([current?.generation, oldest?.generation]);
    await expect(pinned?.open()).rejects.toMatchObject({ code: 'bytes_gone' });
    expect(await store.removeKey(key)).toBe(2);
    expect(await store.find(key)).toEqual([]);
    await expect(oldest?.open()).rejects.toMatchObject({ code: 'bytes_gone' });
  });

  it('keeps a pin unchanged when the current generation is removed and a new one stored', async () => {
    const { store } = await openTimed();
    const earlier = await storeSample(store, sample(1));
    await commitOver(store, sample(2), until);
    await store.removeEntry((await findFirst(store, key)) as StoredEntry);
    expect(await pinnedIn(store)).toEqual([earlier.generation]);
    await commitOver(store, sample(3));
    expect((await store.find(key)).map(({ pinnedUntil }) => pinnedUntil)).toEqual([undefined, until]);
  });

  it('removes generations whose pins have ended with their key, without counting them', async () => {
    const { clock, store } = await openTimed();
    const earlier = await storeSample(store, sample(1));
    await commitOver(store, sample(2), until);
    clock.now = until;
    expect(await store.removeKey(key)).toBe(1);
    await expect(earlier.open()).rejects.toMatchObject({ code: 'bytes_gone' });
  });

  it('deletes generations whose pins have ended with the next writes', async () => {
    const { clock, store } = await openTimed();
    const earlier: StoredEntry[] = [];
    for (let at = 0; at < 10; at += 1) {
      earlier.push(await storeSample(store, { ...sample(1), key: `k${at}` }));
      await commitOver(store, { ...sample(2), key: `k${at}` }, until);
    }
    for (const entry of earlier) (await entry.open()).close();
    clock.now = until;
    for (let at = 0; at < 10; at += 1) await storeSample(store, { key: `new${at}`, sizeBytes: 1 });
    for (const entry of earlier) await expect(entry.open()).rejects.toMatchObject({ code: 'bytes_gone' });
  });

  it('keeps the bytes of a reader after the pin has ended', async () => {
    const { clock, store } = await openTimed(96);
    await storeSample(store, sample(1));
    await commitOver(store, sample(2), until);
    const reader = await (await store.find(key))[1]?.open();
    clock.now = until;
    await pushOut(store, 4 * block);
    expect(reader && (await readAll(reader, sizeBytes, block))).toEqual(bytes(1));
    reader?.close();
  });

  if (boundsItself)
    it('counts the room of pinned generations, and evicts unused ones', async () => {
      const { store } = await openTimed(64);
      for (let at = 0; at < 12; at += 1) {
        for (const seed of [1, 2, 3]) {
          await commitOver(store, { key: `k${at}`, sizeBytes: 8 * block, seed }, until);
        }
      }
      const found = await Promise.all(Array.from({ length: 12 }, (_, at) => store.find(`k${at}`)));
      const kept = await Promise.all(found.flat().map((entry) => readEntry(store, entry)));
      expect(kept.filter((body) => body !== undefined).length).toBeLessThanOrEqual(64 / 8);
      expect(await canOpen(store, 'k11')).toBe(true);
    });

  /** Commits a sample in place of an earlier one. */
  async function commitOver(store: Store, next: Sample, pinPreviousUntil?: number): Promise<StoredEntry> {
    await using writer = await openSampleWriter(store, next);
    await writeSample(writer, block, next);
    const { sizeBytes: size, seed = 0 } = next;
    return await writer.commit({ metadata: sampleMetadata(seed), sizeBytes: size, pinPreviousUntil });
  }

  /** Publishes a part of a sample in place of an earlier one. */
  async function publishOver(store: Store, next: Sample, pinPreviousUntil?: number): Promise<void> {
    await using writer = await openSampleWriter(store, next);
    await writeBlocks(writer, block, next, [1]);
    await writer.publish(sampleMetadata(next.seed ?? 0), pinPreviousUntil);
  }

  /** Returns the pinned generations that a look-up finds; checks that a peek returns the same ones, if it can. */
  async function pinnedIn(store: Store): Promise<string[]> {
    const found = await store.find(key);
    const peeked = store.peek(key) ?? found;
    expect(peeked.map(({ generation }) => generation)).toEqual(found.map(({ generation }) => generation));
    return found.filter(({ pinnedUntil }) => pinnedUntil !== undefined).map(({ generation }) => generation);
  }
}
