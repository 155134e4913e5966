/** The room of the disk store: what is taken, what writers have reserved, and who leaves when more is needed. */

import { setImmediate } from 'node:timers/promises';
import { StoreFault } from '../store.ts';
import type { DiskIndex } from './disk-index.ts';
import type { FileSystem } from './file-system.ts';

/** What the room is measured with. */
export interface DiskSpaceOptions {
  readonly dir: string;
  readonly maxSizeBytes: number;
  readonly index: DiskIndex;
  readonly fileSystem: FileSystem;
}

/** When room is needed, this share of the bound is left in use, so that not each writer has to evict. */
const lowWater = 0.95;
/** So many entries are evicted before other work gets its turn. */
const evictedAtOnce = 32;

/** Keeps the sum of entries and reservations within the bound. */
export class DiskSpace {
  readonly #options: DiskSpaceOptions;
  /** The bound in force: what was configured, or what the disk has, where that proved to be less. */
  #limitBytes: number;
  #reservedBytes = 0;
  #evicting: Promise<void> | undefined;

  constructor(options: DiskSpaceOptions) {
    this.#options = options;
    this.#limitBytes = options.maxSizeBytes;
  }

  /** What entries take and writers have reserved, in bytes. */
  get usedBytes(): number {
    return this.#options.index.allocatedBytes + this.#reservedBytes;
  }

  /** Reserves bytes, evicting the least used entries where it must. Throws `StoreFault` `no_room`. */
  async reserve(bytes: number): Promise<void> {
    if (this.#reservedBytes + bytes > this.#limitBytes) throw noRoom();
    this.#reservedBytes += bytes;
    await this.shrink();
    if (this.usedBytes <= this.#limitBytes) return;
    this.#reservedBytes -= bytes;
    throw noRoom();
  }

  /** Gives reserved bytes back. */
  release(bytes: number): void {
    this.#reservedBytes -= bytes;
  }

  /** Evicts entries until less than the bound is used, if it is more now. */
  async shrink(): Promise<void> {
    if (this.usedBytes <= this.#limitBytes) return;
    this.#evicting ??= this.#evict().finally(() => {
      this.#evicting = undefined;
    });
    await this.#evicting;
  }

  /** Takes the free room of the disk for the bound, where it is less than what was configured. */
  async measure(): Promise<void> {
    const { dir, maxSizeBytes, index, fileSystem } = this.#options;
    const { bavail, bsize } = await fileSystem.statfs(dir);
    this.#limitBytes = Math.min(maxSizeBytes, index.allocatedBytes + bavail * bsize);
  }

  async #evict(): Promise<void> {
    if (this.#limitBytes < this.#options.maxSizeBytes) await this.measure();
    for (;;) {
      const excess = this.usedBytes - Math.floor(this.#limitBytes * lowWater);
      if (excess <= 0 || !this.#options.index.evict(excess, evictedAtOnce)) return;
      await setImmediate();
    }
  }
}

function noRoom(): StoreFault {
  return new StoreFault('no_room', 'The disk store has no room left.');
}
