/** Which pieces of blocks were found sound lately, as they lie in their files. */

import type { Span } from '../../bytes/span.ts';

/** For so long a piece is not checked again, in milliseconds: what was read just now, the system has in memory still. */
const soundMs = 10_000;
/** The unit in which it is noted when that was, in milliseconds. */
const tickMs = 100;

/** Notes of pieces by block, 4 bytes for each piece. */
export class CheckedPieces {
  readonly #elapsed: () => number;
  readonly #startedAt: number;
  /** When each piece of a block was checked, in ticks from 1 on; 0 for those that were not. */
  readonly #checkedAt = new Map<number, Uint32Array>();

  /** `elapsed` tells milliseconds that never go back. */
  constructor(elapsed: () => number) {
    this.#elapsed = elapsed;
    this.#startedAt = elapsed();
  }

  /** Those pieces from `first` up to `end` (exclusive), and what lies between them, that were not checked lately. */
  doubtful(block: number, first: number, end: number): Span | undefined {
    const checkedAt = this.#checkedAt.get(block);
    if (checkedAt === undefined) return { start: first, end };
    // What was never checked was so before anything.
    const since = Math.max(1, this.#tick - soundMs / tickMs);
    let start = first;
    while (start < end && (checkedAt[start] ?? 0) >= since) start += 1;
    if (start === end) return undefined;
    let stop = end;
    while ((checkedAt[stop - 1] ?? 0) >= since) stop -= 1;
    return { start, end: stop };
  }

  /** Notes that the pieces from `first` up to `end` (exclusive) of so many in the block have just been found sound. */
  note(block: number, first: number, end: number, pieceCount: number): void {
    let checkedAt = this.#checkedAt.get(block);
    if (checkedAt === undefined) {
      checkedAt = new Uint32Array(pieceCount);
      this.#checkedAt.set(block, checkedAt);
    }
    checkedAt.fill(this.#tick, first, end);
  }

  /** Forgets a block. */
  forget(block: number): void {
    this.#checkedAt.delete(block);
  }

  get #tick(): number {
    return Math.floor((this.#elapsed() - this.#startedAt) / tickMs) + 1;
  }
}
