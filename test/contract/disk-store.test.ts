/** The disk store fulfils the contract of a store, with bodies in its index and in files, and with a memory tier in front. */

import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { openTestStore } from '../support/stores/disk-store.ts';
import { SteeredReads } from '../support/stores/quick-reads.ts';
import { storeContract } from './store-contract.ts';

const open: Parameters<typeof storeContract>[1] = async (limits) => (await openTestStore(limits)).store;

storeContract('disk store, bodies inline', open, { blockSizeBytes: 1024 });
storeContract('disk store, bodies in files', open, { blockSizeBytes: 40_000 });
storeContract(
  'disk store, pieces read in the same tick',
  async (limits) => (await openTestStore({ ...limits, quickReads: new SteeredReads().options })).store,
  { blockSizeBytes: 40_000 },
);
storeContract('tiered disk store', async (limits) =>
  createTieredStore(createMemoryTier({ maxSizeBytes: 1_000_000 }), await open(limits), limits.now),
);
