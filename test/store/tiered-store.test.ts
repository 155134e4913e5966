/** A memory tier in front of a store: answers in the same tick, one read for many readers, and nothing stale. */

import { describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { createMemoryStore } from '../../src/store/memory/memory-store.ts';
import type { EntryReader, Store, StoredEntry } from '../../src/store/store.ts';
import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { sequentialIds } from '../support/clocks/sequential-ids.ts';
import { openTestStore } from '../support/stores/disk-store.ts';
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

const block = 1024;
const sizeBytes = 3 * block + 10;

/** A store that cannot peek, counts look-ups and reads, and can be made to wait or to fail. */
class SlowStore {
  finds = 0;
  reads = 0;
  opens = 0;
  /** Each look-up and read waits for this before it answers. */
  gate: Promise<void> = Promise.resolve();
  isBroken = false;

  readonly #below = createMemoryStore({
    maxSizeBytes: 1_000_000,
    blockSizeBytes: block,
    now: () => 0,
    randomId: sequentialIds(),
  });

  readonly store: Store = {
    blockSizeBytes: block,
    maxEntryBytes: this.#below.maxEntryBytes,
    peek: () => undefined,
    find: async (key) => {
      this.finds += 1;
      const found = await this.#below.find(key);
      await this.gate;
      return found.map((entry) => this.#slow(entry));
    },
    openWriter: (entry) => this.#below.openWriter(entry),
    resume: (entry) => this.#below.resume(entry),
    replaceMetadata: (entry, metadata) => this.#below.replaceMetadata(entry, metadata),
    removeEntry: (entry) => this.#below.removeEntry(entry),
    removeKey: (key) => this.#below.removeKey(key),
    removeTagged: (tag) => this.#below.removeTagged(tag),
    list: (choice, limit, after) => this.#below.list(choice, limit, after),
    removePrefixed: (prefix) => this.#below.removePrefixed(prefix),
    listRanked: (...given) => this.#below.listRanked(...given),
    usedAt: (generation) => this.#below.usedAt(generation),
    blocksInMemory: (...given) => this.#below.blocksInMemory(...given),
    readUsage: () => this.#below.readUsage(),
    applyChange: (change) => this.#below.applyChange(change),
    close: () => this.#below.close(),
  };

  /** Removes a key without telling the tier, as an eviction does. */
  async evict(key: string): Promise<void> {
    await this.#below.removeKey(key);
  }

  #slow(entry: StoredEntry): StoredEntry {
    return {
      ...entry,
      peekBlock: () => undefined,
      open: async () => {
        this.opens += 1;
        return this.#slowReader(await entry.open());
      },
    };
  }

  #slowReader(reader: EntryReader): EntryReader {
    return {
      peekBlock: () => undefined,
      readBlock: async (index) => {
        this.reads += 1;
        await this.gate;
        if (this.isBroken) throw new ProxyError('bytes_gone');
        return await reader.readBlock(index);
      },
      close: () => reader.close(),
    };
  }
}

function createTier(maxSizeBytes = 1_000_000) {
  const slow = new SlowStore();
  return { slow, memory: createMemoryTier({ maxSizeBytes }), below: slow.store };
}

/** Creates a tiered store over one that already has an entry, with an empty memory. */
async function tierOverStored(maxSizeBytes?: number) {
  const { slow, memory, below } = createTier(maxSizeBytes);
  await storeSample(below, { key: 'k', sizeBytes, seed: 1 });
  return { slow, store: createTieredStore(memory, below, () => 0) };
}

function heldGate(): { gate: Promise<void>; release: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { gate: promise, release: resolve };
}

