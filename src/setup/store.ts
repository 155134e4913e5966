/** From the configuration to a store. */

import { closeSync, openSync, readSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join, sep } from 'node:path';
import { defaultStoreDirectory } from '../config/default-places.ts';
import type { Config, StoreConfig } from '../config/schema.ts';
import { readFlags } from '../store/disk/bodies/file-system.ts';
import { openDiskStore } from '../store/disk/disk-store.ts';
import { createMemoryStore } from '../store/memory/memory-store.ts';
import type { Sharing, Store, TellChange } from '../store/store.ts';
import { createMemoryTier } from '../store/tiered/memory-tier.ts';
import { createTieredStore, type TieredStore } from '../store/tiered/tiered-store.ts';
import type { Emit } from '../telemetry/events.ts';
import { describeSending, openMoveToSocket } from './move-to-socket.ts';
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

/** Opens a file, fills bytes from its beginning, and closes it. Gives how many were filled. Throws the system's error. */
export function readFileInto(path: string, bytes: Uint8Array): number {
  // A pipe or device is not waited for: it gives other bytes, or none.
  const fd = openSync(path, readFlags);
  try {
    return readSync(fd, bytes, 0, bytes.length, 0);
  } finally {
    closeSync(fd);
  }
}
