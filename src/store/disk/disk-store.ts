/** A store on disk. */

import type { Emit } from '../../telemetry/events.ts';
import type { Store } from '../store.ts';

/** What a disk store is opened with. */
export interface DiskStoreOptions {
  readonly dir: string;
  readonly maxSizeBytes: number;
  readonly blockSizeBytes: number;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly randomId: () => string;
  readonly emit: Emit;
}

/** Opens the store in a directory. Throws `StoreFault`. */
export async function openDiskStore(_options: DiskStoreOptions): Promise<Store> {
  throw new Error('not yet');
}