describe('a key without entries', () => {
  it('is looked up below once, and again when something may have been stored under it', async () => {
    const { memory, below } = createTier();
    let lookups = 0;
    const counted: Store = {
      ...below,
      find: (key) => {
        lookups += 1;
        return below.find(key);
      },
    };
    let now = 0;
    const store = createTieredStore(memory, counted, () => now);
    expect([await store.find('k'), await store.find('k'), lookups]).toEqual([[], [], 1]);
    await storeSample(store, { key: 'k', sizeBytes, seed: 1 });
    expect((await store.find('k')).length).toBe(1);
    await store.removeKey('k');
    const before = lookups;
    expect([await store.find('k'), await store.find('k'), lookups - before]).toEqual([[], [], 1]);
    await storeSample(below, { key: 'k', sizeBytes, seed: 2 });
    store.forget({ kind: 'keys', keys: ['k'] });
    expect((await store.find('k')).length).toBe(1);
    await store.find('other');
    now += 3000;
    await storeSample(below, { key: 'other', sizeBytes, seed: 3 });
    expect((await store.find('other')).length).toBe(1);
  });
});

describe('a key with many variants', () => {
  const names = (entries: readonly StoredEntry[]) =>
    entries.map(({ variant, generation }) => `${variant} ${generation}`);

  /** Stores variants, and counts the look-ups below. */
  async function withVariants(count: number) {
    const { memory, below } = createTier();
    let lookups = 0;
    const find = (key: string) => {
      lookups += 1;
      return below.find(key);
    };
    const store = createTieredStore(memory, { ...below, find }, () => 0);
    for (let at = 0; at < count; at += 1)
      await storeSample(store, { key: 'k', variant: `v${at}`, sizeBytes, seed: at });
    await store.find('k');
    return { store, below, lookupsSince: (from: number) => lookups - from, lookups: () => lookups };
  }

  it('is not read again when a variant is stored or removed: the same entries are found in the same order', async () => {
    const { store, below, lookups, lookupsSince } = await withVariants(200);
    const before = lookups();
    for (let at = 200; at < 220; at += 1) {
      await storeSample(store, { key: 'k', variant: `v${at}`, sizeBytes, seed: at });
      const oldest = (await store.find('k')).at(-1) as StoredEntry;
      await store.removeEntry(oldest);
      expect(names(await store.find('k'))).toEqual(names(await below.find('k')));
    }
    expect(lookupsSince(before)).toBe(0);
    expect(await readKey(store, 'k')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 219)));
  });

  it('is read again when a variant is replaced, and when another change came between', async () => {
    const { store, below, lookups, lookupsSince } = await withVariants(20);
    let before = lookups();
    await storeSample(store, { key: 'k', variant: 'v3', sizeBytes, seed: 50 });
    expect(names(await store.find('k'))).toEqual(names(await below.find('k')));
    expect(lookupsSince(before)).toBe(1);
    before = lookups();
    const storing = storeSample(store, { key: 'k', variant: 'new', sizeBytes, seed: 51 });
    await store.removeKey('k');
    await storing;
    expect(names(await store.find('k'))).toEqual(names(await below.find('k')));
    expect(lookupsSince(before)).toBeGreaterThan(0);
  });
});

