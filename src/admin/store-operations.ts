/** What those who run a server can do with what is stored; any one of the processes that share a store can do it. */

import type { SpanSet } from '../bytes/span-set.ts';
import type { Cache } from '../cache/cache.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { Route } from '../routing/route.ts';
import type { Store, StoredEntry } from '../store/store.ts';
import { listEntries } from './entry-pages.ts';
import { resolveSearch } from './entry-search.ts';
import { describeEntry, detailEntry } from './entry-status.ts';
import { OperationFault, type StoreOperations } from './operations.ts';
import { type WarmingParts, warm } from './warming.ts';

/** What the operations work with. What a reload puts in place of another is asked for each time. */
export interface StoreParts extends WarmingParts {
  readonly store: Store;
  readonly cache: Pick<Cache, 'purge'>;
  readonly routes: () => readonly Route[];
}

/** Creates the operations over a store, the cache over it, and the routes that serve now. */
export function createStoreOperations(parts: StoreParts): StoreOperations {
  const { store, cache, routes } = parts;
  return {
    async listEntries(search, limit, after) {
      const { entries, next } = await listEntries(store, resolveSearch(search, routes()), limit, after);
      return { entries: entries.map(describeEntry), next };
    },
    async inspectEntry(key, generation) {
      const entry = (await store.find(key)).find((candidate) => candidate.generation === generation);
      if (entry === undefined) throw gone();
      return detailEntry(entry, await readPresence(entry), store.blockSizeBytes);
    },
    async purge({ search, mode }) {
      return { entries: await cache.purge({ ...resolveSearch(search, routes()), mode }) };
    },
    warm: (order) => warm(order, parts),
  };
}

async function readPresence(entry: StoredEntry): Promise<SpanSet> {
  try {
    return await entry.readPresence();
  } catch (thrown) {
    if (thrown instanceof ProxyError && thrown.code === 'bytes_gone') throw gone();
    throw thrown;
  }
}

function gone(): OperationFault {
  return new OperationFault('not_found', 'Nothing is stored under this key with this generation.');
}
