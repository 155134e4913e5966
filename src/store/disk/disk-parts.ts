/** The parts that a disk store is made of, as its entries and writers see them. */

import type { BodyFiles } from './body-files.ts';
import type { ChangeNews } from './change-news.ts';
import type { DiskIndex } from './disk-index.ts';
import type { DiskSpace } from './disk-space.ts';
import type { Eviction } from './eviction.ts';
import type { OpenBodies } from './open-bodies.ts';
import type { QuickReads } from './quick-reads.ts';
import type { StoringSwitch } from './storing-switch.ts';

/** What entries and writers work with. */
export interface DiskParts {
  readonly blockSizeBytes: number;
  readonly maxEntryBytes: number;
  readonly index: DiskIndex;
  readonly eviction: Eviction;
  readonly files: BodyFiles;
  readonly bodies: OpenBodies;
  readonly quickReads: QuickReads | undefined;
  readonly space: DiskSpace;
  /** How far the row of a generation that is being written counts ahead of what is on the disk, in bytes. */
  readonly stepBytes: number;
  readonly storing: StoringSwitch;
  readonly news: ChangeNews;
}
