/** Writes one generation into memory. Its bytes count against the bound of the store from the start. */

import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import { BlockPlan } from '../block-plan.ts';
import { pinInstant } from '../pins.ts';
import {
  type EntryWriter,
  type FinalEntry,
  type NewEntry,
  removedFault,
  type StoredEntry,
  StoreFault,
} from '../store.ts';
import type { MemoryShelf, Shelved, ShelvedBody } from './memory-shelf.ts';
import { blockWeight, entryWeight, withOwnBuffer } from './memory-size.ts';

/** What a writer is made with. */
export interface MemoryWriterOptions {
  readonly shelf: MemoryShelf<StoredEntry>;
  /** The bytes of a new generation, or of one that is on the shelf. */
  readonly body: ShelvedBody;
  readonly entry: NewEntry;
  readonly blockSizeBytes: number;
  readonly maxEntryBytes: number;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Makes what the shelf knows of the generation, with the blocks that are there now. */
  readonly shelve: (record: Pick<StoredEntry, 'metadata' | 'sizeBytes' | 'isComplete'>) => Shelved<StoredEntry>;
}

/** A writer. As long as its generation is not on the shelf, it keeps the account of what it takes itself. */
export class MemoryWriter implements EntryWriter {
  readonly generation: string;
  readonly #options: MemoryWriterOptions;
  readonly #plan: BlockPlan;
  /** Whether the generation was ever put on the shelf. It may have been removed since. */
  #wasPut: boolean;
  #reservedBytes = 0;
  #isDisposed = false;

  /** Throws `StoreFault`. */
  constructor(options: MemoryWriterOptions) {
    const { shelf, body, entry } = options;
    this.generation = body.generation;
    this.#options = options;
    this.#plan = new BlockPlan({ ...options, sizeBytes: entry.sizeBytes });
    this.#wasPut = shelf.get(body.generation) !== undefined;
    if (!this.#wasPut) this.#reserve(entryWeight(entry.key, entry.variant, entry.metadata));
    body.hasWriter = true;
    shelf.hold(body);
  }

  hasBlock(index: number): boolean {
    return this.#options.body.blocks[index] !== undefined;
  }

  async writeBlock(index: number, bytes: Uint8Array): Promise<void> {
    this.keepBlock(index, bytes);
  }

  /** As `writeBlock`, at once. */
  keepBlock(index: number, bytes: Uint8Array): void {
    this.#requireOpen();
    if (this.hasBlock(index)) return;
    this.#plan.check(index, bytes.length);
    const { body } = this.#options;
    const weight = blockWeight(bytes.length);
    this.#takeRoom(weight);
    body.blocks[index] = withOwnBuffer(bytes);
    body.blockWeight += weight;
    this.#plan.add(index, bytes.length);
  }

  peekBlock(index: number): Uint8Array | undefined {
    return this.#options.body.blocks[index];
  }

  async readBlock(index: number): Promise<Uint8Array> {
    const block = this.peekBlock(index);
    if (block !== undefined) return block;
    throw new ProxyError('bytes_gone', { detail: `Generation ${this.generation} has no block ${index} yet.` });
  }

  async publish(metadata: StoredResponse, pinPreviousUntil?: number): Promise<void> {
    this.#requireOpen();
    const { sizeBytes } = this.#plan;
    if (sizeBytes === undefined) throw new RangeError('A generation of unknown length cannot be published.');
    if (!this.#wasPut) this.#put({ metadata, sizeBytes, isComplete: false }, pinPreviousUntil);
  }

  async commit({ metadata, sizeBytes, pinPreviousUntil }: FinalEntry): Promise<StoredEntry> {
    this.#requireOpen();
    const count = this.#plan.end(sizeBytes);
    for (let index = 0; index < count; index += 1) {
      if (!this.hasBlock(index)) throw new RangeError(`A commit without block ${index}.`);
    }
    if (this.#isRemoved) throw removedFault(this.generation);
    return this.#put({ metadata, sizeBytes, isComplete: true }, pinPreviousUntil);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    const { shelf, body } = this.#options;
    shelf.release(this.#reservedBytes);
    body.hasWriter = false;
    shelf.letGo(body);
  }

  /** Whether the generation was put on the shelf and is not the current one any more. */
  get #isRemoved(): boolean {
    const shelved = this.#options.shelf.get(this.generation);
    return this.#wasPut && (shelved === undefined || shelved.pinnedUntil !== undefined);
  }

  #put(
    record: Pick<StoredEntry, 'metadata' | 'sizeBytes' | 'isComplete'>,
    pinPreviousUntil: number | undefined,
  ): StoredEntry {
    const shelved = this.#options.shelve(record);
    const pinnedUntil = pinInstant(pinPreviousUntil, this.#options.now);
    this.#options.shelf.put(shelved, this.#reservedBytes, (earlier) => pinned(earlier, pinnedUntil));
    this.#reservedBytes = 0;
    this.#wasPut = true;
    return shelved.record;
  }

  /** Finds room for a block: on the shelf where the generation is there, in the account of the writer otherwise. */
  #takeRoom(weight: number): void {
    const { shelf } = this.#options;
    const shelved = shelf.get(this.generation);
    if (shelved === undefined) this.#reserve(weight);
    else shelf.exchange(shelved, { ...shelved, weight: shelved.weight + weight });
  }

  #reserve(bytes: number): void {
    this.#options.shelf.reserve(bytes);
    this.#reservedBytes += bytes;
  }

  #requireOpen(): void {
    if (this.#isDisposed) throw new StoreFault('io', 'The writer was disposed.');
  }
}

/** A complete generation as it is kept until that instant; undefined when it is not to be kept. */
function pinned(earlier: Shelved<StoredEntry>, pinnedUntil: number | undefined): Shelved<StoredEntry> | undefined {
  if (pinnedUntil === undefined || !earlier.record.isComplete) return undefined;
  return { ...earlier, pinnedUntil, record: { ...earlier.record, pinnedUntil } };
}
