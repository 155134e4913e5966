/**
 * What the index says of the room that a process has reserved: in steps, so that not each block changes it. Other processes
 * go by it, and so does the next start after a crash, for what a process had reserved may be in files that no entry counts.
 */

import { StoreFault } from '../store.ts';
import type { Instances } from './instances.ts';

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
