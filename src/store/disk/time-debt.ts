/** How much of the event loop's time may be lost to calls that are made in the same tick because they are quick mostly. */

/** What a debt is kept with. */
export interface TimeDebtOptions {
  /** Milliseconds, in fractions, that never go back. */
  readonly elapsed: () => number;
  /** A call that takes no longer owes nothing, in milliseconds. */
  readonly quickMs: number;
  /**
   * A number that changes when the process has waited for a disk, as far as the system counts that. While it stays the same,
   * a call that took long has most likely waited for the processor, which says nothing about the next one.
   */
  readonly waits?: (() => number) | undefined;
}

/** No call is made while so much is owed, in milliseconds. */
const maxDebtMs = 20;
/** So much of the time may be lost. */
const debtShare = 0.02;
/** What was lost counts for so much where nothing says that it was lost to a disk. Not every file system is counted. */
const doubtfulShare = 0.1;

/**
 * The debt: the time that calls took longer than they should, paid off at a small rate. While it is too high none is made,
 * so that the event loop is held up for `debtShare` of the time at most, and once by a single call that is slow beyond
 * measure.
 */
export class TimeDebt {
  readonly #options: TimeDebtOptions;
  #debtMs = 0;
  /** What `waits` told last. */
  #waits: number | undefined;
  /** When the debt was what it says. */
  #at: number;

  constructor(options: TimeDebtOptions) {
    this.#options = options;
    this.#at = options.elapsed();
  }

  /** Makes a call unless too much is owed; undefined then. Throws what the call throws. */
  afford<T>(call: () => T): T | undefined {
    const { elapsed, quickMs } = this.#options;
    const startedAt = elapsed();
    if (this.#debtAfter(startedAt) >= maxDebtMs) return undefined;
    try {
      return call();
    } finally {
      const endedAt = elapsed();
      const lostMs = endedAt - startedAt - quickMs;
      if (lostMs > 0) this.#owe(lostMs, endedAt);
    }
  }

  #owe(lostMs: number, at: number): void {
    const waits = this.#options.waits?.();
    const isDoubtful = waits !== undefined && waits === this.#waits;
    this.#waits = waits;
    this.#debtMs = this.#debtAfter(at) + lostMs * (isDoubtful ? doubtfulShare : 1);
    this.#at = at;
  }

  #debtAfter(at: number): number {
    return Math.max(0, this.#debtMs - (at - this.#at) * debtShare);
  }
}
