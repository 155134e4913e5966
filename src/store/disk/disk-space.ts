/** The room of the disk store: what is taken, what writers have reserved, and who leaves when more is needed. */

import { setImmediate } from 'node:timers/promises';
import { StoreFault } from '../store.ts';
import type { BackgroundTasks } from './background-tasks.ts';
import type { DiskIndex } from './disk-index.ts';
import type { Eviction } from './eviction.ts';
import type { FileSystem } from './file-system.ts';
import type { RoomClaims } from './room-claims.ts';

/** What the room is measured with. */
export interface DiskSpaceOptions {
  readonly dir: string;
  /** The high water: when more is used, entries leave. */
  readonly maxSizeBytes: number;
  /** The low water, in percent of the high one: entries leave until no more than this is used. */
  readonly lowWaterPercent?: number | undefined;
  /** While less of the disk is free, in bytes, the high water is what is used. */
  readonly minFreeBytes?: number | undefined;
  readonly index: DiskIndex;
  readonly eviction: Eviction;
  readonly fileSystem: FileSystem;
  readonly background: BackgroundTasks;
  /** Ends what goes on in the background. */
  readonly signal: AbortSignal;
  /** What other processes know of this one's reservations, where there are others. */
  readonly claims?: RoomClaims | undefined;
  /** Tells other processes that entries are about to leave, so that they can tell which of them they use. */
  readonly onEvicting?: (() => Promise<void>) | undefined;
}

/** What a slice of eviction comes to: it goes on, the low water is reached, or nothing may leave. */
type Slice = 'more' | 'enough' | 'nothing left';

/** The room of one generation while it is written: what its row in the index does not count. */
export interface Reservation {
  /**
   * Sees that so many bytes in all are counted or reserved, evicting entries where it must. Gives a promise where that takes
   * its time. Throws `StoreFault` `no_room`, or rejects with it.
   */
  growTo(bytes: number): Promise<void> | undefined;
  /** Notes that so many of the reserved bytes are on the disk by now. */
  wrote(bytes: number): void;
  /** How many bytes were written since the row was last counted. */
  uncountedBytes(): number;
  /** Gives all of it back, for a row counts so many bytes from now on; 0 when there is no row any more. */
  count(bytes: number): void;
}

/** So far below the high water is the low one unless something else is said, so that not each writer has to evict. */
const lowWaterPercentByDefault = 95;
/** So much of the disk, but not more than this share of it, is left free by default: the index needs room to evict. */
const minFreeBytesByDefault = 32 * 1024 * 1024;
const minFreeShareByDefault = 1 / 4;
/** The free room of the disk is looked at again after so many reserved bytes. */
const measuredEveryBytes = 16 * 1024 * 1024;

/** After so many slices of one eviction other processes are told of it again. */
const slicesBetweenNews = 8;

