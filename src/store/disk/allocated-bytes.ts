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

/** What a body in the index takes, in bytes. Small bodies share pages, which may be half empty. */
export function inlineBytes(sizeBytes: number): number {
  return Math.min(wholePages(sizeBytes), 2 * sizeBytes);
}

/** What a body in files takes of which so many blocks were written, in bytes. The holes between them take nothing. */
export function fileBytes(sizeBytes: number, writtenBlocks: number, blockSizeBytes: number): number {
  const body = Math.min(wholePages(sizeBytes), writtenBlocks * wholePages(blockSizeBytes));
  return body + wholePages(sumsSizeBytes(Math.ceil(sizeBytes / blockSizeBytes)));
}

function wholePages(bytes: number): number {
  return Math.ceil(bytes / pageBytes) * pageBytes;
}
