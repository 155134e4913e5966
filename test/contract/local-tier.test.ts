/** A local disk before another store fulfils the contract of a store. The other one is in memory: an engine has a file of its own. */

import { createMemoryStore } from '../../src/store/memory/memory-store.ts';
import { createLocalTier } from '../../src/store/tiered/local-tier.ts';
import { realClock } from '../support/clocks/real-clock.ts';
import { sequentialIds } from '../support/clocks/sequential-ids.ts';
import { openTestStore } from '../support/stores/disk-store.ts';
import { storeContract } from './store-contract.ts';

storeContract('a local disk before a memory store', async (limits) => {
  const { store: disk } = await openTestStore({ blockSizeBytes: limits.blockSizeBytes });
  const engine = createMemoryStore({ ...limits, randomId: sequentialIds() });
  return createLocalTier({ disk, engine, clock: realClock, isFirst: true });
});