/** Keeps the sum of entries and reservations within the bound: what was configured, or what the disk has. */
export class DiskSpace {
  readonly #options: DiskSpaceOptions;
  #limitBytes: number;
  #reservedBytes = 0;
  /** The part of the reserved bytes that is on the disk already. */
  #writtenBytes = 0;
  #unmeasuredBytes = Number.POSITIVE_INFINITY;
  /** The slice of eviction that is under way; undefined when none is. */
  #slice: Promise<Slice> | undefined;

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
      growTo: (bytes) => {
        const missing = bytes - counted - reserved;
        if (missing <= 0) return undefined;
        const grow = () => {
          reserved += missing;
        };
        if (!this.#reserveAtOnce(missing)) return this.#reserve(missing).then(grow);
        grow();
        return undefined;
      },
      wrote: (bytes) => {
        written += bytes;
        this.#writtenBytes += bytes;
      },
      uncountedBytes: () => written,
      count: (bytes) => {
        this.#reservedBytes -= reserved;
        this.#writtenBytes -= written;
        if (bytes > 0) this.#options.claims?.count(reserved);
        this.#options.claims?.settle(this.#reservedBytes);
        counted = bytes;
        reserved = 0;
        written = 0;
      },
    };
  }

  /** Evicts entries if more than the high water is used. Does what it can; never rejects. */
  async makeRoom(): Promise<void> {
    await this.#takeRoom(0, () => this.#usedBytes <= this.#limitBytes);
  }

  /** Looks how much of the disk is free, and adapts the bound to it. Never rejects. */
  async measure(): Promise<void> {
    const { dir, maxSizeBytes, minFreeBytes, index, fileSystem } = this.#options;
    this.#unmeasuredBytes = 0;
    try {
      const { blocks, bavail, bsize } = await fileSystem.statfs(dir);
      const kept = minFreeBytes ?? Math.min(minFreeBytesByDefault, blocks * bsize * minFreeShareByDefault);
      const room = Math.max(0, bavail * bsize - kept);
      this.#limitBytes = Math.min(maxSizeBytes, index.allocatedBytes + this.#writtenBytes + room);
    } catch {
      // Then the bound stays as it is, and writing will tell.
    }
  }

  get #usedBytes(): number {
    return this.#options.index.allocatedBytes + this.#reservedBytes + this.#othersBytes;
  }

  get #othersBytes(): number {
    return this.#options.claims?.othersBytes ?? 0;
  }

  /** Whether there is room for all that is reserved; then other processes know of it too. Throws `StoreFault`. */
  #hasRoom(): boolean {
    const { claims } = this.#options;
    return claims?.cover(this.#reservedBytes, this.#limitBytes) ?? this.#usedBytes <= this.#limitBytes;
  }

  /** Reserves bytes where the disk need not be looked at for them and no entry has to leave. Throws what `#hasRoom` throws. */
  #reserveAtOnce(bytes: number): boolean {
    if (this.#mustMeasure(bytes) || this.#reservedBytes + bytes > this.#limitBytes) return false;
    this.#reservedBytes += bytes;
    let isRoom = false;
    try {
      isRoom = this.#hasRoom();
    } finally {
      if (isRoom) this.#unmeasuredBytes += bytes;
      else this.#reservedBytes -= bytes;
    }
    return isRoom;
  }

  #mustMeasure(bytes: number): boolean {
    const isShort = this.#limitBytes < this.#options.maxSizeBytes && this.#usedBytes + bytes > this.#limitBytes;
    return isShort || this.#unmeasuredBytes + bytes >= measuredEveryBytes;
  }

  async #reserve(bytes: number): Promise<void> {
    const mustMeasure = this.#mustMeasure(bytes);
    this.#unmeasuredBytes += bytes;
    if (mustMeasure) await this.measure();
    if (this.#reservedBytes + bytes > this.#limitBytes) throw noRoom();
    if (!(await this.#takeRoom(bytes, () => this.#hasRoom()))) throw noRoom();
  }

  /**
   * Reserves bytes and sees that there is room for them; where that cannot be, gives them back and says so. Waits only so
   * long; the eviction goes on to the low water in the background. Throws what `hasRoom` throws.
   */
  async #takeRoom(bytes: number, hasRoom: () => boolean): Promise<boolean> {
    this.#reservedBytes += bytes;
    try {
      while (!hasRoom()) {
        if (this.#slice === undefined) this.#options.background.add(this.#evict());
        if (hasRoom() || (await this.#slice) !== 'nothing left') continue;
        // Others may have given up just now, and made room thereby.
        if (hasRoom()) break;
        this.#reservedBytes -= bytes;
        return false;
      }
      return true;
    } catch (error) {
      this.#reservedBytes -= bytes;
      throw error;
    }
  }

  /** Evicts, one slice after the other. */
  async #evict(): Promise<void> {
    const { onEvicting, background } = this.#options;
    this.#slice = onEvicting === undefined ? this.#evictSlice() : onEvicting().then(() => this.#evictSlice());
    for (let slices = 1; (await this.#slice) === 'more'; slices += 1) {
      // An eviction goes on for long where new entries come as fast as others leave.
      if (onEvicting !== undefined && slices % slicesBetweenNews === 0) background.add(onEvicting());
      this.#slice = this.#evictSlice();
    }
    this.#slice = undefined;
  }

  /** Evicts a few entries at once, and lets other work have its turn. */
  async #evictSlice(): Promise<Slice> {
    const { eviction, lowWaterPercent = lowWaterPercentByDefault, signal } = this.#options;
    const excess = this.#usedBytes - Math.floor((this.#limitBytes * lowWaterPercent) / 100);
    if (excess <= 0) return 'enough';
    if (signal.aborted || !eviction.step(excess)) return 'nothing left';
    await setImmediate();
    return 'more';
  }
}

function noRoom(): StoreFault {
  return new StoreFault('no_room', 'The disk store has no room left.');
}
