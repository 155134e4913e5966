/** The disk store fulfils the contract of a store, with bodies in its index and in files. */

import { openTestStore } from '../support/stores/disk-store.ts';
import { storeContract } from './store-contract.ts';

const open: Parameters<typeof storeContract>[1] = async (limits) => (await openTestStore(limits)).store;

storeContract('disk store, bodies inline', open, { blockSizeBytes: 1024 });
storeContract('disk store, bodies in files', open, { blockSizeBytes: 40_000 });
