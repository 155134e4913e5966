/** Writes a generation of one block in one step: its file, or its body in the index, and its row. */

import { type FinalEntry, type NewEntry, type StoredEntry, StoreFault, type WholeWriter } from '../store.ts';
import { rowBytes } from './allocated-bytes.ts';
import { type BodyPlace, bodyBytes } from './body-place.ts';
import { createDiskEntry } from './disk-entry.ts';
import type { DiskParts } from './disk-parts.ts';
import { isBusy } from './index-failure.ts';
import { encodeMetadata } from './index-row.ts';
import { toStoreFault } from './storing-switch.ts';

/** What a writer is made with. */
export interface DiskWholeWriterOptions {
  readonly parts: DiskParts;
  readonly entry: NewEntry;
  readonly bytes: Uint8Array;
  readonly place: BodyPlace;
  readonly onDisposed: (generation: string) => void;
}

/** What has to be reserved before: what its metadata takes is added when that is final. */
export function reservedBytes({ entry: { key, variant }, bytes, place, parts }: DiskWholeWriterOptions): number {
  return rowBytes(key, variant, '') + bodyBytes(place, bytes.length, 1, parts.blockSizeBytes);
}

/** A writer whose room is reserved. */
export class DiskWholeWriter implements WholeWriter {
  readonly generation: string;
  readonly #options: DiskWholeWriterOptions;
  #reservedBytes: number;
  #isCounted = false;
  #isRemoved = false;
  #hasFile = false;
  #committing: Promise<StoredEntry> | undefined;
  #disposing: Promise<void> | undefined;

  constructor(generation: string, options: DiskWholeWriterOptions) {
    this.generation = generation;
    this.#options = options;
    this.#reservedBytes = reservedBytes(options);
  }

  /** The generation is not the current one any more. */
  noteRemoval(): void {
    this.#isRemoved = this.#isCounted;
  }

  commit(final: FinalEntry): Promise<StoredEntry> {
    if (this.#disposing !== undefined) throw new StoreFault('io', 'The writer was disposed.');
    this.#committing = this.#commit(final);
    return this.#committing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#disposing ??= this.#dispose();
    return this.#disposing;
  }

  async #commit({ metadata, sizeBytes, pinPreviousUntil }: FinalEntry): Promise<StoredEntry> {
    const { parts, entry: given, bytes, place } = this.#options;
    const { key, variant } = given;
    const { index, storing, space, files, news } = parts;
    const { generation } = this;
    const text = encodeMetadata(metadata);
    const bodyTakes = bodyBytes(place, sizeBytes, 1, parts.blockSizeBytes);
    const allocatedBytes = rowBytes(key, variant, text, metadata.tags) + bodyTakes;
    const missingBytes = allocatedBytes - this.#reservedBytes;
    if (!space.take(missingBytes)) await space.takeMore(missingBytes);
    this.#reservedBytes = allocatedBytes;
    try {
      this.#hasFile = place === 'lone';
      const blockChecksum = this.#hasFile ? await files.createLone(generation, bytes) : undefined;
      const state = { isComplete: true, isInline: !this.#hasFile, blockChecksum };
      const entry = { key, variant, generation, metadata, sizeBytes, ...state };
      const body = this.#hasFile ? undefined : bytes;
      await index.putSoon({ entry, metadata: text, allocatedBytes, body, pinPreviousUntil }, () => {
        this.#isCounted = true;
        this.#giveBack();
      });
      storing.succeeded();
      await news.told();
      return createDiskEntry(parts, { ...entry, pinnedUntil: undefined });
    } catch (error) {
      const fault = toStoreFault(error);
      // That others have kept the index locked says nothing about the disk.
      if (isBusy(fault.cause)) throw fault;
      storing.failed(fault);
      if (fault.reason === 'no_room') await space.measure();
      throw fault;
    }
  }

  #giveBack(): void {
    this.#options.parts.space.giveBack(this.#reservedBytes, this.#isCounted);
    this.#reservedBytes = 0;
  }

  async #dispose(): Promise<void> {
    await this.#committing?.catch(() => {});
    const { parts, onDisposed } = this.#options;
    const { index, files } = parts;
    // The index may have been lost meanwhile, and the row with it.
    const isKept =
      this.#isCounted && index.isPublished(this.generation) && (!this.#isRemoved || index.has(this.generation));
    if (this.#hasFile && !isKept) await files.remove(this.generation, false);
    if (this.#reservedBytes > 0) this.#giveBack();
    index.release(this.generation);
    onDisposed(this.generation);
  }
}
