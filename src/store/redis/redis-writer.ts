/** Writes one generation into the engine. Its blocks are there at once; its record comes with `publish` and `commit`. */

import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import { BlockPlan, pinInstant } from '../entry-rules.ts';
import { type EntryWriter, type FinalEntry, removedFault, type StoredEntry, StoreFault } from '../store.ts';
import type { RedisBodies } from './redis-bodies.ts';

/** What a writer puts into the engine. */
export interface PutGeneration {
  readonly generation: string;
  readonly metadata: StoredResponse;
  readonly sizeBytes: number;
  readonly isComplete: boolean;
  readonly pinPreviousUntil: number | undefined;
  readonly wasPut: boolean;
}

/** Options of a writer. */
export interface RedisWriterOptions {
  readonly key: string;
  readonly generation: string;
  /** Length of the whole body in bytes; undefined while it is unknown. */
  readonly sizeBytes: number | undefined;
  /** The blocks that are present already, of a generation that is resumed; undefined for a new one. */
  readonly present: Iterable<number> | undefined;
  readonly bodies: RedisBodies;
  readonly blockSizeBytes: number;
  readonly maxEntryBytes: number;
  readonly now: () => number;
  /** Puts the generation; returns its entry, or undefined where it was replaced or removed. Throws `StoreFault`. */
  readonly put: (put: PutGeneration) => Promise<StoredEntry | undefined>;
  /** Called when the writer ends: with whether the generation was put, and the number of blocks that it may have. */
  readonly onEnd: (wasPut: boolean, blockCount: number) => Promise<void>;
}

/** A writer. */
export class RedisWriter implements EntryWriter {
  readonly generation: string;
  readonly #options: RedisWriterOptions;
  readonly #plan: BlockPlan;
  readonly #present: Set<number>;
  readonly #writing = new Map<number, Promise<void>>();
  readonly #letGo: () => void;
  #wasPut: boolean;
  #blockCount = 0;
  #isDisposed = false;

  /** Throws `StoreFault`. */
  constructor(options: RedisWriterOptions) {
    const { key, generation, bodies, present, sizeBytes, blockSizeBytes } = options;
    this.generation = generation;
    this.#options = options;
    this.#plan = new BlockPlan(options);
    this.#present = new Set(present);
    this.#wasPut = present !== undefined;
    this.#blockCount = Math.ceil((sizeBytes ?? 0) / blockSizeBytes);
    this.#letGo = bodies.hold(key, generation, this.#blockCount);
  }

  hasBlock(index: number): boolean {
    return this.#present.has(index);
  }

  peekBlock(): Uint8Array | undefined {
    return undefined;
  }

  async writeBlock(index: number, bytes: Uint8Array): Promise<void> {
    this.#requireOpen();
    if (this.hasBlock(index)) return;
    const running = this.#writing.get(index);
    if (running !== undefined) return running;
    this.#plan.check(index, bytes.length);
    this.#plan.add(index, bytes.length);
    const writing = this.#write(index, bytes);
    this.#writing.set(index, writing);
    try {
      await writing;
    } finally {
      this.#writing.delete(index);
    }
  }

  async readBlock(index: number): Promise<Uint8Array> {
    await this.#writing.get(index)?.catch(() => {});
    if (!this.hasBlock(index)) {
      throw new ProxyError('bytes_gone', { detail: `Generation ${this.generation} has no block ${index} yet.` });
    }
    const { key, bodies } = this.#options;
    try {
      return await bodies.read(key, this.generation, index);
    } catch (error) {
      // The engine may be away for a moment only. The block counts as absent all the same: it is fetched again.
      this.#present.delete(index);
      throw error;
    }
  }

  async publish(metadata: StoredResponse, pinPreviousUntil?: number): Promise<void> {
    this.#requireOpen();
    const { sizeBytes } = this.#plan;
    if (sizeBytes === undefined) throw new RangeError('A generation of unknown length cannot be published.');
    if (this.#wasPut) return;
    await this.#put({ metadata, sizeBytes, pinPreviousUntil }, false);
  }

  async commit(final: FinalEntry): Promise<StoredEntry> {
    this.#requireOpen();
    const count = this.#plan.end(final.sizeBytes);
    await Promise.all(this.#writing.values());
    for (let index = 0; index < count; index += 1) {
      if (!this.hasBlock(index)) throw new RangeError(`Block ${index} was not written before the commit.`);
    }
    return this.#put(final, true);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    await Promise.allSettled(this.#writing.values());
    this.#letGo();
    await this.#options.onEnd(this.#wasPut, this.#blockCount);
  }

  async #write(index: number, bytes: Uint8Array): Promise<void> {
    const { key, bodies } = this.#options;
    this.#blockCount = Math.max(this.#blockCount, index + 1);
    await bodies.write(key, this.generation, index, bytes);
    this.#present.add(index);
  }

  async #put({ metadata, sizeBytes, pinPreviousUntil }: FinalEntry, isComplete: boolean): Promise<StoredEntry> {
    const { generation } = this;
    const pin = pinInstant(pinPreviousUntil, this.#options.now);
    const wasPut = this.#wasPut;
    const entry = await this.#options.put({
      generation,
      metadata,
      sizeBytes,
      isComplete,
      pinPreviousUntil: pin,
      wasPut,
    });
    if (entry === undefined) throw removedFault(generation);
    this.#wasPut = true;
    return entry;
  }

  #requireOpen(): void {
    if (this.#isDisposed) throw new StoreFault('io', 'The writer was disposed.');
  }
}
