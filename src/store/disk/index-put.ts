/** How an entry gets into the index, and other metadata: its row, its body where that is inline, and its tags. */

import type { StoredResponse } from '../../http/stored-response.ts';
import { pinInstant } from '../pins.ts';
import { removedFault } from '../store.ts';
import { rowBytes } from './allocated-bytes.ts';
import { blockSum } from './block-sums.ts';
import { replaceTags } from './entry-tags.ts';
import { type EntryPlace, encodeMetadata, type IndexedEntry, parseRow, rowSum } from './index-row.ts';
import type { IndexStatements } from './index-statements.ts';
import { makePlace, type PinChange, type Pinning } from './pinning.ts';

/** An entry that is to be put into the index. */
export interface PutEntry {
  readonly entry: Omit<IndexedEntry, 'pinnedUntil'>;
  /** Its metadata as the row holds it: see `encodeMetadata`. */
  readonly metadata: string;
  /** What it takes on the disk, in bytes. */
  readonly allocatedBytes: number;
  /** The body of one that is inline. */
  readonly body?: Uint8Array | undefined;
  /** Until when the one that it replaces is wanted, in epoch milliseconds. */
  readonly pinPreviousUntil?: number | undefined;
}

/** What decides what becomes of the generation that is replaced. `now` tells epoch milliseconds. */
interface PutContext extends Pick<Pinning, 'isFit'> {
  readonly now: () => number;
}

/** Puts an entry in place of the one of the same key and variant, within a change; tells what became of that one. */
export function putEntry(
  statements: IndexStatements,
  { entry, metadata, allocatedBytes, body, pinPreviousUntil }: PutEntry,
  { now, isFit }: PutContext,
): PinChange {
  const { key, variant, generation, sizeBytes, isInline, isComplete, blockChecksum = null } = entry;
  const pinning = { pinnedUntil: pinInstant(pinPreviousUntil, now), now: now(), isFit };
  const change = makePlace(statements, entry, pinning);
  const flags = [Number(isInline), Number(isComplete), rowSum(entry, metadata)];
  const columns = [key, variant, generation, metadata, sizeBytes, allocatedBytes, ...flags, now(), blockChecksum];
  const { lastInsertRowid } = statements.insertEntry.run(...columns);
  if (body !== undefined) statements.insertBody.run(lastInsertRowid, body, blockSum(generation, 0, body));
  for (const tag of entry.metadata.tags ?? []) statements.insertTag.run(tag, generation);
  return change;
}

/** Within a change: a generation must have a row and be the current one. Throws `StoreFault` `removed`. */
export function requireCurrent({ entryOfGeneration }: IndexStatements, generation: string): void {
  const row = entryOfGeneration.get(generation);
  if (row === undefined || row.pinned_until !== null) throw removedFault(generation);
}

/** Gives a generation other metadata, within a change, if it is still the current one. */
export function updateMetadata(
  statements: IndexStatements,
  { key, generation }: Pick<EntryPlace, 'key' | 'generation'>,
  metadata: StoredResponse,
): 'written' | 'gone' {
  const row = statements.entryOfGeneration.get(generation);
  const entry = row && parseRow(row, key);
  if (row === undefined || entry === undefined || entry.pinnedUntil !== undefined) return 'gone';
  const text = encodeMetadata(metadata);
  const earlierBytes = rowBytes(key, entry.variant, String(row.metadata), entry.metadata.tags);
  const growthBytes = rowBytes(key, entry.variant, text, metadata.tags) - earlierBytes;
  statements.updateMetadata.run(text, rowSum(entry, text), Number(row.allocated_bytes) + growthBytes, generation);
  replaceTags(statements, entry, metadata.tags);
  return 'written';
}
