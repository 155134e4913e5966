/**
 * The room of the disk store: what is taken, what writers have reserved, and what is evicted when more is needed. Read this file
 * first. `RoomClaims` says in the index what this process has reserved, in steps, so that not each block changes it; other
 * processes and the next start after a crash rely on it. `StoringSwitch` turns storing off while the disk is full or fails.
 */

import { setImmediate } from 'node:timers/promises';
import type { Emit } from '../../../telemetry/events.ts';
import { StoreFault } from '../../store.ts';
import { type FileSystem, systemCode } from '../bodies/file-system.ts';
import type { BackgroundTasks } from '../bodies/open-bodies.ts';
import type { DiskIndex } from '../index/disk-index.ts';
import type { Instances } from '../index/instances.ts';
import type { Eviction } from './eviction.ts';

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
  /** What the index says of this process' reservations; it says nothing of them without it. */
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
  /** Notes that so many bytes more are on the disk by now. */
  wrote(bytes: number): void;
  /**
   * Gives all of it back, for a row counts so many bytes from now on, so many of them ahead of what is on the disk; 0 when
   * there is no row any more.
   */
  count(bytes: number, aheadBytes?: number): void;
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
  /** The part of the reserved bytes that is on the disk already, less what rows count that is not there yet. */
  #writtenBytes = 0;
  /** The part of the reserved bytes that is in files which are being removed. */
  #removedBytes = 0;
  readonly #removals = new Set<Promise<void>>();
  readonly #readReserved = () => this.#reservedBytes;
  #unmeasuredBytes = Number.POSITIVE_INFINITY;
  /** The slice of eviction that is under way; undefined when none is. */
  #slice: Promise<Slice> | undefined;

  constructor(options: DiskSpaceOptions) {
    this.#options = options;
    this.#limitBytes = options.maxSizeBytes;
  }

  /** Reserves room where no entry has to leave for it and the disk need not be looked at; tells whether it did. Does not throw. */
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

  /** Gives back room that was reserved, of which rows may count so many bytes by now. */
  giveBack(bytes: number, isCounted: boolean): void {
    this.#reservedBytes -= bytes;
    if (isCounted) this.#options.claims?.count(bytes);
    this.#options.claims?.settle(this.#readReserved);
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
   * Counts files that are being removed, whose deleted row counted so many bytes, until they are gone. The index must say so
   * since the row was deleted: see `Instances.noteRemoval`. `removal` never rejects.
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
    // Where there are others, what is free is known only within a change of the index.
    if (claims?.isShared !== true && this.#usedBytes > this.#limitBytes) return false;
    return claims?.cover(this.#readReserved, this.#limitBytes) ?? true;
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
    if (this.#reservedBytes - this.#removedBytes + bytes > this.#limitBytes) throw noRoom();
    if (!(await this.#takeRoom(bytes, () => this.#hasRoom()))) throw noRoom();
  }

  /**
   * Reserves bytes and sees that there is room for them; where that cannot be, gives them back and says so. Waits only so
   * long; the eviction goes on to the low water in the background. Throws what `hasRoom` throws.
   */
  async #takeRoom(bytes: number, hasRoom: () => boolean): Promise<boolean> {
    this.#reservedBytes += bytes;
    let isVain = false;
    try {
      while (!hasRoom()) {
        if (this.#slice === undefined) this.#options.background.add(this.#evict());
        if (hasRoom()) break;
        const slice = await this.#slice;
        if (slice === 'more') continue;
        // Others may have given up just now, and made room thereby.
        if (hasRoom()) break;
        // Where enough has left twice and there is no room, the index cannot note that it is taken: its disk is full.
        const isOver = slice === 'nothing left' || (isVain && this.#removals.size === 0);
        isVain = true;
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

/** So much more than is needed is claimed at once, but not more than this share of the store. */
const stepMaxBytes = 16 * 1024 * 1024;
const stepShare = 1 / 256;

/** How far the index counts ahead of what is written, in bytes, in a store that may become so large. */
export function stepBytesOf(maxSizeBytes: number): number {
  return Math.floor(Math.min(stepMaxBytes, maxSizeBytes * stepShare));
}

/**
 * The claims. What the row of this process says is never less than what it has reserved since, so that all processes
 * together do not take more than there is. It may be more by two steps.
 */
export class RoomClaims {
  readonly #instances: Instances;
  readonly #stepBytes: number;
  /** What the row says. */
  #claimedBytes = 0;
  /** The part of it that rows of entries count by now. */
  #countedBytes = 0;

  constructor(instances: Instances, maxSizeBytes: number) {
    this.#instances = instances;
    this.#stepBytes = stepBytesOf(maxSizeBytes);
  }

  /** What other processes have claimed, in bytes, dead ones included whose files were not swept yet. */
  get othersBytes(): number {
    return this.#instances.reservedByOthers;
  }

  /** Whether other processes claim room too. */
  get isShared(): boolean {
    return this.#instances.isShared;
  }

  /**
   * Sees that all reserved bytes are claimed, of which it is asked when no change of the index waits; tells whether there is
   * room for them, as far as that is not known otherwise: see `isShared`. Throws `StoreFault`.
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

  /** On a full disk there is no room for anything until entries have left. A process that is alone goes on without a note. */
  #claim(reservedBytes: number, limitBytes: number): number | undefined {
    try {
      return this.#instances.claim(reservedBytes, this.#claimedBytes, this.#stepBytes, limitBytes);
    } catch (error) {
      if (error instanceof StoreFault && (error.reason === 'no_room' || !this.isShared)) return undefined;
      throw error;
    }
  }

  /** Notes that the rows of removed entries, whose files are still there, were deleted, and so much was claimed for these. */
  noteRemoval(bytes: number): void {
    this.#claimedBytes += bytes;
  }

  /** Notes that so many bytes are not reserved any more, because the rows of entries count them. */
  count(bytes: number): void {
    this.#countedBytes += bytes;
  }

  /** Gives back what is claimed far beyond what is reserved. */
  settle(reservedBytes: () => number): void {
    const isMuch = () => this.#claimedBytes - reservedBytes() > 2 * this.#stepBytes;
    if (!isMuch()) return;
    this.#instances.settle();
    if (!isMuch()) return;
    const claimed = Math.min(this.#claimedBytes - this.#countedBytes, reservedBytes() + this.#stepBytes);
    if (!this.#instances.disclaim(this.#claimedBytes - claimed)) return;
    this.#claimedBytes = claimed;
    this.#countedBytes = 0;
  }

  /** The index begins afresh, and says nothing of what was claimed. */
  startAfresh(): void {
    this.#claimedBytes = 0;
    this.#countedBytes = 0;
  }
}

/** While storing is off, one writer per such interval may try. */
const retryAfterMs = 10_000;
/** A disk that is full now and then is told of once per such interval. */
const toldAgainAfterMs = 600_000;

const fullCodes: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** Any failure to write as a `StoreFault`. */
export function toStoreFault(error: unknown): StoreFault {
  if (error instanceof StoreFault) return error;
  const isFull = fullCodes.has(systemCode(error) ?? '');
  return new StoreFault(isFull ? 'no_room' : 'io', `The store cannot be written: ${String(error)}`, { cause: error });
}

/** On, or off because of a fault. Tells when it goes off and on, but not over and over. */
export class StoringSwitch {
  readonly #now: () => number;
  readonly #emit: Emit;
  #off: { readonly fault: StoreFault; retryAt: number; isTrying: boolean } | undefined;
  #toldAt = Number.NEGATIVE_INFINITY;
  #isToldOff = false;

  constructor(options: { readonly now: () => number; readonly emit: Emit }) {
    this.#now = options.now;
    this.#emit = options.emit;
  }

  get isOn(): boolean {
    return this.#off === undefined;
  }

  /** Throws the `StoreFault` that turned storing off, unless it is time for a trial. */
  check(): void {
    if (this.#off === undefined) return;
    if (this.#now() < this.#off.retryAt) throw this.#off.fault;
    this.#off.retryAt = this.#now() + retryAfterMs;
    this.#off.isTrying = true;
  }

  /** Something could not be written. */
  failed(fault: StoreFault): void {
    const now = this.#now();
    if (this.#off === undefined && now >= this.#toldAt + toldAgainAfterMs) {
      const why = fault.reason === 'no_room' ? 'the disk is full' : 'the disk cannot be written';
      this.#tell('warn', `Storing is off: ${why}. Requests go on.`, fault.message);
      this.#toldAt = now;
      this.#isToldOff = true;
    }
    this.#off = { fault, retryAt: now + retryAfterMs, isTrying: false };
  }

  /** Something was written. While storing is off only a trial counts: the last free bytes of a disk prove nothing. */
  succeeded(): void {
    if (this.#off?.isTrying !== true) return;
    this.#off = undefined;
    if (this.#isToldOff) this.#tell('info', 'Storing is on again.', undefined);
    this.#isToldOff = false;
  }

  #tell(level: 'info' | 'warn', message: string, detail: string | undefined): void {
    this.#emit({ kind: 'store', level, message, detail });
  }
}
