/** The contract of every store, as a test suite. To test a store, call `storeContract` as memory-store.test.ts does. */

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

/** The options that the suite chooses for a store; the caller adds the others. */
export interface StoreLimits {
  readonly maxSizeBytes: number;
  readonly blockSizeBytes: number;
  /** Largest body, in bytes; without it the store's default share of its size. */
  readonly maxEntryBytes?: number;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/** Creates an empty store within the running test; cleans up by `onTestFinished`. The suite closes the store. */
export type CreateStore = (limits: StoreLimits) => Promise<Store>;

/** Opens a store with room for `maxBlocks` blocks within the running test. Its clock stands still unless one is given. */
export type OpenStore = (
  maxBlocks?: number,
  options?: Partial<Pick<StoreLimits, 'maxEntryBytes' | 'now'>>,
) => Promise<Store>;

/**
 * Defines the suite for a store. Bodies are a few blocks of `blockSizeBytes` long. `isOneProcess`: whether all calls go to one store.
 * `boundsItself`: whether the store itself bounds its size and counts what it has; an engine does that by its own policy.
 */
export function storeContract(
  name: string,
  create: CreateStore,
  { blockSizeBytes = 1024, isOneProcess = true, boundsItself = true } = {},
): void {
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
    describe('parts', () => parts(openStore, blockSizeBytes));
    describe('pins', () => pins(openStore, blockSizeBytes, boundsItself));
    describe('finding and changing', () => finding(openStore, blockSizeBytes));
    describe('removing by tag', () => tags(openStore, blockSizeBytes, boundsItself));
    describe('listing', () => listing(openStore, blockSizeBytes, { isOneProcess, boundsItself }));
    describe('room', () => room(openStore, blockSizeBytes, boundsItself));
    it('behaves as the simplest model does, in any order of steps', () =>
      storeModel(create, blockSizeBytes, boundsItself ? 60 : 10));
  });
}
