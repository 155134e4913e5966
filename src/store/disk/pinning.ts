/** Pins an earlier generation in the index when a new one takes its place. */

import { maxPins } from '../pins.ts';
import { type EntryPlace, type IndexedEntry, parseRow, rowSum } from './index-row.ts';
import type { IndexStatements, Row } from './index-statements.ts';

/** What pinning has done: the generations that are pinned now, and the rows that had to go for them. */
export interface PinChange {
  readonly pinned: readonly { readonly generation: string }[];
  readonly deleted: readonly Row[];
}

/** What there is to pin, and until when, in epoch milliseconds. */
export interface Pinning {
  readonly pinnedUntil: number | undefined;
  readonly now: number;
  /** Whether a generation may be pinned although its row does not say otherwise. */
  readonly isFit: (entry: IndexedEntry) => boolean;
}

/**
 * Pins the current generation of a place, within a change, if it is another one and complete and that is wanted; deletes
 * what is pinned too many.
 */
export function pinCurrent(
  { currentOfVariant, updatePin, superfluousPins, deleteGeneration }: IndexStatements,
  { key, variant, generation }: EntryPlace,
  { pinnedUntil, now, isFit }: Pinning,
): PinChange {
  const row = pinnedUntil === undefined ? undefined : currentOfVariant.get(key, variant);
  const current = row && parseRow(row, key);
  if (
    pinnedUntil === undefined ||
    current?.isComplete !== true ||
    current.generation === generation ||
    !isFit(current)
  ) {
    return { pinned: [], deleted: [] };
  }
  updatePin.run(pinnedUntil, rowSum(current, String(row?.metadata), pinnedUntil), current.generation);
  const superfluous = superfluousPins.all(key, variant, now, maxPins);
  return {
    pinned: [current],
    deleted: superfluous.flatMap((pin) => deleteGeneration.all(String(pin.generation))),
  };
}
