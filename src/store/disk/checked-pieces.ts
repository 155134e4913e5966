/** Which pieces of blocks were found sound lately, as they lie in their files. */

import type { Span } from '../../bytes/span.ts';

/** For no longer than this a piece is not checked again, in milliseconds: what was read lately, the system has in memory. */
const soundMs = 60_000;
/** The unit in which it is noted when that was, in milliseconds. */
const tickMs = 100;

/** Which file it is, and since which change: the same for no other one. */
export type FileIdentity = string | object;

/** What is known of a block. */
interface Notes {
  readonly file: FileIdentity;
  /** When each piece was checked, in ticks from 1 on; 0 for those that were not. */
  readonly checkedAt: Uint32Array;
}

/**
 * Notes of pieces by block, 4 bytes for each piece. They are of one file as it is: one that is opened anew under the same name
 * may be another one, or have been changed.
 */
export class CheckedPieces {
  readonly #elapsed: () => number;
  readonly #startedAt: number;
  readonly #notes = new Map<number, Notes>();

  /** `elapsed` tells milliseconds that never go back. */
  constructor(elapsed: () => number) {
    this.#elapsed = elapsed;
    this.#startedAt = elapsed();
  }

  /** Those pieces from `first` up to `end` (exclusive), and what lies between them, that were not checked lately in this file. */
  doubtful(block: number, file: FileIdentity, first: number, end: number): Span | undefined {
    const notes = this.#notes.get(block);
    if (notes?.file !== file) return { start: first, end };
    const { checkedAt } = notes;
    // A tick that has begun counts as a whole one; what was never checked was so before anything.
    const since = Math.max(1, this.#tick - soundMs / tickMs + 1);
    let start = first;
    while (start < end && (checkedAt[start] ?? 0) >= since) start += 1;
    if (start === end) return undefined;
    let stop = end;
    while ((checkedAt[stop - 1] ?? 0) >= since) stop -= 1;
    return { start, end: stop };
  }

  /** Notes that some of so many pieces of a block have just been found sound in this file. */
  note(block: number, file: FileIdentity, { start, end }: Span, pieceCount: number): void {
    let notes = this.#notes.get(block);
    if (notes?.file !== file) {
      notes = { file, checkedAt: new Uint32Array(pieceCount) };
      this.#notes.set(block, notes);
    }
    notes.checkedAt.fill(this.#tick, start, end);
  }

  /** Forgets a block. */
  forget(block: number): void {
    this.#notes.delete(block);
  }

  get #tick(): number {
    return Math.floor((this.#elapsed() - this.#startedAt) / tickMs) + 1;
  }
}
