/** Removes expired entries, and what a crash has left: body files that no row of the index names. */

import { setImmediate } from 'node:timers/promises';
import type { Emit } from '../../../telemetry/events.ts';
import type { BodyFiles } from '../bodies/body-files.ts';
import type { DiskIndex } from '../index/disk-index.ts';
import type { Instances } from '../index/instances.ts';

/** So many generations are looked at before other work gets its turn. */
const lookedAtOnce = 32;

/** What the sweeping is done with. */
export interface SweeperOptions {
  readonly files: BodyFiles;
  readonly index: DiskIndex;
  readonly instances: Instances;
  /** Whether this process is writing a generation. */
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

  /**
   * Removes what is expired and the files that are left over, and tells of the latter. Begins in a later turn, so that it
   * delays nobody's start.
   */
  async sweepAll(): Promise<void> {
    const { index, signal } = this.#options;
    await setImmediate();
    while (!signal.aborted && index.removeExpired() > 0) await setImmediate();
    await this.sweepFiles();
  }

  /** Removes the files that are left over: then they count no longer. */
  async sweepFiles(): Promise<void> {
    const { instances } = this.#options;
    const { leftOver } = instances;
    const isWhole = await this.#sweep(() => true);
    if (isWhole) instances.noteSwept(leftOver);
  }

  /** Removes the files that are left over of generations that this process has begun. */
  async sweepOurs(): Promise<void> {
    await this.#sweep((generation) => this.#options.instances.isOurs(generation));
  }

  /** Tells whether all that is meant was looked at, and all that is left over of it is gone. */
  async #sweep(isMeant: (generation: string) => boolean): Promise<boolean> {
    const { files, signal } = this.#options;
    const isLeftOver = (generation: string) => isMeant(generation) && this.#isLeftOver(generation);
    const { count, isWhole } = await sweepBodies(files, isLeftOver, signal);
    if (count > 0) this.#tell(count);
    return isWhole;
  }

  #tell(count: number): void {
    const message = 'Files without an entry were removed from the store.';
    this.#options.emit({ kind: 'store', level: 'info', message, detail: `${count} bodies` });
  }

  #isLeftOver(generation: string): boolean {
    const { isWritten, index, instances } = this.#options;
    return !isWritten(generation) && !index.has(generation) && !instances.mayBeWrittenElsewhere(generation);
  }
}

/**
 * Removes the files of generations of which it is said that they are left over; tells how many there were, and whether all of
 * the store was looked through. A generation that was once left over is never known again, so that nothing is lost to a race
 * with those who write.
 */
async function sweepBodies(
  files: BodyFiles,
  isLeftOver: (generation: string) => boolean,
  signal: AbortSignal,
): Promise<{ readonly count: number; readonly isWhole: boolean }> {
  let [count, looked] = [0, 0];
  try {
    for await (const generation of files.generations()) {
      looked += 1;
      if (looked % lookedAtOnce === 0) await setImmediate();
      if (signal.aborted) return { count, isWhole: false };
      if (!isLeftOver(generation)) continue;
      if (await files.remove(generation)) count += 1;
    }
    return { count, isWhole: true };
  } catch {
    // A directory cannot be listed now. The next start sweeps again.
    return { count, isWhole: false };
  }
}
