/** Reads in the same tick for tests: of the real file system, by a clock that stands still unless a test moves it. */

import { readSync } from 'node:fs';
import { readFileInto } from '../../../src/setup/store.ts';
import type { ReadSync } from '../../../src/store/disk/bodies/file-system.ts';
import type { QuickReadOptions } from '../../../src/store/disk/bodies/synchronous-io.ts';

/** What a test steers and counts. */
export class SteeredReads {
  /** How long each read takes, in milliseconds. */
  readMs = 0;
  /** Whether reads fail. */
  isBroken = false;
  /** What the system counts of reads from a disk. */
  diskReads = 0;
  /** How many reads were made, and of how many bytes. */
  count = 0;
  bytes = 0;
  /** What is waited for, and when it is due. */
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

  /** Lets so many milliseconds pass. */
  pass(ms: number): void {
    this.#now += ms;
    for (const [callback, dueAt] of [...this.#waits]) {
      if (dueAt > this.#now) continue;
      this.#waits.delete(callback);
      callback();
    }
  }

  /** Whether something is waited for. */
  get isWaiting(): boolean {
    return this.#waits.size > 0;
  }
}
