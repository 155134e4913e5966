/** Bytes at any offset out of blocks. */

import type { Span } from '../bytes/span.ts';
import type { StoredEntry } from '../store/store.ts';

/** More bytes than these, where they are not in memory, are not read in the same tick: others wait for their turn. */
export const MAX_NOW_BYTES = 256 * 1024;

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

/** All bytes of a span, chunk by chunk from wherever `peek` has them; undefined where it has none of some. */
export function chunksOf(
  { start, end }: Span,
  peek: (offset: number, end: number) => Uint8Array | undefined,
): Uint8Array[] | undefined {
  const chunks: Uint8Array[] = [];
  for (let offset = start; offset < end; ) {
    const chunk = peek(offset, end);
    if (chunk === undefined) return undefined;
    chunks.push(chunk);
    offset += chunk.length;
  }
  return chunks;
}

/** All bytes of a span of an entry that can be had in the same tick; undefined where some of them cannot. */
export function bytesAtOnce(
  entry: Pick<StoredEntry, 'peekBlock' | 'readNow'>,
  blockSizeBytes: number,
  { start, end }: Span,
): readonly Uint8Array[] | undefined {
  const chunks: Uint8Array[] = [];
  for (let offset = start; offset < end; ) {
    const chunk = peekBytes(entry, blockSizeBytes, offset, end);
    if (chunk === undefined) return undefined;
    chunks.push(chunk);
    offset += chunk.length;
  }
  return chunks;
}

/** Bytes from `offset` on that this process has in memory, at most to the end of their block. */
export function peekKeptBytes(
  entry: Pick<StoredEntry, 'peekBlock'>,
  blockSizeBytes: number,
  offset: number,
  end: number,
): Uint8Array | undefined {
  const index = Math.floor(offset / blockSizeBytes);
  const block = entry.peekBlock(index);
  return block && sliceOfBlock(block, index, blockSizeBytes, offset, end);
}

/** Bytes from `offset` on that an entry has in the same tick, at most to the end of their block: in memory, or nearly so. */
export function peekBytes(
  entry: Pick<StoredEntry, 'peekBlock' | 'readNow'>,
  blockSizeBytes: number,
  offset: number,
  end: number,
): Uint8Array | undefined {
  const kept = peekKeptBytes(entry, blockSizeBytes, offset, end);
  return kept ?? (end - offset > MAX_NOW_BYTES ? undefined : entry.readNow?.(offset, end));
}
