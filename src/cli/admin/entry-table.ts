/** Stored entries as the lines of a table for people. */

import type { EntryStatus } from '../../admin/operations.ts';
import { duration, printable, sizeText } from '../text-sections.ts';

/** Widths of the columns before the URI, which are told before all rows are known. */
const WIDTHS = [8, 8, 7, 12] as const;

/** The names of the columns. */
export function formatTableHead(): string {
  return formatRow(['SIZE', 'PRESENT', 'STATUS', 'AGE'], 'URI');
}

/** The line of an entry; `presentBytes` is undefined where that is not known any more. `now` is in epoch milliseconds. */
export function formatEntry(entry: EntryStatus, presentBytes: number | undefined, now: number): string {
  const { sizeBytes, status, responseAt, uri, tags, isInvalid, pinnedUntil } = entry;
  const age = duration(Math.max(0, now - responseAt));
  const notes = [
    ...(isInvalid ? ['to be validated'] : []),
    ...(pinnedUntil === undefined ? [] : ['replaced']),
    ...(tags.length === 0 ? [] : [`tags ${tags.join(' ')}`]),
  ];
  const present = presentText(entry, presentBytes);
  const told = notes.length === 0 ? '' : `  (${notes.join(', ')})`;
  return formatRow([sizeText(sizeBytes), present, String(status), age], `${uri}${told}`);
}

/** Never "100%" of what is not whole, nor "0%" of what has begun. */
function presentText({ isComplete, sizeBytes }: EntryStatus, presentBytes: number | undefined): string {
  if (isComplete) return 'all';
  if (presentBytes === undefined || sizeBytes === 0) return '?';
  const percent = Math.floor((100 * presentBytes) / sizeBytes);
  return presentBytes > 0 && percent === 0 ? '<1%' : `${percent}%`;
}

function formatRow(cells: readonly string[], rest: string): string {
  const padded = cells.map((cell, index) => cell.padEnd(WIDTHS[index] ?? 0));
  return `${printable(`${padded.join('  ')}  ${rest}`.replaceAll('\n', ' '))}\n`;
}
