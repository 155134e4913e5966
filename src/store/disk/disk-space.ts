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
  #evicting: Promise<'low water' | 'nothing left'> | undefined;

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
    const { maxSizeBytes } = this.#options;
    if (this.#limitBytes < maxSizeBytes && this.usedBytes + bytes > this.#limitBytes) await this.measure();
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

  /** Evicts entries down to the low water, if more than the bound is used. Does what it can; never rejects. */
  async shrink(): Promise<void> {
    while (this.usedBytes > this.#limitBytes) {
      this.#evicting ??= this.#evict().finally(() => {
        this.#evicting = undefined;
      });
      if ((await this.#evicting) === 'nothing left') return;
    }
  }

  /** Lowers the bound to what the disk has, where that is less than what was configured. Never rejects. */
  async measure(): Promise<void> {
    const { dir, maxSizeBytes, index, fileSystem } = this.#options;
    try {
      const { bavail, bsize } = await fileSystem.statfs(dir);
      this.#limitBytes = Math.min(maxSizeBytes, index.allocatedBytes + bavail * bsize);
    } catch {
      // Then the bound stays as it is, and writing will tell.
    }
  }

  async #evict(): Promise<'low water' | 'nothing left'> {
    for (;;) {
      const excess = this.usedBytes - Math.floor(this.#limitBytes * lowWater);
      if (excess <= 0) return 'low water';
      if (!this.#options.index.evict(excess, evictedAtOnce)) return 'nothing left';
      await setImmediate();
    }
  }
}

function noRoom(): StoreFault {
  return new StoreFault('no_room', 'The disk store has no room left.');
}