describe('in the same tick', () => {
  it('blocks are available once they are written, to the writer and the entry', async () => {
    const { memory, below } = createTier();
    const store = createTieredStore(memory, below, () => 0);
    await using writer = await openSampleWriter(store, { key: 'k', sizeBytes: 2 * block });
    await writer.writeBlock(0, patternBytes(0, block));
    expect(writer.peekBlock(0)).toEqual(patternBytes(0, block));
    await writer.writeBlock(1, patternBytes(block, 2 * block));
    const entry = await writer.commit({ metadata: sampleMetadata(), sizeBytes: 2 * block });
    expect(entry.peekBlock(1)).toEqual(patternBytes(block, 2 * block));
    expect((await findFirst(store, 'k'))?.peekBlock(0)).toEqual(patternBytes(0, block));
  });

  it('entries are available once they were found, and blocks once they were read', async () => {
    const { store, slow } = await tierOverStored();
    expect(store.peek('k')).toBeUndefined();
    const found = await findFirst(store, 'k');
    expect(store.peek('k')?.[0]).toBe(found);
    expect(found?.peekBlock(2)).toBeUndefined();
    const reader = await found?.open();
    await reader?.readBlock(2);
    reader?.close();
    expect(store.peek('k')?.[0]?.peekBlock(2)).toEqual(patternBytes(2 * block, 3 * block, 1));
    await readKey(store, 'k');
    await readKey(store, 'k');
    expect(slow).toMatchObject({ finds: 1, reads: 4 });
  });

  it('a body in its row is available once it was read, in a process that has not written it', async () => {
    const first = await openTestStore({ blockSizeBytes: block });
    await storeSample(first.store, { key: 'k', sizeBytes: 10, seed: 1 });
    await first.store.close();
    const below = await openTestStore({ blockSizeBytes: block, dir: first.dir });
    const store = createTieredStore(createMemoryTier({ maxSizeBytes: 100_000 }), below.store, () => 0);
    expect(await readKey(store, 'k')).toEqual(Buffer.from(patternBytes(0, 10, 1)));
    const entry = await findFirst(store, 'k');
    expect(Buffer.from(entry?.peekBlock(0) ?? [])).toEqual(Buffer.from(patternBytes(0, 10, 1)));
  });

  it('blocks of a part are available once they are written, and a completed part is found as complete', async () => {
    const { memory, below } = createTier();
    const store = createTieredStore(memory, below, () => 0);
    const sample = { key: 'k', sizeBytes, seed: 1 };
    const entry = await storePart(store, sample, [1]);
    expect(store.peek('k')?.[0]).toMatchObject({ isComplete: false });
    const writer = await store.resume(entry);
    await writer?.writeBlock(3, blockOf(sample, block, 3));
    expect(entry.peekBlock(3)).toEqual(blockOf(sample, block, 3));
    expect(entry.peekBlock(0)).toBeUndefined();
    if (writer !== undefined) await writeBlocks(writer, block, sample, [0, 2]);
    await writer?.commit({ metadata: sampleMetadata(1), sizeBytes });
    await writer?.[Symbol.asyncDispose]();
    expect(await findFirst(store, 'k')).toMatchObject({ isComplete: true });
  });

  it('a block that was present before keeps its bytes when it is written again', async () => {
    const { memory, below } = createTier();
    const sample = { key: 'k', sizeBytes, seed: 1 };
    const entry = await storePart(below, sample, [1]);
    const store = createTieredStore(memory, below, () => 0);
    const writer = await store.resume(entry);
    const other = { ...sample, seed: 2 };
    const [first] = [1, 2].map((seed) => writer?.writeBlock(0, blockOf({ ...sample, seed }, block, 0)));
    await writer?.writeBlock(1, blockOf(other, block, 1));
    await first;
    await writer?.writeBlock(0, blockOf(other, block, 0));
    for (const index of [0, 1]) expect(await writer?.readBlock(index)).toEqual(blockOf(sample, block, index));
    await writer?.[Symbol.asyncDispose]();
  });

  it('nothing is available when memory is too small, but everything can be read', async () => {
    const { store, slow } = await tierOverStored(16);
    expect(await readKey(store, 'k')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 1)));
    expect(await readKey(store, 'k')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 1)));
    expect(store.peek('k')).toBeUndefined();
    expect(slow).toMatchObject({ finds: 2, reads: 8 });
  });
});

describe('concurrent callers', () => {
  it('that look up one key cause one look-up below', async () => {
    const { store, slow } = await tierOverStored();
    const found = await Promise.all(Array.from({ length: 10 }, () => store.find('k')));
    expect(slow.finds).toBe(1);
    for (const entries of found) expect(entries).toHaveLength(1);
  });

  it('that read one block cause one read below, also when a reader is closed', async () => {
    const { store, slow } = await tierOverStored();
    const entry = await findFirst(store, 'k');
    const readers = await Promise.all(Array.from({ length: 10 }, async () => await entry?.open()));
    const { gate, release } = heldGate();
    slow.gate = gate;
    const reads = readers.map((reader) => reader?.readBlock(1));
    readers[0]?.close();
    release();
    for (const bytes of await Promise.all(reads)) expect(bytes).toEqual(patternBytes(block, 2 * block, 1));
    expect(slow.reads).toBe(1);
  });

  it('that read a block that fails are all rejected, and the next read tries again', async () => {
    const { store, slow } = await tierOverStored();
    const entry = await findFirst(store, 'k');
    const readers = await Promise.all([entry?.open(), entry?.open()]);
    slow.isBroken = true;
    const reads = await Promise.allSettled(readers.map((reader) => reader?.readBlock(1)));
    expect(reads.map((read) => read.status)).toEqual(['rejected', 'rejected']);
    slow.isBroken = false;
    expect(await readers[0]?.readBlock(1)).toEqual(patternBytes(block, 2 * block, 1));
    expect(slow.reads).toBe(2);
  });
});

