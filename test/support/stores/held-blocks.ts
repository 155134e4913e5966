/** A block source whose reads a test completes, with a record of the reads. */

import { ProxyError } from '../../../src/http/proxy-error.ts';
import type { BlockSource } from '../../../src/store/store.ts';

/** A block source. Every read waits until the test lets it succeed or fail. */
export class HeldBlocks implements BlockSource {
  /** The block indexes of all reads, in order. */
  readonly asked: number[] = [];
  readonly #blockOf: (index: number) => Uint8Array;
  readonly #inMemory: ReadonlySet<number>;
  readonly #waiting = new Map<number, PromiseWithResolvers<Uint8Array>[]>();

  constructor(blockOf: (index: number) => Uint8Array, inMemory: Iterable<number> = []) {
    this.#blockOf = blockOf;
    this.#inMemory = new Set(inMemory);
  }

  peekBlock(index: number): Uint8Array | undefined {
    return this.#inMemory.has(index) ? this.#blockOf(index) : undefined;
  }

  readBlock(index: number): Promise<Uint8Array> {
    this.asked.push(index);
    const reading = Promise.withResolvers<Uint8Array>();
    this.#waiting.set(index, [...(this.#waiting.get(index) ?? []), reading]);
    return reading.promise;
  }

  /** The indexes of blocks with pending reads. */
  get waiting(): number[] {
    return [...this.#waiting.keys()];
  }

  /** Lets all pending reads of a block succeed, and waits a turn of the event loop. */
  async give(index: number): Promise<void> {
    for (const reading of this.#taken(index)) reading.resolve(this.#blockOf(index));
    await new Promise(setImmediate);
  }

  /** Lets all pending reads of a block fail, and waits a turn of the event loop. */
  async lose(index: number): Promise<void> {
    for (const reading of this.#taken(index))
      reading.reject(new ProxyError('bytes_gone', { detail: `block ${index}` }));
    await new Promise(setImmediate);
  }

  #taken(index: number): PromiseWithResolvers<Uint8Array>[] {
    const readings = this.#waiting.get(index);
    if (readings === undefined) throw new Error(`no pending read of block ${index}; asked: ${this.asked.join(', ')}`);
    this.#waiting.delete(index);
    return readings;
  }
}
