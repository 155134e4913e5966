/** Synchronous reads for tests: of the real file system, timed by a clock that a test moves. */

import { readSync } from 'node:fs';
import { readFileInto } from '../../../src/setup/store.ts';
import type { ReadSync } from '../../../src/store/disk/bodies/file-system.ts';
import type { QuickReadOptions } from '../../../src/store/disk/bodies/synchronous-io.ts';

/** Counts reads, and lets a test slow them down or break them. */
export class SteeredReads {
  /** Duration of each read, in milliseconds. */
  readMs = 0;
  /** Whether reads fail. */
  isBroken = false;
  /** The system's counter of reads from a disk. */
  diskReads = 0;
  /** Number of reads, and the sum of their bytes. */
  count = 0;
  bytes = 0;
  /** Pending callbacks, and the times at which they are due. */
  readonly #waits = new Map<() => void, number>();
  #now = 0;

  readonly options: QuickReadOptions = {
    elapsed: () => this.#now,
    diskReads: () => this.diskReads,
    after: (delayMs, callback) => {
      this.#waits.set(callback, this.#now + delayMs);
      return () => void this.#waits.delete(callback);
    },
    readSync: ((fd: number, bytes: Uint8Array, ...rest: [number, number, number]) => {
      this.#note(rest[1]);
      return readSync(fd, bytes, ...rest);
    }) as ReadSync,
    readFileInto: (path, bytes) => {
      this.#note(bytes.length);
      return readFileInto(path, bytes);
    },
  };

  #note(sizeBytes: number): void {
    this.#now += this.readMs;
    if (this.isBroken) throw new Error('EIO, as the test wants it');
    this.count += 1;
    this.bytes += sizeBytes;
  }

  /** Advances the clock, and runs callbacks that are due. */
  pass(ms: number): void {
    this.#now += ms;
    for (const [callback, dueAt] of [...this.#waits]) {
      if (dueAt > this.#now) continue;
      this.#waits.delete(callback);
      callback();
    }
  }

  /** Whether a callback is pending. */
  get isWaiting(): boolean {
    return this.#waits.size > 0;
  }
}
