/** A memory tier in front of a store fulfils the contract of a store. */

import { createMemoryStore } from '../../src/store/memory/memory-store.ts';
import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { sequentialIds } from '../support/clocks/sequential-ids.ts';
import { storeContract } from './store-contract.ts';

for (const [size, maxSizeBytes] of [
  ['roomy', 10_000_000],
  ['tiny', 20_000],
] as const) {
  storeContract(`${size} tier before a memory store`, async (limits) =>
    createTieredStore(
      createMemoryTier({ maxSizeBytes }),
      createMemoryStore({ ...limits, randomId: sequentialIds() }),
      limits.now,
    ),
  );
}
