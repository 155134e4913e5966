/** Memory before a local disk before an engine, as servers have it, fulfils the contract of a store. */

import { afterAll, beforeAll } from 'vitest';
import { createLocalTier } from '../../src/store/tiered/local-tier.ts';
import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { realClock } from '../support/clocks/real-clock.ts';
import { describeWithEngine, type RedisServer, startRedisServer } from '../support/engines/redis-server.ts';
import { openTestRedisStore } from '../support/engines/redis-store.ts';
import { openTestStore } from '../support/stores/disk-store.ts';
import { storeContract } from './store-contract.ts';

describeWithEngine('a local disk before an engine', () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedisServer();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  storeContract(
    'memory before a local disk before an engine',
    async ({ maxSizeBytes, blockSizeBytes, maxEntryBytes = maxSizeBytes / 2, now }) => {
      const { store: disk } = await openTestStore({ blockSizeBytes });
      const place = { kind: 'server', address: server } as const;
      const { store: engine } = await openTestRedisStore(place, { blockSizeBytes, maxEntryBytes, now });
      const local = createLocalTier({ disk, engine, clock: realClock, isFirst: true });
      // So small that most is read from below.
      return createTieredStore(createMemoryTier({ maxSizeBytes: 8000 }), local, now);
    },
    { boundsItself: false },
  );
});
