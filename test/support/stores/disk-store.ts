/** Disk stores in temporary directories, for tests. */

import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { type DiskStoreOptions, openDiskStore } from '../../../src/store/disk/disk-store.ts';
import type { Store } from '../../../src/store/store.ts';
import type { StoreEvent } from '../../../src/telemetry/events.ts';
import { sequentialIds } from '../clocks/sequential-ids.ts';

/** Creates a directory that is removed when the running test ends. */
export async function temporaryDirectory(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-store-'));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

/** A clock that advances by a millisecond with every reading. */
export class TickingClock {
  #now = 1_700_000_000_000;

  now(): number {
    this.#now += 1;
    return this.#now;
  }

  advance(ms: number): void {
    this.#now += ms;
  }
}

/** A disk store, its directory, events and clock. */
export interface DiskStoreInTest {
  readonly store: Store;
  readonly dir: string;
  /** The store's events, evictions excepted. */
  readonly events: readonly StoreEvent[];
  /** Sums of the counts in the store's events. */
  readonly counts: { evictedEntries: number; damagedBlocks: number };
  readonly clock: TickingClock;
}

let storeCount = 0;

/** Opens a disk store in a new directory, or in `options.dir`. The end of the test closes it. */
export async function openTestStore(options: Partial<DiskStoreOptions> = {}): Promise<DiskStoreInTest> {
  const dir = options.dir ?? (await temporaryDirectory());
  const events: StoreEvent[] = [];
  const counts = { evictedEntries: 0, damagedBlocks: 0 };
  const clock = new TickingClock();
  const nextId = sequentialIds();
  storeCount += 1;
  const prefix = storeCount.toString(16).padStart(6, '0');
  const store = await openDiskStore({
    dir,
    maxSizeBytes: 64 * 1024 * 1024,
    blockSizeBytes: 16 * 1024,
    now: () => clock.now(),
    // Ids are unique, even when a directory is opened again.
    randomId: () => `${prefix}-${nextId()}`,
    emit: (event) => {
      if (event.kind !== 'store') return;
      const { evictedEntries, damagedBlocks = 0 } = event.count ?? {};
      counts.evictedEntries += evictedEntries ?? 0;
      counts.damagedBlocks += damagedBlocks;
      if (evictedEntries === undefined) events.push(event);
    },
    ...options,
  });
  onTestFinished(() => store.close());
  return { store, dir, events, counts, clock };
}

/** Returns the paths of the body and sidecar files in a store's directory, sorted. */
export async function bodyFiles(dir: string): Promise<string[]> {
  const entries = await readdir(join(dir, 'blocks'), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}
