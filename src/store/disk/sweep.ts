/** Removes what is expired and what a crash has left: body files that no row of the index speaks of. */

import { setImmediate } from 'node:timers/promises';
import type { Emit } from '../../telemetry/events.ts';
import type { BodyFiles } from './body-files.ts';
import type { DiskIndex } from './disk-index.ts';
import type { Instances } from './instances.ts';

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
    await this.#sweep(() => true);
  }

  /** Removes the files that are left over of generations that this process has begun. */
  async sweepOurs(): Promise<void> {
    await this.#sweep((generation) => this.#options.instances.isOurs(generation));
  }

  async #sweep(isMeant: (generation: string) => boolean): Promise<void> {
    const { files, signal, emit } = this.#options;
    const isLeftOver = (generation: string) => isMeant(generation) && this.#isLeftOver(generation);
    const count = await sweepBodies(files, isLeftOver, signal);
    if (count === 0) return;
    const message = 'Files without an entry were removed from the store.';
    emit({ kind: 'store', level: 'info', message, detail: `${count} bodies` });
  }

  #isLeftOver(generation: string): boolean {
    const { isWritten, index, instances } = this.#options;
    return !isWritten(generation) && !index.has(generation) && !instances.mayBeWrittenElsewhere(generation);
  }
}

/**
 * Removes the files of generations of which it is said that they are left over, and tells how many there were. A
 * generation that was once left over is never known again, so that nothing is lost to a race with those who write.
 */
async function sweepBodies(
  files: BodyFiles,
  isLeftOver: (generation: string) => boolean,
  signal: AbortSignal,
): Promise<number> {
  let removed = 0;
  for await (const generation of files.generations()) {
    await setImmediate();
    if (signal.aborted) break;
    if (!isLeftOver(generation)) continue;
    await files.remove(generation);
    removed += 1;
  }
  return removed;
}
