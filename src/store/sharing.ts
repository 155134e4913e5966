/** How a process shares a store's directory with others. */

import type { TellChange } from './store-change.ts';

/** One of several processes that share a directory, all of them started by the one that has locked it. */
export interface Sharing {
  /** Names this process among all that there were; of letters and digits. What it begins to write has names that end so. */
  readonly instance: string;
  /** Whether no other process has the store open yet: then what earlier ones have left is swept. */
  readonly isFirst: boolean;
  /** Processes that died with the store open: what they were writing is given up. */
  readonly fallen: readonly string[];
  /** Tells the others what has changed. */
  readonly tell: TellChange;
}
