/** The store in a Cluster of three masters, with memory in front of it, fulfils the contract of a store. */

import { afterAll, beforeAll } from 'vitest';
import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { describeWithEngine, type RedisCluster, startRedisCluster } from '../support/engines/redis-server.ts';
import { openTestRedisStore } from '../support/engines/redis-store.ts';
import { storeContract } from './store-contract.ts';

describeWithEngine('on a Cluster', () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startRedisCluster();
  });
  afterAll(() => cluster[Symbol.asyncDispose]());

  storeContract(
    'a tiered store in a Cluster',
    async ({ maxSizeBytes, blockSizeBytes, maxEntryBytes = maxSizeBytes / 2, now }) => {
      const options = { blockSizeBytes, maxEntryBytes, now };
      const { store } = await openTestRedisStore({ kind: 'cluster', nodes: cluster.nodes }, options);
      // So small that most is read from the engine.
      return createTieredStore(createMemoryTier({ maxSizeBytes: 8000 }), store, now);
    },
    { boundsItself: false },
  );
});
