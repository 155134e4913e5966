/** The store in an engine fulfils the contract of a store: on one server and on a Cluster, by itself and with memory in front. */

import { afterAll, beforeAll } from 'vitest';
import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import {
  describeWithEngine,
  type RedisCluster,
  type RedisServer,
  startRedisCluster,
  startRedisServer,
} from '../support/engines/redis-server.ts';
import { openTestRedisStore } from '../support/engines/redis-store.ts';
import { type CreateStore, type StoreLimits, storeContract } from './store-contract.ts';

/** Options of a store that the suite asks for. The engine has no bound of its own here; the largest body is half of what was asked for. */
function optionsOf({ maxSizeBytes, blockSizeBytes, maxEntryBytes = maxSizeBytes / 2, now }: StoreLimits) {
  return { blockSizeBytes, maxEntryBytes, now };
}

describeWithEngine('on one server', () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedisServer();
  });
  afterAll(() => server[Symbol.asyncDispose]());
  const open: CreateStore = async (limits) =>
    (await openTestRedisStore({ kind: 'server', address: server }, optionsOf(limits))).store;

  storeContract('a store in an engine', open, { boundsItself: false });
  storeContract(
    'a tiered store in an engine',
    async (limits) => createTieredStore(createMemoryTier({ maxSizeBytes: 1_000_000 }), await open(limits), limits.now),
    { boundsItself: false, blockSizeBytes: 40_000 },
  );
});

describeWithEngine('on a Cluster', () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startRedisCluster();
  });
  afterAll(() => cluster[Symbol.asyncDispose]());

  storeContract(
    'a store in a Cluster',
    async (limits) => (await openTestRedisStore({ kind: 'cluster', nodes: cluster.nodes }, optionsOf(limits))).store,
    { boundsItself: false },
  );
});
