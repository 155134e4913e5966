/** What every store promises. A store passes by being created here; see memory-store.test.ts for how. */

import { describe, it, onTestFinished } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { finding } from './store-finding.ts';
import { storeModel } from './store-model.ts';
import { parts } from './store-parts.ts';
import { reading } from './store-reading.ts';
import { room } from './store-room.ts';
import { writing } from './store-writing.ts';

/** What a store is created with; everything else it brings along. */
export interface StoreLimits {
  readonly maxSizeBytes: number;
  readonly blockSizeBytes: number;
}

/** Creates an empty store within the running test; cleans up by `onTestFinished`. The suite closes the store. */
export type CreateStore = (limits: StoreLimits) => Promise<Store>;

/** Opens a store of so many blocks within the running test. */
export type OpenStore = (maxBlocks?: number) => Promise<Store>;

/** Runs the suite. `blockSizeBytes` decides how long the bodies are: a few blocks. */
export function storeContract(name: string, create: CreateStore, { blockSizeBytes = 1024 } = {}): void {
  const openStore = async (maxBlocks = 4096) => {
    const store = await create({ maxSizeBytes: maxBlocks * blockSizeBytes, blockSizeBytes });
    onTestFinished(() => store.close());
    return store;
  };
  describe(name, () => {
    describe('writing', () => writing(openStore, blockSizeBytes));
    describe('reading', () => reading(openStore, blockSizeBytes));
    describe('being there in part', () => parts(openStore, blockSizeBytes));
    describe('finding and changing', () => finding(openStore, blockSizeBytes));
    describe('room', () => room(openStore, blockSizeBytes));
    it('does what the simplest model does, in any order of steps', () => storeModel(create, blockSizeBytes));
  });
}
