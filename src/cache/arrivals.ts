/** The fills of one generation: what is arriving, and what will. */

import type { Span } from '../bytes/span.ts';
import { type Coming, isComing, nearestFill } from './fetch-decision.ts';
import type { Fill } from './fill.ts';

/** A set of running fills. */
export class Arrivals implements Iterable<Fill> {
  readonly #blockSizeBytes: number;
  readonly #fills = new Set<Fill>();
  #receivedBefore = 0;

  constructor(blockSizeBytes: number) {
    this.#blockSizeBytes = blockSizeBytes;
  }

  get size(): number {
    return this.#fills.size;
  }

  /** Bytes that the origin has sent, through all fills that there were. */
  get received(): number {
    return [...this.#fills].reduce((sum, fill) => sum + fill.received, this.#receivedBefore);
  }

  get coming(): readonly Coming[] {
    return [...this.#fills];
  }

  add(fill: Fill): void {
    this.#fills.add(fill);
  }

  /** Forgets a fill that has ended. */
  remove(fill: Fill): void {
    if (this.#fills.delete(fill)) this.#receivedBefore += fill.received;
  }

  [Symbol.iterator](): Iterator<Fill> {
    return [...this.#fills][Symbol.iterator]();
  }

  /** Bytes from `offset` on that lie in a block which is arriving. */
  peek(offset: number, end: number): Uint8Array | undefined {
    const index = Math.floor(offset / this.#blockSizeBytes);
    const start = index * this.#blockSizeBytes;
    for (const fill of this.#fills) {
      const block = fill.blockAt(index);
      if (block === undefined || start + block.length <= offset) continue;
      return block.subarray(offset - start, Math.min(end - start, block.length));
    }
    return undefined;
  }

  /** Whether an absent byte will come. */
  bring(offset: number): boolean {
    return [...this.#fills].some((fill) => isComing(fill, offset));
  }

  /** The fill that brings an absent byte first. */
  nearest(offset: number): Fill | undefined {
    return nearestFill([...this.#fills], offset);
  }

  /** Whether all of these bytes will come by another fill than this one. */
  bringAll({ start, end }: Span, besides: Fill): boolean {
    return [...this.#fills].some((fill) => fill !== besides && isComing(fill, start) && end <= fill.limit);
  }

  /** Whether some fill has come as far as `end`. */
  hasReached(end: number): boolean {
    return [...this.#fills].some((fill) => fill.frontier >= end);
  }

  /** How far the bytes from `offset` on are there or coming by others, where a run that is there ends at `runEnd`. */
  coveredEnd(fill: Fill, offset: number, runEnd: number): number {
    let coveredEnd = runEnd;
    for (const other of this.#fills) {
      const block = Math.floor(other.frontier / this.#blockSizeBytes) * this.#blockSizeBytes;
      // One that is behind would be there too late, and one that has brought nothing yet may turn out to bring the whole anew.
      const isAhead = block >= offset && block <= runEnd;
      if (other !== fill && other.received > 0 && isAhead) coveredEnd = Math.max(coveredEnd, other.limit);
    }
    return coveredEnd;
  }
}
