/**
 * Writes whole files of one block in the same tick, for the system only copies them into its memory: handing each of the
 * calls to the thread pool and back takes longer than the call. A disk that cannot keep up makes them wait, though; what
 * that may cost is bounded (see `TimeDebt`), and the thread pool writes then.
 */

import type { writeFileSync } from 'node:fs';
import { TimeDebt } from './time-debt.ts';

/** What quick writes are made with. */
export interface QuickWriteOptions {
  /** Milliseconds, in fractions, that never go back. */
  readonly elapsed: () => number;
  /** That of `node:fs`. */
  readonly writeFileSync: typeof writeFileSync;
}

/** A write that takes no longer has not waited for the disk, in milliseconds. */
const quickMs = 1;

/** The quick writes of a store. */
export class QuickWrites {
  readonly #writeFileSync: typeof writeFileSync;
  readonly #debt: TimeDebt;

  constructor({ elapsed, writeFileSync }: QuickWriteOptions) {
    this.#writeFileSync = writeFileSync;
    this.#debt = new TimeDebt({ elapsed, quickMs });
  }

  /**
   * Creates a file of these bytes, for this user alone; tells whether it did. It does not when writes have been slow
   * lately. Throws the system's error; a part of the file may be there then.
   */
  create(path: string, bytes: Uint8Array): boolean {
    const write = () => {
      this.#writeFileSync(path, bytes, { flag: 'wx', mode: 0o600 });
      return true;
    };
    return this.#debt.afford(write) ?? false;
  }
}
