/** What every store promises. A store passes by being created here; see memory-store.test.ts for how. */

import { describe, it, onTestFinished } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { finding } from './store-finding.ts';
import { listing } from './store-listing.ts';
import { storeModel } from './store-model.ts';
import { parts } from './store-parts.ts';
import { pins } from './store-pins.ts';
import { reading } from './store-reading.ts';
import { room } from './store-room.ts';
import { tags } from './store-tags.ts';
import { whole } from './store-whole.ts';
import { writing } from './store-writing.ts';

/** What a store is created with; everything else it brings along. */
export interface StoreLimits {
  readonly maxSizeBytes: number;
  readonly blockSizeBytes: number;
  /** The largest body, where it is not the share of the size that the store takes by itself. */
  readonly maxEntryBytes?: number;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/** Creates an empty store within the running test; cleans up by `onTestFinished`. The suite closes the store. */
export type CreateStore = (limits: StoreLimits) => Promise<Store>;

/** Opens a store of so many blocks within the running test; its clock stands still unless it is given one. */
export type OpenStore = (
  maxBlocks?: number,
  options?: Partial<Pick<StoreLimits, 'maxEntryBytes' | 'now'>>,
) => Promise<Store>;

/** Runs the suite. `blockSizeBytes` decides how long the bodies are: a few blocks. */
export function storeContract(name: string, create: CreateStore, { blockSizeBytes = 1024 } = {}): void {
  const openStore: OpenStore = async (maxBlocks = 4096, options = {}) => {
    const now = () => 1_700_000_000_000;
    const store = await create({ maxSizeBytes: maxBlocks * blockSizeBytes, blockSizeBytes, now, ...options });
    onTestFinished(() => store.close());
    return store;
  };
  describe(name, () => {
    describe('writing', () => writing(openStore, blockSizeBytes));
    describe('writing in one step', () => whole(openStore, blockSizeBytes));
    describe('reading', () => reading(openStore, blockSizeBytes));
    describe('being there in part', () => parts(openStore, blockSizeBytes));
    describe('being pinned', () => pins(openStore, blockSizeBytes));
    describe('finding and changing', () => finding(openStore, blockSizeBytes));
    describe('removing by tag', () => tags(openStore, blockSizeBytes));
    describe('listing', () => listing(openStore, blockSizeBytes));
    describe('room', () => room(openStore, blockSizeBytes));
    it('does what the simplest model does, in any order of steps', () => storeModel(create, blockSizeBytes));
  });
}
