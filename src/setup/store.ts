/** From the configuration to a store. */

import { readSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join, sep } from 'node:path';
import type { Config, StoreConfig } from '../config/schema.ts';
import { defaultStoreDirectory } from '../config/store-directory.ts';
import { openDiskStore } from '../store/disk/disk-store.ts';
import { createMemoryStore } from '../store/memory/memory-store.ts';
import { createMemoryTier } from '../store/memory/memory-tier.ts';
import type { Sharing } from '../store/sharing.ts';
import type { Store } from '../store/store.ts';
import type { TellChange } from '../store/store-change.ts';
import { createTieredStore, type TieredStore } from '../store/tiered-store.ts';
import type { Emit } from '../telemetry/events.ts';
import { describeSending, openMoveToSocket } from './move-to-socket.ts';
import { readFileInto } from './read-file-into.ts';
import { backgroundClock, monotonicClock, randomId, systemClock } from './system.ts';

/** Blocks that were read from the disk before they are asked for may take this share of what memory the store has. */
const READ_AHEAD_SHARE = 1 / 4;

type MemoryStoreConfig = Extract<StoreConfig, { type: 'memory' }>;

/** The configuration of a store that knows where it is. */
export type PlacedStoreConfig =
  | MemoryStoreConfig
  | (Exclude<StoreConfig, MemoryStoreConfig> & { readonly dir: string });

/** Gives a disk store its directory. One for this start alone is removed with the resources. */
export async function withDirectory(
  { store, listen }: Config,
  resources: AsyncDisposableStack,
): Promise<PlacedStoreConfig> {
  if (store.type === 'memory') return store;
  const stated = store.dir ?? defaultStoreDirectory(listen, process.env, homedir());
  if (stated !== undefined) return { ...store, dir: stated };
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-'));
  resources.defer(() => rm(dir, { recursive: true, force: true }));
  return { ...store, dir };
}

/**
 * Opens it; a directory may be shared with other processes, for which the one that started them has locked it (see
 * `lockDirectory`). Rejects with `StoreFault` when its directory cannot be used.
 */
export async function openStore(store: PlacedStoreConfig, emit: Emit, sharing?: Sharing): Promise<Store> {
  const { now } = systemClock;
  const maxEntryBytes = store.maxObjectSizeBytes;
  if (store.type === 'memory') return createMemoryStore({ ...store, maxEntryBytes, now, randomId, emit });
  let tiered: TieredStore | undefined;
  // Other processes remove by tag or prefix what the index has: this one's memory must not have anything that it has not.
  const tell: TellChange = (change) => {
    tiered?.forget(change);
    return sharing?.tell(change) ?? Promise.resolve();
  };
  const shared = sharing && { ...sharing, tell };
  const elapsed = monotonicClock.now;
  const diskReads = () => process.resourceUsage().fsRead;
  const move = openMoveToSocket(store.sendfile, emit);
  // Who switches it off wants all that is read to be checked.
  const trustsLateChecks = store.sendfile !== 'off';
  const quick = {
    quickReads: { elapsed, readSync, readFileInto, diskReads, after: backgroundClock.after, move, trustsLateChecks },
    quickWrites: { elapsed, writeFileSync },
  };
  const disk = await openDiskStore({ ...store, ...quick, maxEntryBytes, now, randomId, emit, sharing: shared });
  tiered = createTieredStore(createMemoryTier({ maxSizeBytes: store.memoryBytes }), disk, now);
  return tiered;
}

/** How many bytes may be read ahead; a store in memory has nothing to read ahead. */
export function readAheadBytes(store: StoreConfig): number {
  return store.type === 'memory' ? 0 : store.memoryBytes * READ_AHEAD_SHARE;
}

/** Where a store keeps things, as a shell writes it, and how it sends them. */
export function describePlace(store: PlacedStoreConfig): string {
  if (store.type === 'memory') return 'memory';
  const home = `${homedir()}${sep}`;
  const place = store.dir.startsWith(home) ? `~${sep}${store.dir.slice(home.length)}` : store.dir;
  return `${place}, ${describeSending(store.sendfile)}`;
}
