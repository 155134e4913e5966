/** The store in an engine fulfils the contract of a store. */

import { afterAll, beforeAll } from 'vitest';
import { describeWithEachEngine, type RedisServer, startRedisServer } from '../support/engines/redis-server.ts';
import { openTestRedisStore } from '../support/engines/redis-store.ts';
import { storeContract } from './store-contract.ts';

describeWithEachEngine('one server', (program) => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedisServer([], program);
  });
  afterAll(() => server[Symbol.asyncDispose]());

  storeContract(
    'a store in an engine',
    // The engine has no bound here.
    async ({ maxSizeBytes, blockSizeBytes, maxEntryBytes = maxSizeBytes / 2, now }) => {
      const options = { blockSizeBytes, maxEntryBytes, now };
      return (await openTestRedisStore({ kind: 'server', address: server }, options)).store;
    },
    { boundsItself: false },
  );
});
