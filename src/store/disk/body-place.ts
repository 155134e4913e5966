/** Where a body is kept on the disk, and what it takes there. */

import { fileBytes, inlineBytes, inlineMaxBytes, loneBytes, loneMaxBytes } from './allocated-bytes.ts';

/**
 * In its row; alone in a file, which is written at once, its checksum in its row; or block by block in a file with a
 * sidecar beside it.
 */
export type BodyPlace = 'inline' | 'lone' | 'files';

/**
 * Where a body of so many bytes belongs, of which it may be known that there are no more. One of a whole block may become
 * longer where that is not known, and is not to be held in memory until then.
 */
export function placeOf(sizeBytes: number, isWhole: boolean, blockSizeBytes: number): BodyPlace {
  if (sizeBytes <= inlineMaxBytes) return 'inline';
  const isOneBlock = sizeBytes < blockSizeBytes || (sizeBytes === blockSizeBytes && isWhole);
  return isOneBlock && sizeBytes <= loneMaxBytes ? 'lone' : 'files';
}

/** What a body takes in its place, of which so many blocks were written, in bytes. */
export function bodyBytes(place: BodyPlace, sizeBytes: number, writtenBlocks: number, blockSizeBytes: number): number {
  if (place === 'inline') return inlineBytes(sizeBytes);
  return place === 'lone' ? loneBytes(sizeBytes) : fileBytes(sizeBytes, writtenBlocks, blockSizeBytes);
}
