/** How long a generation is, and whether all of it is there and is what its digest tells. */

import { ProxyError } from '../http/proxy-error.ts';
import type { BlockKeeper } from './block-keeper.ts';
import type { BodyCheck } from './body-check.ts';
import type { Arrived } from './fill.ts';

/** What a generation has to be whole of. */
export interface WholenessOptions {
  readonly blockSizeBytes: number;
  /** Undefined while it is not known. */
  readonly sizeBytes: number | undefined;
  readonly keeper: BlockKeeper;
  readonly check: BodyCheck;
}

/** Of one generation. */
export class Wholeness {
  readonly #options: WholenessOptions;
  #sizeBytes: number | undefined;

  constructor(options: WholenessOptions) {
    this.#options = options;
    this.#sizeBytes = options.sizeBytes;
  }

  get sizeBytes(): number | undefined {
    return this.#sizeBytes;
  }

  /** The last block cannot be read before the whole is verified: who has all but that sees that the rest is missing. */
  get isWithheld(): boolean {
    const { check, keeper } = this.#options;
    if (!check.isVerifying || this.#sizeBytes === undefined) return false;
    return this.#blockCount(this.#sizeBytes) - keeper.present.size <= 1;
  }

  /**
   * Takes a block that has come, before it is kept. Gives a promise where all is there with it and is to be verified, which is
   * rejected with `ProxyError` where it is not what its digest tells.
   */
  add(block: Arrived): Promise<unknown> | undefined {
    const { check, keeper } = this.#options;
    check.add(block.index, block.bytes);
    if (!check.isVerifying || this.#sizeBytes === undefined) return undefined;
    const count = this.#blockCount(this.#sizeBytes);
    return this.#isLast(block.index, count) ? keeper.verify(check, count, block) : undefined;
  }

  /** A transfer has come to its end, at `frontier`. Throws `ProxyError`: `generation_changed`, or as `add` does. */
  async settle(frontier: number): Promise<{ readonly sizeBytes: number; readonly isWhole: boolean }> {
    const { check, keeper } = this.#options;
    const sizeBytes = this.#sizeBytes ?? this.#endAt(frontier);
    const isDue = keeper.isWhole(sizeBytes) || this.#sizeBytes === undefined;
    const isVerified = isDue && (await keeper.verify(check, this.#blockCount(sizeBytes)));
    this.#sizeBytes = sizeBytes;
    return { sizeBytes, isWhole: isVerified && keeper.isWhole(sizeBytes) };
  }

  /** The length that a body without a stated one turns out to have. */
  #endAt(frontier: number): number {
    if (this.#options.keeper.present.firstAfter(this.#blockCount(frontier) - 1) === undefined) return frontier;
    throw new ProxyError('generation_changed', { detail: 'fewer bytes' });
  }

  #blockCount(sizeBytes: number): number {
    return Math.ceil(sizeBytes / this.#options.blockSizeBytes);
  }

  /** Whether everything is there once this block is. */
  #isLast(index: number, count: number): boolean {
    const { check, keeper } = this.#options;
    const missing = count - keeper.present.size;
    return (missing === 1 && !keeper.present.has(index)) || missing === 0 || check.hasAll(count);
  }
}
