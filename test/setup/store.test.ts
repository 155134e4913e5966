/** The store as a server opens it: a memory tier in front of a disk that several workers share. */

import { expect, it, onTestFinished } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import { openStore, type PlacedStoreConfig } from '../../src/setup/store.ts';
import { lockDirectory } from '../../src/store/disk/index/directory-lock.ts';
import type { StoreChange } from '../../src/store/store.ts';
import { temporaryDirectory } from '../support/stores/disk-store.ts';
import { storeSample } from '../support/stores/stored-sample.ts';

const sizeBytes = 30_000;

it('drops evicted entries from the memory tier of the worker that evicts them, and announces them to the others', async () => {
  const dir = await temporaryDirectory();
  const checked = checkConfig({ routes: [{ origin: 'http://127.0.0.1:9' }], store: { dir, maxSizeBytes: '1MB' } }, dir);
  if (checked.kind !== 'ok') throw new Error(JSON.stringify(checked));
  const lock = await lockDirectory(dir);
  onTestFinished(() => lock.release());
  const announced: StoreChange[] = [];
  const announce = async (change: StoreChange) => void announced.push(change);
  const sharing = { instance: 'a', isFirst: true, fallen: [], announce };
  const store = await openStore({ ...checked.config.store, dir } as PlacedStoreConfig, () => {}, sharing);
  onTestFinished(() => store.close());
  const keys = Array.from({ length: 60 }, (_, at) => `k${at}`);
  for (const key of keys) {
    await storeSample(store, { key, sizeBytes });
    await store.find(key);
  }
  const inMemory = keys.filter((key) => (store.peek(key)?.length ?? 0) > 0);
  const onDisk: string[] = [];
  for (const key of keys) {
    const { entries } = await store.list({ kind: 'prefix', prefix: key }, 10, undefined);
    if (entries.some((entry) => entry.key === key)) onDisk.push(key);
  }
  expect(onDisk.length).toBeLessThan(keys.length);
  expect(inMemory.filter((key) => !onDisk.includes(key))).toEqual([]);
  expect(announced.length).toBeGreaterThan(0);
});
