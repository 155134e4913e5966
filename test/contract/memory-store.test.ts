/** The memory store fulfils the contract of a store. */

import { createMemoryStore } from '../../src/store/memory/memory-store.ts';
import { sequentialIds } from '../support/clocks/sequential-ids.ts';
import { storeContract } from './store-contract.ts';

storeContract('memory store', async (limits) => createMemoryStore({ ...limits, randomId: sequentialIds() }));
