/** The room of the disk store: what is taken, what writers have reserved, and who leaves when more is needed. */

import { setImmediate } from 'node:timers/promises';
import { StoreFault } from '../store.ts';
import type { DiskIndex } from './disk-index.ts';
import type { Eviction } from './eviction.ts';
import type { FileSystem } from './file-system.ts';

/** What the room is measured with. */
export interface DiskSpaceOptions {
  readonly dir: string;
  readonly maxSizeBytes: number;
  readonly index: DiskIndex;
  readonly eviction: Eviction;
  readonly fileSystem: FileSystem;
}

/** The room of one generation while it is written: what its row in the index does not count. */
export interface Reservation {
  /** Sees that so many bytes in all are counted or reserved, evicting entries where it must. Throws `StoreFault` `no_room`. */
  growTo(bytes: number): Promise<void>;
  /** Notes that so many of the reserved bytes are on the disk by now. */
  wrote(bytes: number): void;
  /** How many bytes were written since the row was last counted. */
  readonly uncountedBytes: number;
  /** Gives all of it back, for a row counts so many bytes from now on; 0 when there is no row any more. */
  count(bytes: number): void;
}

/** When room is needed, this share of the bound is left in use, so that not each writer has to evict. */
const lowWater = 0.95;
/** So much of the disk, but not more than this share of it, is left free: the index needs room to evict. */
const keptFreeBytes = 32 * 1024 * 1024;
const keptFreeShare = 1 / 4;
/** The free room of the disk is looked at again after so many reserved bytes. */
const measuredEveryBytes = 16 * 1024 * 1024;

/** Keeps the sum of entries and reservations within the bound: what was configured, or what the disk has. */
export class DiskSpace {
  readonly #options: DiskSpaceOptions;
  #limitBytes: number;
  #reservedBytes = 0;
  /** The part of the reserved bytes that is on the disk already. */
  #writtenBytes = 0;
  #unmeasuredBytes = Number.POSITIVE_INFINITY;
  #evicting: Promise<'low water' | 'nothing left'> | undefined;

  constructor(options: DiskSpaceOptions) {
    this.#options = options;
    this.#limitBytes = options.maxSizeBytes;
  }

  /** Begins to reserve room. */
  reservation(): Reservation {
    let counted = 0;
    let reserved = 0;
    let written = 0;
    return {
      growTo: async (bytes) => {
        const missing = bytes - counted - reserved;
        if (missing <= 0) return;
        await this.#reserve(missing);
        reserved += missing;
      },
      wrote: (bytes) => {
        written += bytes;
        this.#writtenBytes += bytes;
      },
      get uncountedBytes() {
        return written;
      },
      count: (bytes) => {
        this.#reservedBytes -= reserved;
        this.#writtenBytes -= written;
        counted = bytes;
        reserved = 0;
        written = 0;
      },
    };
  }

  /** Evicts entries down to the low water, if more than the bound is used. Does what it can; never rejects. */
  async shrink(): Promise<void> {
    while (this.#usedBytes > this.#limitBytes) {
      this.#evicting ??= this.#evict().finally(() => {
        this.#evicting = undefined;
      });
      if ((await this.#evicting) === 'nothing left') return;
    }
  }

  /** Looks how much of the disk is free, and adapts the bound to it. Never rejects. */
  async measure(): Promise<void> {
    const { dir, maxSizeBytes, index, fileSystem } = this.#options;
    this.#unmeasuredBytes = 0;
    try {
      const { blocks, bavail, bsize } = await fileSystem.statfs(dir);
      const kept = Math.min(keptFreeBytes, blocks * bsize * keptFreeShare);
      const room = Math.max(0, bavail * bsize - kept);
      this.#limitBytes = Math.min(maxSizeBytes, index.allocatedBytes + this.#writtenBytes + room);
    } catch {
      // Then the bound stays as it is, and writing will tell.
    }
  }

  get #usedBytes(): number {
    return this.#options.index.allocatedBytes + this.#reservedBytes;
  }

  async #reserve(bytes: number): Promise<void> {
    this.#unmeasuredBytes += bytes;
    const isShort = this.#usedBytes + bytes > this.#limitBytes && this.#limitBytes < this.#options.maxSizeBytes;
    if (isShort || this.#unmeasuredBytes >= measuredEveryBytes) await this.measure();
    if (this.#reservedBytes + bytes > this.#limitBytes) throw noRoom();
    this.#reservedBytes += bytes;
    await this.shrink();
    if (this.#usedBytes <= this.#limitBytes) return;
    this.#reservedBytes -= bytes;
    throw noRoom();
  }

  async #evict(): Promise<'low water' | 'nothing left'> {
    for (;;) {
      const excess = this.#usedBytes - Math.floor(this.#limitBytes * lowWater);
      if (excess <= 0) return 'low water';
      if (!this.#options.eviction.step(excess)) return 'nothing left';
      await setImmediate();
    }
  }
}

function noRoom(): StoreFault {
  return new StoreFault('no_room', 'The disk store has no room left.');
}
