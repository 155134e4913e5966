/** Opens the store from the configuration. */

import { closeSync, openSync, readSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join, sep } from 'node:path';
import { defaultStoreDirectory } from '../config/default-places.ts';
import type { Config, LocalTierConfig, RedisStoreConfig, StoreConfig } from '../config/schema.ts';
import { readFlags } from '../store/disk/bodies/file-system.ts';
import { type DiskStoreOptions, openDiskStore } from '../store/disk/disk-store.ts';
import { createMemoryStore } from '../store/memory/memory-store.ts';
import type { EngineSharing } from '../store/redis/redis-store.ts';
import type { AnnounceChange, Sharing, Store } from '../store/store.ts';
import { createLocalTier } from '../store/tiered/local-tier.ts';
import { createMemoryTier } from '../store/tiered/memory-tier.ts';
import { createTieredStore, type MemoryLease, type TieredStore } from '../store/tiered/tiered-store.ts';
import type { Emit } from '../telemetry/events.ts';
import { describeSending, openMoveToSocket } from './move-to-socket.ts';
import { describeEngine, openRedisEngine } from './redis-engine.ts';
import { backgroundClock, monotonicClock, randomId, secondsToMs, systemClock } from './system.ts';

/** Share of the memory tier's size that blocks may take in addition when they are read ahead. */
const READ_AHEAD_SHARE = 1 / 4;

type DiskStoreConfig = Extract<StoreConfig, { type: 'disk' }>;

/** The configuration of a store whose directory is known, where it has one. */
export type PlacedStoreConfig = Exclude<StoreConfig, DiskStoreConfig> | (DiskStoreConfig & { readonly dir: string });

/** Gives a disk store its directory. A temporary one is removed when `resources` are disposed. */
export async function withDirectory(
  { store, listen }: Config,
  resources: AsyncDisposableStack,
): Promise<PlacedStoreConfig> {
  if (store.type !== 'disk') return store;
  const stated = store.dir ?? defaultStoreDirectory(listen, process.env, homedir());
  if (stated !== undefined) return { ...store, dir: stated };
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-'));
  resources.defer(() => rm(dir, { recursive: true, force: true }));
  return { ...store, dir };
}

/** Returns the directory that a store uses alone: that of a disk store, or of the local disk before an engine. */
export function ownDirectory(store: StoreConfig): string | undefined {
  switch (store.type) {
    case 'memory':
      return undefined;
    case 'redis':
      return store.local?.dir;
    case 'disk':
      return store.dir;
  }
}

/**
 * Opens a store. Several processes may share its directory; the process that started them has locked it (`lockDirectory`). Rejects
 * with `StoreFault` when the directory cannot be used, and for an engine where a secret or a file cannot be read. An engine that is away
 * is used as soon as it is there.
 */
export async function openStore(
  store: PlacedStoreConfig,
  emit: Emit,
  sharing?: Sharing,
  machines?: EngineSharing & MemoryLease,
): Promise<Store> {
  const { now } = systemClock;
  const maxEntryBytes = store.maxObjectSizeBytes;
  if (store.type === 'memory') return createMemoryStore({ ...store, maxEntryBytes, now, randomId, emit });
  if (store.type === 'redis') return openTieredRedisStore(store, emit, sharing, machines);
  let tiered: TieredStore | undefined;
  // Other processes remove by tag or prefix what is in the index, so the memory tier must not keep an entry that is not in it.
  const announce: AnnounceChange = (change) => {
    tiered?.forget(change);
    return sharing?.announce(change) ?? Promise.resolve();
  };
  const shared = sharing && { ...sharing, announce };
  const quick = quickCallsOf(store.sendfile, emit);
  const disk = await openDiskStore({ ...store, ...quick, maxEntryBytes, now, randomId, emit, sharing: shared });
  tiered = createTieredStore(createMemoryTier({ maxSizeBytes: store.memoryBytes }), disk, now);
  return tiered;
}

/** The calls by which a disk store reads and writes in the same tick. */
function quickCallsOf(
  sendfile: DiskStoreConfig['sendfile'],
  emit: Emit,
): Pick<DiskStoreOptions, 'quickReads' | 'quickWrites'> {
  const elapsed = monotonicClock.now;
  const diskReads = () => process.resourceUsage().fsRead;
  const move = openMoveToSocket(sendfile, emit);
  // With "off", everything that is read is to be checked.
  const trustsLateChecks = sendfile !== 'off';
  return {
    quickReads: { elapsed, readSync, readFileInto, diskReads, after: backgroundClock.after, move, trustsLateChecks },
    quickWrites: { elapsed, writeFileSync },
  };
}

