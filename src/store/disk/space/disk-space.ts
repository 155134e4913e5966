/**
 * The room of the disk store: what entries take, what writers have reserved, and the eviction when more is needed. Read this file
 * first. `RoomClaims` records in the index what this process has reserved, in steps, so that not each block changes it; other
 * processes and the next start after a crash rely on that record. `StoringSwitch` turns storing off while the disk is full or
 * fails.
 */

import { setImmediate } from 'node:timers/promises';
import type { Emit } from '../../../telemetry/events.ts';
import { StoreFault, toStoreFault } from '../../store.ts';
import { type FileSystem, systemCode } from '../bodies/file-system.ts';
import type { BackgroundTasks } from '../bodies/open-bodies.ts';
import type { DiskIndex } from '../index/disk-index.ts';
import type { Instances } from '../index/instances.ts';
import type { Eviction } from './eviction.ts';

/** Options of the disk space. */
export interface DiskSpaceOptions {
  readonly dir: string;
  /** High-water mark, in bytes: entries are evicted when more is used. */
  readonly maxSizeBytes: number;
  /** Low-water mark, in percent of the high one: entries are evicted until no more than this is used. */
  readonly lowWaterPercent?: number | undefined;
  /** While less than this is free on the disk, in bytes, the bytes in use are the high-water mark. */
  readonly minFreeBytes?: number | undefined;
  readonly index: DiskIndex;
  readonly eviction: Eviction;
  readonly fileSystem: FileSystem;
  readonly background: BackgroundTasks;
  /** Stops work in the background. */
  readonly signal: AbortSignal;
  /** Records this process's reservations in the index; without it they are not recorded. */
  readonly claims?: RoomClaims | undefined;
  /** Announces an eviction to the other processes, so that they report which entries they use. */
  readonly onEvicting?: (() => Promise<void>) | undefined;
}

/** Result of a slice of eviction: it goes on, the low-water mark is reached, or nothing more can be evicted. */
type Slice = 'more' | 'enough' | 'nothing left';

/** The room of one generation while it is written, beyond what its row in the index counts. */
export interface Reservation {
  /**
   * Makes sure that this many bytes in all are counted or reserved, evicting entries where needed. Returns a promise where it has
   * to wait. Throws `StoreFault` `no_room`, or rejects with it.
   */
  growTo(bytes: number): Promise<void> | undefined;
  /** Notes that this many more bytes are on the disk. */
  wrote(bytes: number): void;
  /**
   * Releases the whole reservation, because a row counts `bytes` from now on, `aheadBytes` of which are not on the disk yet.
   * `bytes` is 0 when there is no row any more.
   */
  count(bytes: number, aheadBytes?: number): void;
}

/** Default low-water mark, in percent. It is below the high one so that not each writer has to evict. */
const lowWaterPercentByDefault = 95;
/** Free disk space that is left by default: this many bytes, but not more than this share of the disk. The index needs room to evict. */
const minFreeBytesByDefault = 32 * 1024 * 1024;
const minFreeShareByDefault = 1 / 4;
/** Number of reserved bytes after which the free space of the disk is measured again. */
const measuredEveryBytes = 16 * 1024 * 1024;

/** Number of slices of one eviction after which it is announced to other processes again. */
const slicesBetweenMessages = 8;

/** Keeps the sum of entries and reservations within the bound: the configured size, or what the disk has. */
export class DiskSpace {
  readonly #options: DiskSpaceOptions;
  #limitBytes: number;
  #reservedBytes = 0;
  /** The reserved bytes that are already on the disk, less the bytes that rows count ahead of the disk. */
  #writtenBytes = 0;
  /** The reserved bytes of files that are being removed. */
  #removedBytes = 0;
  readonly #removals = new Set<Promise<void>>();
  readonly #readReserved = () => this.#reservedBytes;
  #unmeasuredBytes = Number.POSITIVE_INFINITY;
  /** The slice of eviction in progress; undefined when there is none. */
  #slice: Promise<Slice> | undefined;

  constructor(options: DiskSpaceOptions) {
    this.#options = options;
    this.#limitBytes = options.maxSizeBytes;
  }

