/** Tags in the disk store: they outlive a restart, their rows are deleted with the entries, and damage costs at most entries. */

import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { bodyFiles, openTestStore } from '../support/stores/disk-store.ts';
import {
  canOpen,
  findFirst,
  openSampleWriter,
  pushOut,
  readKey,
  sampleMetadata,
  storePart,
  storeSample,
  storeTagged,
  taggedMetadata,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const block = 16 * 1024;
const inFiles = 5 * block;

/** Changes the index of a closed store. */
function changeIndex(dir: string, sql: string): void {
  const database = new DatabaseSync(join(dir, 'index.sqlite'), { enableForeignKeyConstraints: false });
  database.exec(sql);
  database.close();
}

/** Returns the tags in the index of a closed store, sorted. */
function tagsIn(dir: string): unknown[] {
  const database = new DatabaseSync(join(dir, 'index.sqlite'));
  try {
    const rows = database.prepare('SELECT tag FROM tags ORDER BY tag').all();
    return rows.map(({ tag }) => tag);
  } finally {
    database.close();
  }
}

describe('a restart', () => {
  it.each([700, inFiles])('keeps the tags of entries of %i bytes; a removal by them deletes files', async (size) => {
    const first = await openTestStore();
    await storeTagged(first.store, { key: 'whole', sizeBytes: size }, ['t', 'u']);
    const part = await storePart(first.store, { key: 'part', sizeBytes: inFiles }, [1]);
    await first.store.replaceMetadata(part, taggedMetadata(0, ['t']));
    await storeTagged(first.store, { key: 'pinned', sizeBytes: size }, ['t']);
    await storeTagged(first.store, { key: 'pinned', sizeBytes: size, seed: 2 }, ['u'], Number.POSITIVE_INFINITY);
    await storeSample(first.store, { key: 'other', sizeBytes: 1 });
    await first.store.close();
    const { store, dir, events } = await openTestStore({ dir: first.dir });
    expect([...(await store.removeTagged('t'))].sort()).toEqual(['part', 'pinned', 'whole']);
    expect((await store.find('pinned')).map(({ metadata }) => metadata.tags)).toEqual([['u']]);
    expect(await readKey(store, 'pinned')).toEqual(Buffer.from(patternBytes(0, size, 2)));
    expect(await store.find('other')).toHaveLength(1);
    await expect.poll(() => bodyFiles(dir)).toHaveLength(size === inFiles ? 2 : 0);
    await store.close();
    expect(tagsIn(dir)).toEqual(['u']);
    expect(events).toEqual([]);
  });

  it('keeps removals by tag', async () => {
    const first = await openTestStore();
    for (const sizeBytes of [700, inFiles]) await storeTagged(first.store, { key: `${sizeBytes}`, sizeBytes }, ['t']);
    await first.store.removeTagged('t');
    await first.store.close();
    const { store } = await openTestStore({ dir: first.dir });
    for (const key of ['700', `${inFiles}`]) expect(await store.find(key)).toEqual([]);
    expect(await bodyFiles(first.dir)).toEqual([]);
  });
});

describe('the rows of tags', () => {
  const sample = { key: 'k', sizeBytes: inFiles };
  const departures: readonly [string, (store: Store) => Promise<unknown>][] = [
    ['was replaced', (store) => storeSample(store, sample)],
    ['has other metadata', async (store) => store.replaceMetadata(await current(store), sampleMetadata(1))],
    ['was removed', async (store) => store.removeEntry(await current(store))],
    ['was removed with its key', (store) => store.removeKey('k')],
    ['was removed by tag', (store) => store.removeTagged('b')],
    ['was evicted', (store) => pushOut(store, inFiles)],
  ];
  it.each(departures)('are deleted when their entry %s', async (_, depart) => {
    const { store, dir } = await openTestStore({ maxSizeBytes: 20 * inFiles });
    await storeTagged(store, sample, ['a', 'b', 'a']);
    await depart(store);
    await store.close();
    expect(tagsIn(dir)).toEqual([]);
  });

  it('are deleted with bodies whose blocks have another size', async () => {
    const first = await openTestStore();
    await storeTagged(first.store, sample, ['files']);
    await storeTagged(first.store, { key: 'inline', sizeBytes: 1 }, ['inline']);
    await first.store.close();
    const { store } = await openTestStore({ dir: first.dir, blockSizeBytes: block / 2 });
    expect(await store.removeTagged('files')).toEqual([]);
    await store.close();
    expect(tagsIn(first.dir)).toEqual(['inline']);
  });

  it('exist once for each current tag of an entry', async () => {
    const { store, dir } = await openTestStore();
    await using writer = await openSampleWriter(store, { key: 'k', sizeBytes: 0 });
    await writer.publish(taggedMetadata(0, ['published', 'both']));
    await writer.commit({ metadata: taggedMetadata(0, ['both', 'committed', 'both']), sizeBytes: 0 });
    await storeTagged(store, { key: 'k', sizeBytes: 0 }, ['next', 'same'], Number.POSITIVE_INFINITY);
    await store.replaceMetadata(await current(store), taggedMetadata(1, ['same', 'fresh', 'fresh']));
    await store.close();
    expect(tagsIn(dir)).toEqual(['both', 'committed', 'fresh', 'same']);
  });
});

it('very many entries are removed a few at a time, and other work gets its turn', async () => {
  const { store } = await openTestStore();
  for (let at = 0; at < 200; at += 1) await storeTagged(store, { key: `k${at}`, sizeBytes: 1 }, ['t']);
  const removing = store.removeTagged('t');
  expect(await store.find('k0')).toEqual([]);
  expect(await store.find('k199')).toHaveLength(1);
  expect(await removing).toHaveLength(200);
  expect(await store.find('k199')).toEqual([]);
});

it('closing the store ends a removal by tag', async () => {
  const { store, events } = await openTestStore();
  for (let at = 0; at < 200; at += 1) await storeTagged(store, { key: `k${at}`, sizeBytes: 1 }, ['t']);
  const removing = store.removeTagged('t');
  await store.close();
  expect((await removing).length).toBeLessThan(200);
  expect(events).toEqual([]);
});

describe('damage', () => {
  /** Opens a store with one tagged entry, whose index was changed by `sql` while the store was closed. */
  async function damagedStore(sql: string) {
    const { store, dir } = await openTestStore();
    await storeTagged(store, { key: 'k', sizeBytes: 700, seed: 1 }, ['t']);
    await store.close();
    changeIndex(dir, sql);
    return await openTestStore({ dir });
  }

  it('to the row of an entry that has the tag costs the entry, and is logged', async () => {
    const { store, events } = await damagedStore("UPDATE entries SET key = 'other'");
    expect(await store.removeTagged('t')).toEqual([]);
    for (const key of ['k', 'other']) expect(await store.find(key)).toEqual([]);
    expect(events).toMatchObject([{ level: 'warn', message: 'A stored entry was damaged and has been removed.' }]);
  });

  it('to the row of a tag does not remove an entry without that tag', async () => {
    const { store, events } = await damagedStore("UPDATE tags SET tag = 'u'");
    expect(await store.removeTagged('u')).toEqual([]);
    expect(await canOpen(store, 'k')).toBe(true);
    expect(events).toEqual([]);
  });

  it('that left a tag of a nonexistent entry does not disturb the next entry', async () => {
    const { store, events } = await damagedStore("INSERT INTO tags SELECT 't', id + 1 FROM entries");
    await storeTagged(store, { key: 'next', sizeBytes: 700 }, ['t']);
    expect(await store.removeTagged('t')).toEqual(['k', 'next']);
    expect(events).toEqual([]);
  });
});

async function current(store: Store) {
  const entry = await findFirst(store, 'k');
  if (entry === undefined) throw new Error('the entry is gone');
  return entry;
}