async function openTieredRedisStore(
  store: RedisStoreConfig,
  emit: Emit,
  sharing?: Sharing,
  machines?: EngineSharing & MemoryLease,
): Promise<Store> {
  await using opened = new AsyncDisposableStack();
  // Opened first: it fails where another process has the directory.
  const disk =
    store.local && opened.adopt(await openLocalDisk(store, store.local, emit, sharing), (each) => each.close());
  const { openRedisStore } = await import('../store/redis/redis-store.ts');
  const engine = await openRedisEngine(store, emit);
  const { now } = systemClock;
  let tiered: TieredStore | undefined;
  // The store also changes by itself: it removes what it could not remove while the engine was away.
  const announce: AnnounceChange = (change) => {
    tiered?.forget(change);
    return machines?.announce(change) ?? Promise.resolve();
  };
  const below = openRedisStore({
    ...engine,
    blockSizeBytes: store.blockSizeBytes,
    maxEntryBytes: store.maxObjectSizeBytes,
    keepMs: secondsToMs(store.keepSeconds),
    now,
    clock: backgroundClock,
    randomId,
    emit,
    sharing: machines && { ...machines, announce },
  });
  opened.move();
  const isFirst = sharing?.isFirst ?? true;
  const local = disk && createLocalTier({ disk, engine: below, clock: backgroundClock, isFirst });
  tiered = createTieredStore(createMemoryTier({ maxSizeBytes: store.memoryBytes }), local ?? below, now, machines);
  return tiered;
}

/** Opens the local disk between memory and the engine, which the workers of this machine share. Rejects with `StoreFault`. */
function openLocalDisk(
  { blockSizeBytes, maxObjectSizeBytes }: RedisStoreConfig,
  { dir, maxSizeBytes }: LocalTierConfig,
  emit: Emit,
  sharing?: Sharing,
): Promise<Store> {
  const { now } = systemClock;
  const maxEntryBytes = Math.min(maxObjectSizeBytes, Math.floor(maxSizeBytes / 2));
  // What leaves the disk does not leave the store.
  const report: Emit = (event) => {
    if (event.kind !== 'store') return;
    const { damagedBlocks } = event.count ?? {};
    const count = damagedBlocks === undefined ? undefined : { damagedBlocks };
    emit({ ...event, message: `local disk before the engine: ${event.message}`, count });
  };
  const announce: AnnounceChange = (change) => sharing?.announce({ kind: 'local', change }) ?? Promise.resolve();
  const shared = sharing && { ...sharing, announce };
  const place = { dir, maxSizeBytes, blockSizeBytes, maxEntryBytes };
  return openDiskStore({ ...place, ...quickCallsOf('auto', emit), now, randomId, emit: report, sharing: shared });
}

/** Returns how many bytes may be read ahead; 0 for a store in memory. */
export function readAheadBytes(store: StoreConfig): number {
  return store.type === 'memory' ? 0 : store.memoryBytes * READ_AHEAD_SHARE;
}

/** Describes where a store keeps entries, as a shell writes it, and how it sends them. */
export function describePlace(store: PlacedStoreConfig): string {
  if (store.type === 'memory') return 'memory';
  if (store.type === 'redis') {
    const local = store.local === undefined ? '' : `, with ${shortPath(store.local.dir)} before it`;
    return `Redis or Valkey: ${describeEngine(store)}${local}`;
  }
  return `${shortPath(store.dir)}, ${describeSending(store.sendfile)}`;
}

function shortPath(dir: string): string {
  const home = `${homedir()}${sep}`;
  return dir.startsWith(home) ? `~${sep}${dir.slice(home.length)}` : dir;
}

/** Opens a file, fills `bytes` from its beginning, and closes it. Returns how many were filled. Throws the system's error. */
export function readFileInto(path: string, bytes: Uint8Array): number {
  // These flags do not wait for a pipe or a device, which gives other bytes or none.
  const fd = openSync(path, readFlags);
  try {
    return readSync(fd, bytes, 0, bytes.length, 0);
  } finally {
    closeSync(fd);
  }
}
