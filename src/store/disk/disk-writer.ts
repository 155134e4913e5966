/** Writes one generation to the disk: a small body into the index, a larger one block by block into its files. */

import { spanOfBlock } from '../../bytes/span.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import { BlockPlan } from '../block-plan.ts';
import { type EntryWriter, type FinalEntry, removedFault, type StoredEntry, StoreFault } from '../store.ts';
import { fileBytes, inlineBytes, inlineMaxBytes, rowBytes } from './allocated-bytes.ts';
import { DiskBody } from './disk-body.ts';
import { createDiskEntry } from './disk-entry.ts';
import type { DiskParts } from './disk-parts.ts';
import type { Reservation } from './disk-space.ts';
import { systemCode } from './file-system.ts';
import { isBusy } from './index-failure.ts';
import type { IndexedEntry } from './index-row.ts';
import { toStoreFault } from './storing-switch.ts';

/** What a writer is made with. */
export interface DiskWriterOptions {
  readonly parts: DiskParts;
  readonly generation: string;
  readonly key: string;
  readonly variant: string;
  readonly metadata: StoredResponse;
  readonly sizeBytes: number | undefined;
  readonly onDisposed: () => void;
}

/** The row of a published generation is brought up to date when so many bytes were written. */
const uncountedMaxBytes = 8 * 1024 * 1024;

/** A writer. It takes one step after the other. */
export class DiskWriter implements EntryWriter {
  readonly generation: string;
  readonly #options: DiskWriterOptions;
  readonly #parts: DiskParts;
  readonly #plan: BlockPlan;
  readonly #body: DiskBody;
  readonly #room: Reservation;
  #rowBytes: number;
  #blockCount = 0;
  /** Whether the generation is the current one: not yet, now, or not any more, for it was replaced or removed. */
  #standing: 'hidden' | 'current' | 'removed' = 'hidden';
  /** Whether storing was on, or a trial was due, when this writer came to write. */
  #isAdmitted = false;
  #lastStep: Promise<unknown> = Promise.resolve();
  #disposing: Promise<void> | undefined;

  /** Throws `StoreFault` `too_large`. */
  constructor(options: DiskWriterOptions) {
    const { parts, generation, metadata, sizeBytes } = options;
    this.generation = generation;
    this.#options = options;
    this.#parts = parts;
    this.#plan = new BlockPlan({ ...parts, sizeBytes });
    this.#body = new DiskBody(parts, generation, sizeBytes);
    this.#room = parts.space.reservation();
    this.#rowBytes = this.#rowBytesWith(metadata);
  }

