/** The disk store fulfils the contract of a store with pieces read in the same tick, and with a memory tier in front. */

import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { openTestStore } from '../support/stores/disk-store.ts';
import { SteeredReads } from '../support/stores/quick-reads.ts';
import { storeContract } from './store-contract.ts';

storeContract(
  'disk store, pieces read in the same tick',
  async (limits) => (await openTestStore({ ...limits, quickReads: new SteeredReads().options })).store,
  { blockSizeBytes: 40_000 },
);
storeContract('tiered disk store', async (limits) => {
  const { store } = await openTestStore(limits);
  return createTieredStore(createMemoryTier({ maxSizeBytes: 1_000_000 }), store, limits.now);
});
