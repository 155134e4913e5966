/** What becomes of an earlier generation in the index when a new one takes its place: it is pinned, or goes. */

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

const nothing: PinChange = { pinned: [], deleted: [] };

/**
 * Makes the place of a generation free, within a change: pins the current generation of it if it is another one and
 * complete and that is wanted, and deletes it otherwise; deletes what is pinned too many.
 */
export function makePlace(statements: IndexStatements, place: EntryPlace, pinning: Pinning): PinChange {
  const { currentOfVariant, deleteCurrent } = statements;
  const row = currentOfVariant.get(place.key, place.variant);
  if (row === undefined) return nothing;
  const { pinned, deleted } = pinCurrent(statements, place, pinning, row);
  return { pinned, deleted: [...deleted, ...deleteCurrent.all(place.key, place.variant)] };
}

function pinCurrent(
  { updatePin, superfluousPins, deleteGeneration }: IndexStatements,
  { key, variant, generation }: EntryPlace,
  { pinnedUntil, now, isFit }: Pinning,
  row: Row,
): PinChange {
  const current = pinnedUntil === undefined ? undefined : parseRow(row, key);
  if (
    pinnedUntil === undefined ||
    current?.isComplete !== true ||
    current.generation === generation ||
    !isFit(current)
  ) {
    return nothing;
  }
  updatePin.run(pinnedUntil, rowSum(current, String(row.metadata), pinnedUntil), current.generation);
  const superfluous = superfluousPins.all(key, variant, now, maxPins);
  return {
    pinned: [current],
    deleted: superfluous.flatMap((pin) => deleteGeneration.all(String(pin.generation))),
  };
}