  /** Begins a new generation. Throws `StoreFault`. */
  begin(): Promise<void> {
    return this.#step(() => {
      this.#admit();
      return this.#room.growTo(this.#rowBytes);
    });
  }

  /**
   * Begins with what there is of an entry in the index, which counts so many bytes for it. Throws `ProxyError`, and
   * `StoreFault` when another process writes it.
   */
  async resume({ isInline, sizeBytes }: IndexedEntry, allocatedBytes: number): Promise<void> {
    this.#parts.index.hold(this.generation);
    // At once, or a removal could come before it.
    this.#standing = 'current';
    this.#room.count(allocatedBytes);
    await this.#step(async () => {
      const { blockSizeBytes, index } = this.#parts;
      const inline = isInline ? index.body(this.generation) : undefined;
      if (!isInline) await this.#body.open(sizeBytes);
      for (let at = 0; at * blockSizeBytes < sizeBytes; at += 1) {
        const { start, end } = spanOfBlock(at, blockSizeBytes, sizeBytes);
        if (inline !== undefined) this.#body.hold(at, inline.subarray(start, end));
        if (this.hasBlock(at)) this.#blockCount += 1;
      }
    });
  }

  /** Whether the generation was published and is not the current one any more. */
  get isRemoved(): boolean {
    return this.#standing === 'removed';
  }

  /** The generation is not the current one any more. */
  noteRemoval(): void {
    if (this.#standing !== 'current') return;
    this.#standing = 'removed';
    this.#room.count(0);
  }

  hasBlock(index: number): boolean {
    return this.#body.has(index);
  }

  writeBlock(index: number, bytes: Uint8Array): Promise<void> {
    return this.#step(async () => {
      if (this.hasBlock(index)) return;
      this.#plan.check(index, bytes.length);
      this.#admit();
      const extentBytes = this.#plan.extentWith(index, bytes.length);
      const isInFiles = this.#body.isInFiles || extentBytes > inlineMaxBytes;
      await this.#room.growTo(this.#allocated(isInFiles, extentBytes, this.#blockCount + 1));
      if (isInFiles) await this.#telling(() => this.#writeToFiles(index, bytes));
      else this.#body.hold(index, bytes);
      this.#plan.add(index, bytes.length);
      this.#blockCount += 1;
      if (this.#room.uncountedBytes > uncountedMaxBytes) this.#count();
    });
  }

  peekBlock(index: number): Uint8Array | undefined {
    return this.#body.peekBlock(index);
  }

  readBlock(index: number): Promise<Uint8Array> {
    return this.#body.readBlock(index);
  }

  publish(metadata: StoredResponse, pinPreviousUntil?: number): Promise<void> {
    return this.#step(async () => {
      const { sizeBytes } = this.#plan;
      if (sizeBytes === undefined) throw new RangeError('A generation of unknown length cannot be published.');
      if (this.#standing !== 'hidden') return;
      this.#rowBytes = this.#rowBytesWith(metadata);
      await this.#room.growTo(this.#allocated(true, sizeBytes, this.#blockCount));
      await this.#telling(async () => {
        await this.#moveToFiles();
        this.#put({ metadata, sizeBytes, pinPreviousUntil }, false);
      });
      await this.#parts.news.told();
    });
  }

  commit(final: FinalEntry): Promise<StoredEntry> {
    return this.#step(async () => {
      const { metadata, sizeBytes } = final;
      this.#requireBlocks(this.#plan.end(sizeBytes));
      this.#body.end(sizeBytes);
      this.#rowBytes = this.#rowBytesWith(metadata);
      await this.#room.growTo(this.#allocated(this.#body.isInFiles, sizeBytes, this.#blockCount));
      if (this.#body.isInFiles) await this.#telling(() => this.#moveToFiles());
      // Nothing is waited for between this and the change of the index.
      if (this.#standing === 'removed') throw removedFault(this.generation);
      const entry = await this.#telling(async () => this.#put(final, true));
      await this.#parts.news.told();
      return entry;
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#disposing ??= this.#dispose();
    return this.#disposing;
  }

  async #writeToFiles(index: number, bytes: Uint8Array): Promise<void> {
    await this.#moveToFiles();
    await this.#body.write(index, bytes);
    this.#room.wrote(bytes.length);
  }

  async #moveToFiles(): Promise<void> {
    this.#room.wrote(await this.#body.moveToFiles());
  }

  /** Puts the entry into the index, which counts from now on what it takes. Throws `StoreFault`. */
  #put({ metadata, sizeBytes, pinPreviousUntil }: FinalEntry, isComplete: boolean): StoredEntry {
    const { generation } = this;
    const { key, variant } = this.#options;
    const isInline = !this.#body.isInFiles;
    const indexed = { key, variant, generation, metadata, sizeBytes, isInline, isComplete };
    const allocated = this.#allocated(!isInline, sizeBytes, this.#blockCount);
    this.#parts.index.put(indexed, allocated, isInline ? this.#body.bytes : undefined, pinPreviousUntil);
    this.#room.count(allocated);
    this.#standing = 'current';
    return createDiskEntry(this.#parts, { ...indexed, pinnedUntil: undefined });
  }

  /** Brings what the row counts up to date. */
  #count(): void {
    const { sizeBytes } = this.#plan;
    if (this.#standing !== 'current' || sizeBytes === undefined) return;
    const allocated = this.#allocated(this.#body.isInFiles, sizeBytes, this.#blockCount);
    if (this.#parts.index.resize(this.generation, allocated)) this.#room.count(allocated);
  }

  #requireBlocks(count: number): void {
    for (let index = 0; index < count; index += 1) {
      if (this.hasBlock(index)) continue;
      if (this.#body.hasLost(index)) throw new StoreFault('io', `Block ${index} was damaged since it was written.`);
      throw new RangeError(`A commit without block ${index}.`);
    }
  }

  /** Throws the `StoreFault` for which storing is off. */
  #admit(): void {
    if (!this.#isAdmitted) this.#parts.storing.check();
    this.#isAdmitted = true;
  }

  /** Takes one step after the other, until the writer is disposed. */
  async #step<T>(take: () => Promise<T>): Promise<T> {
    if (this.#disposing !== undefined) throw new StoreFault('io', 'The writer was disposed.');
    const step = this.#lastStep.then(take);
    this.#lastStep = step.catch(() => {});
    return await step;
  }

  /** Writes to the disk, and lets the switch know whether that went well. Throws `StoreFault`. */
  async #telling<T>(write: () => Promise<T>): Promise<T> {
    const { storing, space } = this.#parts;
    try {
      const result = await write();
      storing.succeeded();
      return result;
    } catch (error) {
      const fault = this.#isRemovedElsewhere(error) ? removedFault(this.generation) : toStoreFault(error);
      // That others were faster, or have kept the index locked, says nothing about the disk.
      if (fault.reason === 'removed' || isBusy(fault.cause)) throw fault;
      storing.failed(fault);
      if (fault.reason === 'no_room') await space.measure();
      throw fault;
    }
  }

  /** Whether a file is gone because another process has removed the generation, of which this one may not have heard. */
  #isRemovedElsewhere(error: unknown): boolean {
    const isGone = this.#standing !== 'hidden' && systemCode(error) === 'ENOENT';
    return isGone && !this.#parts.index.has(this.generation);
  }

  #allocated(isInFiles: boolean, sizeBytes: number, blockCount: number): number {
    const { blockSizeBytes } = this.#parts;
    return this.#rowBytes + (isInFiles ? fileBytes(sizeBytes, blockCount, blockSizeBytes) : inlineBytes(sizeBytes));
  }

  #rowBytesWith(metadata: StoredResponse): number {
    return rowBytes(this.#options.key, this.#options.variant, metadata);
  }

  async #dispose(): Promise<void> {
    await this.#lastStep;
    const { index, files } = this.#parts;
    const { isInFiles } = this.#body;
    // The index may have been lost meanwhile, and the row with it. A pinned generation keeps its files.
    const isKept = this.#standing !== 'hidden' && index.has(this.generation);
    if (isInFiles && !isKept) this.noteRemoval();
    if (this.#room.uncountedBytes > 0) this.#count();
    await this.#body.close();
    if (isInFiles && !isKept) await files.remove(this.generation);
    this.#room.count(0);
    index.release(this.generation);
    this.#options.onDisposed();
  }
}
