/** Bytes at any offset out of blocks. */

import type { BlockSource } from '../store/store.ts';

/** The part of a block that lies in `[offset, end)`, without a copy. */
export function sliceOfBlock(
  block: Uint8Array,
  index: number,
  blockSizeBytes: number,
  offset: number,
  end: number,
): Uint8Array {
  const blockStart = index * blockSizeBytes;
  if (offset === blockStart && end >= blockStart + block.length) return block;
  return block.subarray(offset - blockStart, Math.min(end - blockStart, block.length));
}

/** Bytes from `offset` on that a source has in memory, at most to the end of their block. */
export function peekBytes(
  source: Pick<BlockSource, 'peekBlock'>,
  blockSizeBytes: number,
  offset: number,
  end: number,
): Uint8Array | undefined {
  const index = Math.floor(offset / blockSizeBytes);
  const block = source.peekBlock(index);
  return block === undefined ? undefined : sliceOfBlock(block, index, blockSizeBytes, offset, end);
}
