/** The blocks that a tier has in memory: found by generation and index, bounded in bytes, and left by SIEVE (see `sieve.ts`). */

import { blockWeight } from './memory-size.ts';

interface KeptBlock {
  readonly body: KeptBody;
  readonly index: number;
  readonly bytes: Uint8Array;
  /** Whether it was used since the hand last passed it. */
  isUsed: boolean;
  newer: KeptBlock | undefined;
  older: KeptBlock | undefined;
}

interface KeptBody {
  readonly generation: string;
  readonly blocks: Map<number, KeptBlock>;
}

/**
 * Blocks in memory. A use of one sets a bit of it and moves nothing, for it is what every hit does with every block; and
 * blocks that are read once, as a download of a large file does, leave before those that are used again.
 */
export class KeptBlocks {
  #maxSizeBytes: number;
  readonly #bodies = new Map<string, KeptBody>();
  #newest: KeptBlock | undefined;
  #oldest: KeptBlock | undefined;
  /** The next to be looked at when room is needed; the oldest one where there is none. */
  #hand: KeptBlock | undefined;
  #sizeBytes = 0;
  #count = 0;

  constructor(maxSizeBytes: number) {
    this.#maxSizeBytes = maxSizeBytes;
  }

  /** From now on they take at most so many bytes; those that are too many leave. */
  limit(maxSizeBytes: number): void {
    this.#maxSizeBytes = maxSizeBytes;
    while (this.#sizeBytes > maxSizeBytes) this.#evict();
  }

  /** What they take, in bytes. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** How many there are. */
  get count(): number {
    return this.#count;
  }

  /** Whether a block of so many bytes can be kept without another one having to leave. */
  hasRoomFor(sizeBytes: number): boolean {
    return this.#sizeBytes + blockWeight(sizeBytes) <= this.#maxSizeBytes;
  }

  /** A block; counts as its use. */
  get(generation: string, index: number): Uint8Array | undefined {
    const block = this.#bodies.get(generation)?.blocks.get(index);
    if (block === undefined) return undefined;
    block.isUsed = true;
    return block.bytes;
  }

  /** Keeps a block, in place of an earlier one. One that is larger than all the room is not kept. */
  keep(generation: string, index: number, bytes: Uint8Array): void {
    const earlier = this.#bodies.get(generation)?.blocks.get(index);
    if (earlier !== undefined) this.#remove(earlier);
    const weight = blockWeight(bytes.length);
    if (weight > this.#maxSizeBytes) return;
    while (this.#sizeBytes + weight > this.#maxSizeBytes) this.#evict();
    const body = this.#bodies.get(generation) ?? { generation, blocks: new Map<number, KeptBlock>() };
    this.#bodies.set(generation, body);
    const block: KeptBlock = { body, index, bytes, isUsed: false, newer: undefined, older: this.#newest };
    body.blocks.set(index, block);
    if (this.#newest !== undefined) this.#newest.newer = block;
    this.#newest = block;
    this.#oldest ??= block;
    this.#sizeBytes += weight;
    this.#count += 1;
  }

  /** Forgets everything. */
  clear(): void {
    this.#bodies.clear();
    this.#newest = undefined;
    this.#oldest = undefined;
    this.#hand = undefined;
    this.#sizeBytes = 0;
    this.#count = 0;
  }

  /** Moves the hand on to the first block that was not used since it came by, which leaves. */
  #evict(): void {
    let block = this.#hand ?? this.#oldest;
    while (block?.isUsed === true) {
      block.isUsed = false;
      block = block.newer ?? this.#oldest;
    }
    this.#hand = block;
    if (block !== undefined) this.#remove(block);
  }

  #remove(block: KeptBlock): void {
    const { body, index, bytes, newer, older } = block;
    if (this.#hand === block) this.#hand = newer;
    if (newer === undefined) this.#newest = older;
    else newer.older = older;
    if (older === undefined) this.#oldest = newer;
    else older.newer = newer;
    // What is gone must not hold on to what came after it: the collector takes it for alive for a while.
    block.newer = undefined;
    block.older = undefined;
    body.blocks.delete(index);
    if (body.blocks.size === 0) this.#bodies.delete(body.generation);
    this.#sizeBytes -= blockWeight(bytes.length);
    this.#count -= 1;
  }
}
