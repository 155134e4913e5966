/** What a process tells others of the room that it has reserved: in steps, so that not each block changes the index. */

import { StoreFault } from '../store.ts';
import type { Instances } from './instances.ts';

/** So much more than is needed is claimed at once, but not more than this share of the store. */
const stepMaxBytes = 16 * 1024 * 1024;
const stepShare = 1 / 256;

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
    this.#stepBytes = Math.floor(Math.min(stepMaxBytes, maxSizeBytes * stepShare));
  }

  /** What other processes have claimed, in bytes. */
  get othersBytes(): number {
    return this.#instances.reservedByOthers;
  }

  /** Sees that so many reserved bytes in all are claimed; tells whether there is room for them. Throws `StoreFault`. */
  cover(reservedBytes: number, limitBytes: number): boolean {
    if (reservedBytes <= this.#claimedBytes - this.#countedBytes) return true;
    const claimed = this.#claim(reservedBytes, limitBytes);
    if (claimed === undefined) return false;
    this.#claimedBytes = claimed;
    this.#countedBytes = 0;
    return true;
  }

  /** On a full disk there is no room for anything until entries have left. */
  #claim(reservedBytes: number, limitBytes: number): number | undefined {
    try {
      return this.#instances.claim(reservedBytes, this.#stepBytes, limitBytes);
    } catch (error) {
      if (error instanceof StoreFault && error.reason === 'no_room') return undefined;
      throw error;
    }
  }

  /** Notes that so many bytes are not reserved any more, because the rows of entries count them. */
  count(bytes: number): void {
    this.#countedBytes += bytes;
  }

  /** Gives back what is claimed far beyond what is reserved. */
  settle(reservedBytes: number): void {
    if (this.#claimedBytes - reservedBytes < 2 * this.#stepBytes + 1) return;
    const claimed = Math.min(this.#claimedBytes - this.#countedBytes, reservedBytes + this.#stepBytes);
    if (!this.#instances.disclaim(claimed)) return;
    this.#claimedBytes = claimed;
    this.#countedBytes = 0;
  }

  /** The index begins afresh, and says nothing of what was claimed. */
  startAfresh(): void {
    this.#claimedBytes = 0;
    this.#countedBytes = 0;
  }
}
