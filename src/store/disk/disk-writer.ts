/** Writes one generation to the disk: a small body into the index, a larger one block by block into its file. */

import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import { BlockSequence } from '../block-sequence.ts';
import type { EntryWriter, NewEntry, StoredEntry } from '../store.ts';
import { StoreFault } from '../store.ts';
import { bodyBytes, inlineMaxBytes, rowBytes } from './allocated-bytes.ts';
import type { BlockFile } from './block-file.ts';
import { createDiskEntry } from './disk-entry.ts';
import type { DiskParts } from './disk-parts.ts';
import type { Reservation } from './disk-space.ts';
import { toStoreFault } from './storing-switch.ts';

/** A writer. Its body is in memory until it outgrows what is kept inline; from then on it is in a file. */
export class DiskWriter implements EntryWriter {
  readonly generation: string;
  readonly #parts: DiskParts;
  readonly #entry: NewEntry;
  readonly #onDisposed: (writer: DiskWriter) => void;
  readonly #sequence: BlockSequence;
  readonly #rowBytes: number;
  readonly #reservation: Reservation;
  #blocks: Uint8Array[] = [];
  #file: BlockFile | undefined;
  /** The write or commit under way: what holds files is given back after it. */
  #lastStep: Promise<unknown> = Promise.resolve();
  #end: 'failed' | 'committed' | undefined;
  #disposing: Promise<void> | undefined;

  constructor(parts: DiskParts, generation: string, entry: NewEntry, onDisposed: (writer: DiskWriter) => void) {
    this.generation = generation;
    this.#parts = parts;
    this.#entry = entry;
    this.#onDisposed = onDisposed;
    this.#sequence = new BlockSequence(parts);
    this.#rowBytes = rowBytesOf(entry, entry.metadata);
    this.#reservation = parts.space.reservation();
  }

  /** Reserves the room that is known to be needed. Throws `StoreFault`. */
  begin(): Promise<void> {
    return this.#step(() => this.#reserve(this.#rowBytes, this.#entry.sizeBytes ?? 0));
  }

  writeBlock(index: number, bytes: Uint8Array): Promise<void> {
    return this.#step(async () => {
      this.#sequence.add(index, bytes.length);
      await this.#reserve(this.#rowBytes, this.#sequence.sizeBytes);
      if (this.#sequence.sizeBytes <= inlineMaxBytes) this.#blocks.push(bytes);
      else await this.#telling(() => this.#writeToFile(index, bytes));
    });
  }

  peekBlock(index: number): Uint8Array | undefined {
    return this.#blocks[index];
  }

  async readBlock(index: number): Promise<Uint8Array> {
    const block = this.#blocks[index] ?? (await this.#file?.read(index));
    if (block !== undefined) return block;
    throw new ProxyError('bytes_gone', { detail: `Generation ${this.generation} has no block ${index} yet.` });
  }

  commit(final: { readonly metadata: StoredResponse; readonly sizeBytes: number }): Promise<StoredEntry> {
    return this.#step(async () => {
      this.#sequence.end(final.sizeBytes);
      await this.#reserve(rowBytesOf(this.#entry, final.metadata), final.sizeBytes);
      const entry = await this.#telling(() => this.#commit(final));
      this.#end = 'committed';
      this.#reservation.release();
      return entry;
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#disposing ??= this.#dispose();
    return this.#disposing;
  }

  async #writeToFile(index: number, bytes: Uint8Array): Promise<void> {
    if (this.#file === undefined) {
      this.#file = await this.#parts.files.create(this.generation);
      for (const [earlier, block] of this.#blocks.entries()) await this.#writeBlockTo(this.#file, earlier, block);
      this.#blocks = [];
    }
    await this.#writeBlockTo(this.#file, index, bytes);
  }

  async #writeBlockTo(file: BlockFile, index: number, bytes: Uint8Array): Promise<void> {
    await file.write(index, bytes);
    this.#reservation.wrote(bytes.length);
  }

  async #commit({ metadata, sizeBytes }: { metadata: StoredResponse; sizeBytes: number }): Promise<StoredEntry> {
    const { generation } = this;
    const { key, variant } = this.#entry;
    const { files, index } = this.#parts;
    const isInline = this.#file === undefined;
    if (this.#file !== undefined) await files.finish(generation, this.#file);
    const indexed = { key, variant, generation, metadata, sizeBytes, isInline };
    index.put(indexed, isInline ? Buffer.concat(this.#blocks) : undefined);
    return createDiskEntry(this.#parts, indexed);
  }

  /** Takes one step after the other, and none after one that failed. */
  async #step<T>(take: () => Promise<T>): Promise<T> {
    if (this.#disposing !== undefined) throw new StoreFault('io', 'The writer was disposed.');
    if (this.#end !== undefined) throw new StoreFault('io', `The writer has ${this.#end} before.`);
    const step = take();
    this.#lastStep = step;
    try {
      return await step;
    } catch (error) {
      this.#end = 'failed';
      throw error;
    }
  }

  /** Writes to the disk, and lets the switch know whether that went well. Throws `StoreFault`. */
  async #telling<T>(write: () => Promise<T>): Promise<T> {
    const { storing, space } = this.#parts;
    try {
      const result = await write();
      storing.succeeded();
      return result;
    } catch (error) {
      const fault = toStoreFault(error);
      storing.failed(fault);
      if (fault.reason === 'no_room') await space.measure();
      throw fault;
    }
  }

  /** Reserves what an entry of this size takes, where it is more than was reserved before. */
  #reserve(forRowBytes: number, sizeBytes: number): Promise<void> {
    return this.#reservation.growTo(forRowBytes + bodyBytes(sizeBytes, this.#parts.blockSizeBytes));
  }

  async #dispose(): Promise<void> {
    await Promise.allSettled([this.#lastStep]);
    await this.#file?.close();
    if (this.#end !== 'committed' && this.#file !== undefined) await this.#parts.files.remove(this.generation);
    this.#reservation.release();
    this.#onDisposed(this);
  }
}

function rowBytesOf({ key, variant }: NewEntry, metadata: StoredResponse): number {
  return rowBytes(key, variant, JSON.stringify(metadata));
}