  /** Reserves room where that needs neither an eviction nor a look at the disk; returns whether it did. Does not throw `StoreFault`. */
  take(bytes: number): boolean {
    try {
      return this.#reserveAtOnce(bytes);
    } catch (error) {
      if (error instanceof StoreFault) return false;
      throw error;
    }
  }

  /** Reserves room, evicting entries where it must. Rejects with `StoreFault` `no_room`. */
  takeMore(bytes: number): Promise<void> {
    return this.#reserve(bytes);
  }

  /** Releases reserved room. `isCounted`: whether the row of an entry counts these bytes by now. */
  giveBack(bytes: number, isCounted: boolean): void {
    this.#reservedBytes -= bytes;
    if (isCounted) this.#options.claims?.count(bytes);
    this.#options.claims?.settle(this.#readReserved);
  }

  /** Returns a new, empty reservation. */
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
      count: (bytes, aheadBytes = 0) => {
        this.#reservedBytes -= reserved;
        this.#writtenBytes -= written + aheadBytes;
        if (bytes > 0) this.#options.claims?.count(reserved);
        counted = bytes;
        reserved = 0;
        written = -aheadBytes;
        this.#options.claims?.settle(this.#readReserved);
      },
    };
  }

  /**
   * Counts files that are being removed, until they are gone. `bytes` is what their deleted row counted. The change that deleted
   * the row must have reserved these bytes in the index: see `Instances.noteRemoval`. `removal` never rejects.
   */
  noteRemoval(bytes: number, removal: Promise<unknown>): void {
    const { claims, background } = this.#options;
    this.#reservedBytes += bytes;
    this.#writtenBytes += bytes;
    this.#removedBytes += bytes;
    claims?.noteRemoval(bytes);
    const noted = removal.then(() => {
      this.#reservedBytes -= bytes;
      this.#writtenBytes -= bytes;
      this.#removedBytes -= bytes;
      this.#removals.delete(noted);
      claims?.settle(this.#readReserved);
    });
    this.#removals.add(noted);
    background.add(noted);
  }

  /** Evicts entries if more than the high-water mark is used, as far as possible. Never rejects. */
  async makeRoom(): Promise<void> {
    await this.#takeRoom(0, () => this.#usedBytes <= this.#limitBytes);
  }

  /** Measures the free space of the disk, and adapts the bound to it. Never rejects. */
  async measure(): Promise<void> {
    const { dir, maxSizeBytes, minFreeBytes, index, fileSystem } = this.#options;
    this.#unmeasuredBytes = 0;
    try {
      const { blocks, bavail, bsize } = await fileSystem.statfs(dir);
      const keptFreeBytes = minFreeBytes ?? Math.min(minFreeBytesByDefault, blocks * bsize * minFreeShareByDefault);
      const room = Math.max(0, bavail * bsize - keptFreeBytes);
      this.#limitBytes = Math.min(maxSizeBytes, index.allocatedBytes + this.#writtenBytes + room);
    } catch {
      // The bound stays as it is. The next write shows whether the disk is full.
    }
  }

  get #usedBytes(): number {
    return this.#options.index.allocatedBytes + this.#reservedBytes + this.#othersBytes;
  }

  get #othersBytes(): number {
    return this.#options.claims?.othersBytes ?? 0;
  }

  /** Checks whether there is room for all reserved bytes, and if so makes the index record them. Throws `StoreFault`. */
  #hasRoom(): boolean {
    const { claims } = this.#options;
    // In a shared store, the free room is known only within a change of the index.
    if (claims?.isShared !== true && this.#usedBytes > this.#limitBytes) return false;
    return claims?.cover(this.#readReserved, this.#limitBytes) ?? true;
  }

  /**
   * Reserves bytes where the disk need not be measured and no entry has to be evicted; returns whether it did. Throws as
   * `#hasRoom` does.
   */
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
    if (this.#reservedBytes - this.#removedBytes + bytes > this.#limitBytes) throw noRoom();
    if (!(await this.#takeRoom(bytes, () => this.#hasRoom()))) throw noRoom();
  }

  /**
   * Reserves bytes and makes room for them. Where that is impossible, releases them and returns false. Waits only until there is
   * room; the eviction goes on to the low-water mark in the background. Throws as `hasRoom` does.
   */
  async #takeRoom(bytes: number, hasRoom: () => boolean): Promise<boolean> {
    this.#reservedBytes += bytes;
    let wasEnough = false;
    try {
      while (!hasRoom()) {
        if (this.#slice === undefined) this.#options.background.add(this.#evict());
        if (hasRoom()) break;
        const slice = await this.#slice;
        if (slice === 'more') continue;
        // Another waiting writer may have given up just now and so made room.
        if (hasRoom()) break;
        // No room after a second `enough` means that the index cannot record the claim: its disk is full.
        const isOver = slice === 'nothing left' || (wasEnough && this.#removals.size === 0);
        wasEnough = true;
        if (!isOver) continue;
        this.#reservedBytes -= bytes;
        return false;
      }
      return true;
    } catch (error) {
      this.#reservedBytes -= bytes;
      throw error;
    }
  }

  /** Evicts slice by slice. */
  async #evict(): Promise<void> {
    const { onEvicting, background } = this.#options;
    this.#slice = onEvicting === undefined ? this.#evictSlice() : onEvicting().then(() => this.#evictSlice());
    for (let slices = 1; (await this.#slice) === 'more'; slices += 1) {
      // An eviction lasts long where new entries arrive as fast as others leave.
      if (onEvicting !== undefined && slices % slicesBetweenMessages === 0) background.add(onEvicting());
      this.#slice = this.#evictSlice();
    }
    this.#slice = undefined;
  }

  /** Evicts a few entries, and then lets other work have its turn. */
  async #evictSlice(): Promise<Slice> {
    const { eviction, lowWaterPercent = lowWaterPercentByDefault, signal } = this.#options;
    const usedBytes = this.#usedBytes;
    const excess = usedBytes - this.#removedBytes - Math.floor((this.#limitBytes * lowWaterPercent) / 100);
    if (signal.aborted) return 'nothing left';
    if (excess > 0 && eviction.step(excess)) {
      await setImmediate();
      return 'more';
    }
    const isLeaving = this.#removals.size > 0 && usedBytes > this.#limitBytes;
    if (isLeaving) await Promise.race(this.#removals);
    if (excess <= 0) return 'enough';
    return isLeaving ? 'more' : 'nothing left';
  }
}

function noRoom(): StoreFault {
  return new StoreFault('no_room', 'The disk store has no room left.');
}

/** Number of bytes claimed at once beyond the need, and the share of the store that limits it. */
const stepMaxBytes = 16 * 1024 * 1024;
const stepShare = 1 / 256;

/** Returns how far the index counts ahead of what is written, in bytes, for a store of this maximum size. */
export function stepBytesOf(maxSizeBytes: number): number {
  return Math.floor(Math.min(stepMaxBytes, maxSizeBytes * stepShare));
}

/**
 * The claims of this process. Its row claims at least what the process has reserved, so that all processes together do not take
 * more than there is. It may claim up to two steps more.
 */
export class RoomClaims {
  readonly #instances: Instances;
  readonly #stepBytes: number;
  /** Bytes that the row claims. */
  #claimedBytes = 0;
  /** The part of the claimed bytes that rows of entries count by now. */
  #countedBytes = 0;

  constructor(instances: Instances, maxSizeBytes: number) {
    this.#instances = instances;
    this.#stepBytes = stepBytesOf(maxSizeBytes);
  }

  /** Bytes that other processes have claimed, including dead processes whose files were not swept yet. */
  get othersBytes(): number {
    return this.#instances.reservedByOthers;
  }

  /** Whether other processes claim room too. */
  get isShared(): boolean {
    return this.#instances.isShared;
  }

  /**
   * Makes sure that all reserved bytes are claimed. Where they are not, first makes the waiting changes of the index, which may
   * change what is reserved or claimed. Returns whether there is room for them; always true in a store that is not shared, whose
   * caller has checked the room. Throws `StoreFault`.
   */
  cover(reservedBytes: () => number, limitBytes: number): boolean {
    if (this.#covers(reservedBytes())) return true;
    this.#instances.settle();
    if (this.#covers(reservedBytes())) return true;
    const claimed = this.#claim(reservedBytes(), limitBytes);
    if (claimed === undefined) return !this.isShared;
    this.#claimedBytes = claimed;
    this.#countedBytes = 0;
    return true;
  }

  #covers(reservedBytes: number): boolean {
    return reservedBytes <= this.#claimedBytes - this.#countedBytes;
  }

  /** Returns undefined where there is no room, or the disk is full. A process that is alone goes on without a claim. */
  #claim(reservedBytes: number, limitBytes: number): number | undefined {
    try {
      return this.#instances.claim(reservedBytes, this.#claimedBytes, this.#stepBytes, limitBytes);
    } catch (error) {
      if (error instanceof StoreFault && (error.reason === 'no_room' || !this.isShared)) return undefined;
      throw error;
    }
  }

  /** Notes that rows were deleted and that this many bytes were claimed, in the same change, for their files. */
  noteRemoval(bytes: number): void {
    this.#claimedBytes += bytes;
  }

  /** Notes that this many bytes are no longer reserved, because rows of entries count them. */
  count(bytes: number): void {
    this.#countedBytes += bytes;
  }

  /** Reduces a claim that is much larger than the reserved bytes. */
  settle(reservedBytes: () => number): void {
    const isTooMuch = () => this.#claimedBytes - reservedBytes() > 2 * this.#stepBytes;
    if (!isTooMuch()) return;
    this.#instances.settle();
    if (!isTooMuch()) return;
    const claimed = Math.min(this.#claimedBytes - this.#countedBytes, reservedBytes() + this.#stepBytes);
    if (!this.#instances.disclaim(this.#claimedBytes - claimed)) return;
    this.#claimedBytes = claimed;
    this.#countedBytes = 0;
  }

  /** Resets the claims for an empty index, which has no record of them. */
  startAfresh(): void {
    this.#claimedBytes = 0;
    this.#countedBytes = 0;
  }
}

/** While storing is off, one writer per this interval may try, in milliseconds. */
const retryAfterMs = 10_000;
/** Interval between two warnings about a disk that is full now and then, in milliseconds. */
const warnIntervalMs = 600_000;

const fullCodes: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** Converts any failure to write to a disk into a `StoreFault`: `no_room` where the disk or a quota is full. */
export function toDiskFault(error: unknown): StoreFault {
  const fault = toStoreFault(error);
  const isFull = fault !== error && fullCodes.has(systemCode(error) ?? '');
  return isFull ? new StoreFault('no_room', fault.message, { cause: error }) : fault;
}

/** Storing is on, or off because of a fault. Logs when it goes off and on, but not over and over. */
export class StoringSwitch {
  readonly #now: () => number;
  readonly #emit: Emit;
  #off: { readonly fault: StoreFault; retryAt: number; isTrying: boolean } | undefined;
  #warnedAt = Number.NEGATIVE_INFINITY;
  #wasOffLogged = false;

  constructor(options: { readonly now: () => number; readonly emit: Emit }) {
    this.#now = options.now;
    this.#emit = options.emit;
  }

  get isOn(): boolean {
    return this.#off === undefined;
  }

  /** Throws the `StoreFault` that turned storing off, unless a trial is due. */
  check(): void {
    if (this.#off === undefined) return;
    if (this.#now() < this.#off.retryAt) throw this.#off.fault;
    this.#off.retryAt = this.#now() + retryAfterMs;
    this.#off.isTrying = true;
  }

  /** Notes that a write failed. */
  failed(fault: StoreFault): void {
    const now = this.#now();
    if (this.#off === undefined && now >= this.#warnedAt + warnIntervalMs) {
      const why = fault.reason === 'no_room' ? 'the disk is full' : 'the disk cannot be written';
      this.#log('warn', `Storing is off: ${why}. Requests go on.`, fault.message);
      this.#warnedAt = now;
      this.#wasOffLogged = true;
    }
    this.#off = { fault, retryAt: now + retryAfterMs, isTrying: false };
  }

  /** Notes that a write succeeded. While storing is off only a trial counts: the last free bytes of a disk prove nothing. */
  succeeded(): void {
    if (this.#off?.isTrying !== true) return;
    this.#off = undefined;
    if (this.#wasOffLogged) this.#log('info', 'Storing is on again.', undefined);
    this.#wasOffLogged = false;
  }

  #log(level: 'info' | 'warn', message: string, detail: string | undefined): void {
    this.#emit({ kind: 'store', level, message, detail });
  }
}