describe('nothing stale', () => {
  const changes: readonly [string, (store: Store, entry: StoredEntry) => Promise<unknown>, string | undefined][] = [
    ['a commit', (store) => storeSample(store, { key: 'k', sizeBytes: 1, seed: 2 }), '2'],
    [
      'a commit of another variant',
      (store) => storeSample(store, { key: 'k', variant: 'b', sizeBytes: 1, seed: 3 }),
      '3',
    ],
    ['other metadata', (store, entry) => store.replaceMetadata(entry, sampleMetadata('fresh')), 'fresh'],
    ['a removal', (store, entry) => store.removeEntry(entry), undefined],
    ['the removal of the key', (store) => store.removeKey('k'), undefined],
  ];
  const tag = (entries: readonly StoredEntry[] | undefined) => entries?.[0]?.metadata.fields[0]?.[1];
  const etagOf = (mark: string | undefined) => (mark === undefined ? undefined : `"${mark}"`);

  it.each(changes)('is found after %s', async (_, change, mark) => {
    const { store } = await tierOverStored();
    const entry = (await findFirst(store, 'k')) as StoredEntry;
    await change(store, entry);
    expect(store.peek('k')).toBeUndefined();
    expect(tag(await store.find('k'))).toBe(etagOf(mark));
  });

  it.each(changes)('is kept from a look-up that %s overtook', async (_, change, mark) => {
    const { store, slow } = await tierOverStored();
    const entry = (await findFirst(store, 'k')) as StoredEntry;
    await store.replaceMetadata(entry, sampleMetadata('before'));
    const { gate, release } = heldGate();
    slow.gate = gate;
    const overtaken = store.find('k');
    await change(store, entry);
    slow.gate = Promise.resolve();
    const later = store.find('k');
    release();
    expect(tag(await overtaken)).toBe(etagOf('before'));
    expect(tag(await later)).toBe(etagOf(mark));
    expect(tag(store.peek('k'))).toBe(etagOf(mark));
  });

  it('is kept of an entry whose bytes turned out to be gone below', async () => {
    const { store, slow } = await tierOverStored();
    const entry = await findFirst(store, 'k');
    await slow.evict('k');
    expect(store.peek('k')).toHaveLength(1);
    await expect(entry?.open()).rejects.toMatchObject({ code: 'bytes_gone' });
    expect(store.peek('k')).toBeUndefined();
    expect(await store.find('k')).toEqual([]);
  });

  it('is kept of an entry with a block that turned out to be damaged', async () => {
    const { store, slow } = await tierOverStored();
    const reader = await (await findFirst(store, 'k'))?.open();
    slow.isBroken = true;
    await expect(reader?.readBlock(0)).rejects.toMatchObject({ code: 'bytes_gone' });
    expect(store.peek('k')).toBeUndefined();
    reader?.close();
  });

  it('is kept of an entry that could not be resumed', async () => {
    const { store, slow } = await tierOverStored();
    const entry = (await findFirst(store, 'k')) as StoredEntry;
    await slow.evict('k');
    expect(await store.resume(entry)).toBeUndefined();
    expect(store.peek('k')).toBeUndefined();
  });
});

it('memory does not keep alive the pools that its blocks came from', async () => {
  const { memory, below } = createTier();
  const store = createTieredStore(memory, below, () => 0);
  const pooled = Buffer.from('a small piece of a pool');
  expect(pooled.buffer.byteLength).toBeGreaterThan(pooled.length);
  await using writer = await openSampleWriter(store, { key: 'k', sizeBytes: pooled.length });
  await writer.writeBlock(0, pooled);
  expect(memory.block(writer.generation, 0)?.buffer).not.toBe(pooled.buffer);
  expect(await readAll(writer, pooled.length, block)).toEqual(pooled);
});
