/** What those who run a server can do with what is stored; any one of the processes that share a store can do it. */

import type { SpanSet } from '../bytes/span-set.ts';
import type { Cache } from '../cache/cache.ts';
import { isAddress } from '../guard/peers.ts';
import type { ProxyRequest } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { Route } from '../routing/route.ts';
import type { Store, StoredEntry } from '../store/store.ts';
import { listEntries } from './entry-pages.ts';
import { resolveSearch } from './entry-search.ts';
import { describeEntry, detailEntry } from './entry-status.ts';
import { type ExplainOrder, type ExplainReply, OperationFault, type StoreOperations } from './operations.ts';
import { completeUrl, ownRequest, readFields } from './own-request.ts';
import { type WarmingParts, warm } from './warming.ts';

/** What the operations work with. What a reload puts in place of another is asked for each time. */
export interface StoreParts extends WarmingParts {
  readonly store: Store;
  readonly cache: Pick<Cache, 'purge'>;
  readonly routes: () => readonly Route[];
  /** Says what would become of a request by the rules that serve now. */
  readonly explain: (request: ProxyRequest) => Promise<ExplainReply>;
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
    explain: (order) => explain(order, parts),
  };
}

const method = /^[A-Za-z][!#$%&'*+.^_`|~\w-]{0,63}$/;

async function explain(order: ExplainOrder, parts: StoreParts): Promise<ExplainReply> {
  const { url, method: asked = 'GET', fields = [], client = '127.0.0.1' } = order;
  if (!method.test(asked)) throw new OperationFault('invalid', 'expected a method such as HEAD');
  if (!isAddress(client)) throw new OperationFault('invalid', 'expected the IP address of a client');
  const request = ownRequest(completeUrl(url, parts), {
    method: asked,
    fields: readFields(fields),
    peer: { address: client, port: 0 },
    receivedAt: parts.clock.now(),
  });
  if (request !== undefined) return await parts.explain(request);
  throw new OperationFault('invalid', `expected an http or https URL, got ${JSON.stringify(url)}`);
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
