/** The blocks of a tiered store: in memory, or read from the store below, and which of them are worth their room in memory. */

import type { MemoryTier } from './memory/memory-tier.ts';
import { RecentTouches } from './memory/recent-touches.ts';
import type { BlockSource } from './store.ts';

/** A block of which pieces were read so often lately is brought into memory, though another one has to leave for it. */
const wantedTouches = 4;
/** So often where there is room for it: what is read once had better not be read a second time for nothing. */
const wantedTouchesWithRoom = 2;
/** Touches count as recent at least for so many others, however few blocks are in memory. */
const minWindow = 4096;
/** What is no larger is kept whenever it is written, in bytes. */
const smallBytes = 32 * 1024;
/** While so many blocks are being read, none is brought besides. */
const broughtAtOnce = 4;

/** A number for a block, which others may have too. */
function placeNumber(generation: string, index: number): number {
  let number = index;
  for (let at = Math.max(0, generation.length - 6); at < generation.length; at += 1) {
    number = (Math.imul(number, 31) + generation.charCodeAt(at)) | 0;
  }
  return number;
}

/** Blocks in memory, and those that are being read into it: many who want one at once cause one read below. */
export class TieredBlocks {
  readonly #memory: MemoryTier;
  readonly #reading = new Map<string, Promise<Uint8Array>>();
  readonly #touches = new RecentTouches();

  constructor(memory: MemoryTier) {
    this.#memory = memory;
  }

  /** The store below is asked first, for this is how it learns that the entry is in use. */
  peek(generation: string, below: Pick<BlockSource, 'peekBlock'>, index: number): Uint8Array | undefined {
    return below.peekBlock(index) ?? this.#memory.block(generation, index);
  }

  /**
   * As `peek`, of an entry that was opened: what it has at hand by then, as a body in its row, is kept, so that it need not be
   * opened for it again.
   */
  peekOpened(generation: string, opened: Pick<BlockSource, 'peekBlock'>, index: number): Uint8Array | undefined {
    const kept = this.#memory.block(generation, index);
    if (kept !== undefined) return kept;
    const bytes = opened.peekBlock(index);
    if (bytes !== undefined) this.#memory.keepBlock(generation, index, bytes);
    return bytes;
  }

  /**
   * Whether a block of which a piece was just read below is wanted so often that it had better be in memory: as often,
   * while as many others were touched as there are in memory, as chance alone hardly ever makes it; or twice, as long as no
   * other block has to leave for it.
   */
  isWanted(generation: string, index: number, blockSizeBytes: number): boolean {
    const hasRoom = this.#memory.hasRoomFor(blockSizeBytes);
    const windowSize = hasRoom ? Math.max(minWindow, this.#memory.blockCount) : this.#memory.blockCount;
    const touches = this.#touches.touch(placeNumber(generation, index), windowSize);
    return touches >= (hasRoom ? wantedTouchesWithRoom : wantedTouches) && this.#reading.size < broughtAtOnce;
  }

  /**
   * Keeps a block that was just written, for those who read along. Not what the writer has at hand for them anyway, as a body of
   * one block, unless it is small: most of these are never asked for again, and fresh memory for each costs more than to read
   * those that are.
   */
  keepWritten(generation: string, writer: Pick<BlockSource, 'peekBlock'>, index: number, bytes: Uint8Array): void {
    if (bytes.length <= smallBytes || writer.peekBlock(index) === undefined) {
      this.#memory.keepBlock(generation, index, bytes);
    }
  }

  /** As `keepWritten`, of a body of one block that is written at once. */
  keepSmall(generation: string, index: number, bytes: Uint8Array): void {
    if (bytes.length <= smallBytes) this.#memory.keepBlock(generation, index, bytes);
  }

  /** A block, which is in memory from then on. */
  read(generation: string, below: BlockSource, index: number): Promise<Uint8Array> {
    return this.#read(generation, below, index, true);
  }

  /** As `read`, for a reader that comes by: what is read for the first time lately pushes nothing out of memory. */
  readInPassing(generation: string, below: BlockSource, index: number): Promise<Uint8Array> {
    const touches = this.#touches.touch(placeNumber(generation, index), this.#memory.blockCount);
    return this.#read(generation, below, index, touches > 1);
  }

  async #read(generation: string, below: BlockSource, index: number, isWanted: boolean): Promise<Uint8Array> {
    const kept = this.peek(generation, below, index);
    if (kept !== undefined) return kept;
    const place = `${generation}/${index}`;
    return this.#reading.get(place) ?? this.#readBelow(place, generation, below, index, isWanted);
  }

  async #readBelow(
    place: string,
    generation: string,
    below: BlockSource,
    index: number,
    isWanted: boolean,
  ): Promise<Uint8Array> {
    const reading = below.readBlock(index);
    this.#reading.set(place, reading);
    try {
      const bytes = await reading;
      if (isWanted || this.#memory.hasRoomFor(bytes.length)) this.#memory.keepBlock(generation, index, bytes);
      return bytes;
    } finally {
      this.#reading.delete(place);
    }
  }
}
