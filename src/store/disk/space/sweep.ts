/** Removes expired pins, and the leftovers of crashes: body files that no row of the index names. */

import { setImmediate } from 'node:timers/promises';
import type { Emit } from '../../../telemetry/events.ts';
import type { BodyFiles } from '../bodies/body-files.ts';
import type { DiskIndex } from '../index/disk-index.ts';
import type { Instances } from '../index/instances.ts';

/** Number of generations that are checked before other work gets its turn. */
const checkedAtOnce = 32;

/** Options of a sweeper. */
export interface SweeperOptions {
  readonly files: BodyFiles;
  readonly index: DiskIndex;
  readonly instances: Instances;
  /** Checks whether this process is writing a generation. */
  readonly isWritten: (generation: string) => boolean;
  readonly emit: Emit;
  readonly signal: AbortSignal;
}

/** Sweeps, a little at a time. */
export class Sweeper {
  readonly #options: SweeperOptions;

  constructor(options: SweeperOptions) {
    this.#options = options;
  }

  /** Removes expired pins and leftover files, and logs the files. Begins in a later turn, so that it delays no start. */
  async sweepAll(): Promise<void> {
    const { index, signal } = this.#options;
    await setImmediate();
    while (!signal.aborted && index.removeExpired() > 0) await setImmediate();
    await this.sweepFiles();
  }

  /** Removes leftover files, whose reserved room then counts no longer. */
  async sweepFiles(): Promise<void> {
    const { instances } = this.#options;
    const { leftOver } = instances;
    const isWhole = await this.#sweep(() => true);
    if (isWhole) instances.noteSwept(leftOver);
  }

  /** Removes leftover files of generations that this process has begun. */
  async sweepOurs(): Promise<void> {
    await this.#sweep((generation) => this.#options.instances.isOurs(generation));
  }

  /** Returns whether all files in the store were looked at, and all leftover ones in scope are gone. */
  async #sweep(isInScope: (generation: string) => boolean): Promise<boolean> {
    const { files, signal } = this.#options;
    const isLeftOver = (generation: string) => isInScope(generation) && this.#isLeftOver(generation);
    const { count, isWhole } = await sweepBodies(files, isLeftOver, signal);
    if (count > 0) this.#log(count);
    return isWhole;
  }

  #log(count: number): void {
    const message = 'Files without an entry were removed from the store.';
    this.#options.emit({ kind: 'store', level: 'info', message, detail: `${count} bodies` });
  }

  #isLeftOver(generation: string): boolean {
    const { isWritten, index, instances } = this.#options;
    return !isWritten(generation) && !index.has(generation) && !instances.mayBeWrittenElsewhere(generation);
  }
}

/**
 * Removes the files of leftover generations; returns how many generations it removed, and whether it looked at all of the store.
 * A leftover generation never gets a row again, so no race with a writer can lose an entry.
 */
async function sweepBodies(
  files: BodyFiles,
  isLeftOver: (generation: string) => boolean,
  signal: AbortSignal,
): Promise<{ readonly count: number; readonly isWhole: boolean }> {
  let [count, checked, isWhole] = [0, 0, true];
  try {
    for await (const generation of files.generations()) {
      checked += 1;
      if (checked % checkedAtOnce === 0) await setImmediate();
      if (signal.aborted) return { count, isWhole: false };
      if (!isLeftOver(generation)) continue;
      if (await files.remove(generation)) count += 1;
      else isWhole = false;
    }
    return { count, isWhole };
  } catch {
    // A directory cannot be listed now. The next start sweeps again.
    return { count, isWhole: false };
  }
}
