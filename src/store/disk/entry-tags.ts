/** The tags of an entry in the index. */

import type { IndexedEntry } from './index-row.ts';
import type { IndexStatements } from './index-statements.ts';

/** Gives an entry these tags instead of its own, within a change; where they are the same, nothing is written. */
export function replaceTags(
  { deleteTags, insertTag }: IndexStatements,
  { generation, metadata: { tags: earlier = [] } }: IndexedEntry,
  tags: readonly string[] = [],
): void {
  if (tags.length === earlier.length && tags.every((tag, at) => tag === earlier[at])) return;
  if (earlier.length > 0) deleteTags.run(generation);
  for (const tag of tags) insertTag.run(tag, generation);
}
