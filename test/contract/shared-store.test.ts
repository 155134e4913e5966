/**
 * Two disk stores on one directory fulfil the contract of a store together. The calls of the suite alternate between them: each
 * change by one store is known to both when its promise resolves.
 */

import type { EntryWriter, Store, StoredEntry } from '../../src/store/store.ts';
import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { createSharedDirectory } from '../support/stores/shared-directory.ts';
import { type CreateStore, storeContract } from './store-contract.ts';

/** Returns a store that passes each call to the other one of `stores` than the call before. */
function alternating(stores: readonly [Store, Store]): Store {
  let calls = 0;
  const next = (): Store => stores[(calls++ % 2) as 0 | 1];
  return {
    blockSizeBytes: stores[0].blockSizeBytes,
    maxEntryBytes: stores[0].maxEntryBytes,
    peek: (key) => next().peek(key),
    find: (key) => next().find(key),
    openWriter: (entry): Promise<EntryWriter> => next().openWriter(entry),
    resume: (entry: StoredEntry) => next().resume(entry),
    replaceMetadata: (entry, metadata) => next().replaceMetadata(entry, metadata),
    removeEntry: (entry) => next().removeEntry(entry),
    removeKey: (key) => next().removeKey(key),
    removeTagged: (tag) => next().removeTagged(tag),
    removePrefixed: (prefix) => next().removePrefixed(prefix),
    list: (choice, limit, after) => next().list(choice, limit, after),
    listRanked: (...given) => next().listRanked(...given),
    usedAt: (generation) => next().usedAt(generation),
    blocksInMemory: (...given) => next().blocksInMemory(...given),
    readUsage: () => next().readUsage(),
    applyChange: () => {},
    close: async () => {
      await Promise.all(stores.map((store) => store.close()));
    },
  };
}

const openTwo =
  (wrap?: (store: Store, now: () => number) => Store): CreateStore =>
  async (limits) => {
    const directory = await createSharedDirectory();
    const joining = wrap === undefined ? {} : { wrap: (store: Store) => wrap(store, limits.now) };
    const first = await directory.open(limits, joining);
    const second = await directory.open(limits, joining);
    return alternating([first.front, second.front]);
  };

storeContract('two disk stores on one directory, bodies in files', openTwo(), {
  blockSizeBytes: 40_000,
  isOneProcess: false,
});
storeContract(
  'two tiered disk stores on one directory',
  openTwo((store, now) => createTieredStore(createMemoryTier({ maxSizeBytes: 1_000_000 }), store, now)),
  { isOneProcess: false },
);
