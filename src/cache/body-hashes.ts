/** The hashes of a body whose blocks come in any order. */

import { createHash, type Hash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import type { Digest } from '../semantics/digest.ts';

/** How many blocks are hashed before others have their turn. */
const BLOCKS_IN_A_TURN = 16;

type HashAlgorithm = Digest['algorithm'];

/** Hashes blocks as they come, as long as they come in order; the others are read again at the end. */
export class BodyHashes {
  readonly #hashes: ReadonlyMap<HashAlgorithm, Hash>;
  #next = 0;
  #results: ReadonlyMap<HashAlgorithm, string> | undefined;

  constructor(algorithms: Iterable<HashAlgorithm>) {
    this.#hashes = new Map([...algorithms].map((algorithm) => [algorithm, createHash(algorithm)]));
  }

  /** How many blocks have come in order. */
  get count(): number {
    return this.#next;
  }

  /** Takes note of a block. */
  add(index: number, bytes: Uint8Array): void {
    if (index !== this.#next) return;
    for (const hash of this.#hashes.values()) hash.update(bytes);
    this.#next += 1;
  }

  /**
   * The hashes of `blockCount` blocks, hexadecimal; those that did not come in order are read. To be called until
   * it resolves, by several at once if they like, and nothing added after that. Rejects as `readBlock` does.
   */
  async finish(
    blockCount: number,
    readBlock: (index: number) => Promise<Uint8Array>,
  ): Promise<ReadonlyMap<HashAlgorithm, string>> {
    while (this.#hashes.size > 0 && this.#next < blockCount) {
      this.add(this.#next, await readBlock(this.#next));
      // Blocks in memory come without a pause, and others want their turn.
      if (this.#next % BLOCKS_IN_A_TURN === 0) await setImmediate();
    }
    this.#results ??= new Map([...this.#hashes].map(([algorithm, hash]) => [algorithm, hash.digest('hex')]));
    return this.#results;
  }
}
