/** What an entry takes on the disk: whole pages of its files or of the index, and its row. */

import { sumsSizeBytes } from './block-sums.ts';

/** Bodies up to this size are kept in the index: one look-up instead of two files. */
export const inlineMaxBytes = 32 * 1024;

/** File systems and SQLite give out whole pages of this size. */
const pageBytes = 4096;
/** A row's numbers, its checksum, and its place in four B-trees. */
const rowOverheadBytes = 512;

/** What a row takes, in bytes; its key and variant are in an index of the table too. */
export function rowBytes(key: string, variant: string, metadata: string): number {
  return rowOverheadBytes + 2 * (key.length + variant.length) + metadata.length;
}

/** What a body takes, in bytes. */
export function bodyBytes(sizeBytes: number, blockSizeBytes: number): number {
  // Small bodies share pages, which may be half empty.
  if (sizeBytes <= inlineMaxBytes) return Math.min(wholePages(sizeBytes), 2 * sizeBytes);
  return wholePages(sizeBytes) + wholePages(sumsSizeBytes(Math.ceil(sizeBytes / blockSizeBytes)));
}

function wholePages(bytes: number): number {
  return Math.ceil(bytes / pageBytes) * pageBytes;
}
