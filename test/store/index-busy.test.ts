/** An index that another process keeps locked: that is no damage, fails no request, and does not turn storing off. */

import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, it, onTestFinished, vi } from 'vitest';
import { createSharedDirectory } from '../support/stores/shared-directory.ts';
import {
  findFirst,
  openSampleWriter,
  readKey,
  sampleMetadata,
  storeSample,
  writeSample,
} from '../support/stores/stored-sample.ts';

const block = 16 * 1024;
/** Nothing unlocks the index while a change waits for it, so that a short wait tests as much as a long one. */
const busyWaitMs = 50;

/** Opens a shared store with an entry, whose index another connection keeps locked for changes until `unlock`. */
async function lockedStore() {
  const directory = await createSharedDirectory();
  const opened = await directory.open({ busyWaitMs });
  const entry = await storeSample(opened.store, { key: 'k', sizeBytes: 700, seed: 1 });
  const other = new DatabaseSync(join(directory.dir, 'index.sqlite'));
  onTestFinished(() => other.close());
  other.exec('BEGIN IMMEDIATE');
  return { ...opened, directory, entry, other, unlock: () => other.exec('ROLLBACK') };
}

it('a locked index refuses new entries, is logged once, and storing works again once it is unlocked', async () => {
  const { store, events, unlock } = await lockedStore();
  const sample = { key: 'new', sizeBytes: 3 * block };
  await using writer = await openSampleWriter(store, sample).catch((error) => {
    expect(error).toMatchObject({ name: 'StoreFault', reason: 'io' });
    return undefined;
  });
  if (writer !== undefined) {
    await writeSample(writer, block, sample);
    const final = { metadata: sampleMetadata(), sizeBytes: sample.sizeBytes };
    await expect(writer.commit(final)).rejects.toMatchObject({ name: 'StoreFault', reason: 'io' });
  }
  expect(await readKey(store, 'k')).toHaveLength(700);
  for (let at = 0; at < 3; at += 1) {
    await expect(storeSample(store, { key: 'more', sizeBytes: 1 })).rejects.toMatchObject({ reason: 'io' });
  }
  unlock();
  await storeSample(store, { key: 'later', sizeBytes: 1 });
  await writer?.commit({ metadata: sampleMetadata(), sizeBytes: sample.sizeBytes });
  expect(await store.find('later')).toHaveLength(1);
  expect(events).toMatchObject([
    { level: 'warn', message: 'The index of the store was kept locked by another process.' },
  ]);
});

it('an entry removed while the index is locked is gone at once, and stays gone afterwards', async () => {
  const { store, entry, unlock } = await lockedStore();
  await store.removeEntry(entry);
  expect(await store.find('k')).toEqual([]);
  await expect(entry.open()).rejects.toMatchObject({ code: 'bytes_gone' });
  unlock();
  await storeSample(store, { key: 'k', sizeBytes: 1, seed: 2 });
  await store.removeKey('other');
  expect(await store.find('k')).toHaveLength(1);
  expect(await findFirst(store, 'k')).toMatchObject({ sizeBytes: 1 });
});

it.each([{ expiredAt: 3000 }, { isInvalid: true } as const])(
  'an entry that must not be used as it was (%o) is removed where a locked index cannot say so',
  async (restriction) => {
    const { store, entry, unlock } = await lockedStore();
    expect(await store.replaceMetadata(entry, sampleMetadata(2))).toBeDefined();
    expect(await store.find('k')).toHaveLength(1);
    expect(await store.replaceMetadata(entry, { ...entry.metadata, ...restriction })).toBeUndefined();
    expect(await store.find('k')).toEqual([]);
    unlock();
    await store.removeKey('other');
    expect(await store.find('k')).toEqual([]);
  },
);

it('an entry removed while the index is locked is not found by a process that opens the store afterwards', async () => {
  const { directory, store, entry, unlock } = await lockedStore();
  await store.removeEntry(entry);
  unlock();
  const { store: later } = await directory.open();
  expect(await later.find('k')).toEqual([]);
  expect(await store.find('k')).toEqual([]);
});

it('an entry removed before is not found by a process that opens the store while its row cannot be deleted', async () => {
  const { directory, store, entry, other, unlock } = await lockedStore();
  await store.removeEntry(entry);
  unlock();
  // Another process opens the store between two changes of one that keeps the index busy.
  const opening = directory.open({}, { onOpened: () => other.exec('BEGIN IMMEDIATE') });
  const { store: later } = await opening;
  expect(await later.find('k')).toEqual([]);
  other.exec('ROLLBACK');
  await store.removeKey('other');
  expect(await later.find('k')).toEqual([]);
});

it('a locked index is waited for once, not by each change', async () => {
  const { store, unlock } = await lockedStore();
  await expect(storeSample(store, { key: 'first', sizeBytes: 1 })).rejects.toMatchObject({ reason: 'io' });
  // The first change that has waited turns the wait off, until a change succeeds.
  const executed = vi.spyOn(DatabaseSync.prototype, 'exec');
  onTestFinished(() => executed.mockRestore());
  const waits = () => executed.mock.calls.flatMap(([sql]) => /busy_timeout = (\d+)/.exec(sql)?.[1] ?? []);
  for (let at = 0; at < 20; at += 1) await storeSample(store, { key: 'k', sizeBytes: 1 }).catch(() => {});
  expect(waits().filter((ms) => ms !== '0')).toEqual([]);
  unlock();
  await storeSample(store, { key: 'k', sizeBytes: 1 });
  expect(waits().filter((ms) => ms !== '0')).toEqual([String(busyWaitMs)]);
});
