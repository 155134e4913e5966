/** What a disk store is opened with. */

import type { Emit } from '../../telemetry/events.ts';
import type { Sharing } from '../sharing.ts';
import type { FileSystem } from './file-system.ts';
import type { QuickReadOptions } from './quick-reads.ts';
import type { QuickWriteOptions } from './quick-writes.ts';

/** What a disk store is opened with. */
export interface DiskStoreOptions {
  /** The store's own directory; it is created where it does not exist. */
  readonly dir: string;
  /** The bound of what entries take on the disk, in bytes; readers may hold evicted files a little longer. */
  readonly maxSizeBytes: number;
  readonly blockSizeBytes: number;
  /** The largest body that is taken, in bytes; half of the store unless something else is said. */
  readonly maxEntryBytes?: number | undefined;
  /** When the bound is passed, entries leave until so much of it is in use, in percent; 95 unless something else is said. */
  readonly lowWaterPercent?: number | undefined;
  /** The store does not grow while less of the disk is free, in bytes; 32 MiB, or a quarter of a smaller disk, by default. */
  readonly minFreeBytes?: number | undefined;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Gives a name that was never given before, of letters, digits, `-` and `_`, such as a UUID. */
  readonly randomId: () => string;
  readonly emit: Emit;
  /** How other processes have the directory too; without it the store is locked for this one. */
  readonly sharing?: Sharing | undefined;
  /** Where bodies are written; `node:fs/promises` unless something else is put in its place. */
  readonly fileSystem?: FileSystem;
  /** How pieces of bodies are read in the same tick where that is quick; without it all is read by the thread pool. */
  readonly quickReads?: QuickReadOptions | undefined;
  /** How bodies of one block are written in the same tick where that is quick; without it the thread pool writes them. */
  readonly quickWrites?: QuickWriteOptions | undefined;
}
