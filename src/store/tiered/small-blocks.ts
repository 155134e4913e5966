/**
 * Memory for small blocks: several share one buffer (a slab), because a buffer of its own costs some 350 bytes besides the content.
 * Bytes in a slab are never overwritten, so that what was returned stays right for as long as it is used. The room of removed
 * blocks is freed by moving the others of their slab to another one.
 */

/** Blocks up to this size, in bytes, are kept in slabs. For larger ones a buffer of their own costs relatively little. */
export const smallBlockBytes = 4096;
/** Size of a slab, in bytes. */
const slabBytes = 64 * 1024;
/** The least that a block takes of a slab, in bytes: it bounds how many blocks are moved at a time. */
const leastRoomBytes = 64;
/** The share of a slab that removed blocks may take before the others are moved. */
const deadShare = 1 / 4;

/** The place of a block. It changes when the block is moved, so only one object may refer to it: see `keep`. */
export interface SmallBlock {
  /** The memory of the block; undefined after its removal. */
  slab: Slab | undefined;
  offset: number;
  readonly sizeBytes: number;
}

/** One buffer, filled from its beginning. */
export interface Slab {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Number of bytes that have been filled, and how many of them belong to removed blocks. */
  usedBytes: number;
  deadBytes: number;
  /** All blocks that were put here; some may be elsewhere or removed by now. */
  readonly blocks: SmallBlock[];
}

/** Small blocks in slabs. At most about a quarter of the memory belongs to removed blocks. */
export class SmallBlocks {
  #current: Slab = emptySlab();

  /** Copies bytes, at most `smallBlockBytes`, into a slab, and notes the place in `block`, which must have none. */
  keep(block: SmallBlock, bytes: Uint8Array): void {
    const roomBytes = roomOf(block);
    if (this.#current.usedBytes + roomBytes > slabBytes) this.#current = emptySlab();
    const slab = this.#current;
    slab.bytes.set(bytes, slab.usedBytes);
    block.slab = slab;
    block.offset = slab.usedBytes;
    slab.usedBytes += roomBytes;
    slab.blocks.push(block);
  }

  /** Returns the bytes of a block that was not removed. They stay as they are when the block is moved or removed. */
  bytesOf({ slab, offset, sizeBytes }: SmallBlock): Uint8Array | undefined {
    return slab && new Uint8Array(slab.bytes.buffer, offset, sizeBytes);
  }

  /** Removes a block. */
  remove(block: SmallBlock): void {
    const { slab } = block;
    block.slab = undefined;
    if (slab === undefined) return;
    slab.deadBytes += roomOf(block);
    if (slab.deadBytes <= slabBytes * deadShare) return;
    if (slab === this.#current) this.#current = emptySlab();
    for (const other of slab.blocks) {
      if (other.slab !== slab) continue;
      this.keep(other, slab.bytes.subarray(other.offset, other.offset + other.sizeBytes));
    }
  }

  /** Forgets all blocks. */
  clear(): void {
    this.#current = emptySlab();
  }
}

/** The bytes of a slab that a block takes. */
function roomOf({ sizeBytes }: SmallBlock): number {
  return Math.max(sizeBytes, leastRoomBytes);
}

function emptySlab(): Slab {
  return { bytes: new Uint8Array(slabBytes), usedBytes: 0, deadBytes: 0, blocks: [] };
}
