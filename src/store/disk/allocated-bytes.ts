/** What an entry takes on the disk: whole pages of its files or of the index, and its rows. */

import { sumsSizeBytes } from './block-sums.ts';

/** Bodies up to this size are kept in the index: one look-up instead of two files. */
export const inlineMaxBytes = 32 * 1024;

/** Larger bodies up to this size, if they are one block, are kept in a file without a sidecar, written at once. */
export const loneMaxBytes = 256 * 1024;

/** File systems and SQLite give out whole pages of this size. */
const pageBytes = 4096;
/** A row's numbers, its checksum, and its place in four B-trees. */
const rowOverheadBytes = 512;
/** A tag's place in two B-trees. */
const tagOverheadBytes = 32;

/**
 * What the rows of an entry take, in bytes; its metadata as the row holds it. Its key and variant are in an index of the
 * table too, and each tag twice.
 */
export function rowBytes(key: string, variant: string, metadata: string, tags: readonly string[] = []): number {
  const tagBytes = tags.reduce((sum, tag) => sum + tagOverheadBytes + 2 * tag.length, 0);
  return rowOverheadBytes + 2 * (key.length + variant.length) + metadata.length + tagBytes;
}

/** What a body in the index takes, in bytes. Small bodies share pages, which may be half empty. */
export function inlineBytes(sizeBytes: number): number {
  return Math.min(wholePages(sizeBytes), 2 * sizeBytes);
}

/** What a body in a file without a sidecar takes, in bytes. */
export function loneBytes(sizeBytes: number): number {
  return wholePages(sizeBytes);
}

/** What a body in files takes of which so many blocks were written, in bytes. The holes between them take nothing. */
export function fileBytes(sizeBytes: number, writtenBlocks: number, blockSizeBytes: number): number {
  const body = Math.min(wholePages(sizeBytes), writtenBlocks * wholePages(blockSizeBytes));
  return body + wholePages(sumsSizeBytes(Math.ceil(sizeBytes / blockSizeBytes)));
}

function wholePages(bytes: number): number {
  return Math.ceil(bytes / pageBytes) * pageBytes;
}
