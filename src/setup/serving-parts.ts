/** From a server to what operations are about: what it has stored, what runs, what serves. */

import { createStoreOperations } from '../admin/store-operations.ts';
import { splitKey } from '../routing/cache-key.ts';
import type { ServingParts } from './operations.ts';
import type { Server } from './server.ts';
import { systemClock } from './system.ts';

/** The parts of a server of one process, or of one worker. */
export function createServingParts(server: Server): ServingParts {
  return {
    get site() {
      return server.site;
    },
    store: createStoreOperations({
      store: server.store,
      cache: server.cache,
      routes: () => server.site.routes,
      addresses: () => server.addresses,
      explain: (request) => server.site.explain(request),
      handler: () => server.site.insideHandler,
      clock: systemClock,
    }),
    fills: {
      list: () => server.cache.listFills().map((fill) => ({ ...fill, uri: splitKey(fill.key).uri })),
      cancel: (id) => server.cache.stopFill(id),
    },
  };
}
