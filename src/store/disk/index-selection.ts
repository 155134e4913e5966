/** The rows of the index that are chosen by a prefix or a tag, a few at a time. */

import { formatCursor, isPrefixOf, parseCursor } from '../entry-page.ts';
import type { EntryChoice } from '../store.ts';
import type { EntryPlace, IndexedEntry } from './index-row.ts';
import type { IndexStatements, Row } from './index-statements.ts';

/** Some of the chosen rows, and where those after them begin; undefined for the latter when there are no more. */
export interface ChosenRows {
  readonly rows: readonly Row[];
  readonly next: string | undefined;
}

/**
 * The next rows after a place, or the first ones. Those with a prefix stand side by side in the order of keys, beginning
 * with the prefix itself. Throws `RangeError` when the place is none of this choice.
 */
export function selectRows(
  { entriesFrom, taggedEntries }: IndexStatements,
  choice: EntryChoice,
  limit: number,
  after: string | undefined,
): ChosenRows {
  if (choice.kind === 'tag') {
    const [row] = after === undefined ? [0] : parseCursor(after, [0] as const);
    const rows = taggedEntries.all(choice.tag, row, limit);
    return { rows, next: rows.length < limit ? undefined : formatCursor([Number(rows.at(-1)?.id)]) };
  }
  const { prefix } = choice;
  const first = ['', '', 0] as const;
  const place =
    after === undefined ? ([prefix, '', 0] as const) : parseCursor<readonly [string, string, number]>(after, first);
  const rows = entriesFrom.all(...place, limit);
  const chosen = rows.filter((row) => isPrefixOf(prefix, String(row.key)));
  const last = rows.at(-1);
  const isEnd = rows.length < limit || chosen.length < rows.length || last === undefined;
  return {
    rows: chosen,
    next: isEnd ? undefined : formatCursor([String(last.key), String(last.variant), Number(last.id)]),
  };
}

/** Whether an entry is chosen. SQLite cannot tell texts apart that differ in lone surrogates only. */
export function isChosen(choice: EntryChoice, { key, metadata }: EntryPlace & Pick<IndexedEntry, 'metadata'>): boolean {
  return choice.kind === 'tag' ? metadata.tags?.includes(choice.tag) === true : isPrefixOf(choice.prefix, key);
}
