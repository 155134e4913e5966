/**
 * Writes one generation to the disk. `DiskBody` keeps a small body in memory until the commit, which puts it into the index or a
 * file of its own; a larger body goes block by block into its files. The steps of one writer run one after the other.
 */

import { spanOfBlock } from '../../bytes/span.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import { BlockPlan } from '../entry-rules.ts';
import {
  type BlockSource,
  type EntryWriter,
  type FinalEntry,
  type NewEntry,
  removedFault,
  type StoredEntry,
  StoreFault,
  type WholeWriter,
} from '../store.ts';
import { type BlockFile, isAbsence } from './bodies/block-file.ts';
import type { BlockFileWriter } from './bodies/body-files.ts';
import { systemCode } from './bodies/file-system.ts';
import { createDiskEntry, type DiskParts } from './disk-entry.ts';
import {
  type BodyPlace,
  bodyBytes,
  encodeMetadata,
  type IndexedEntry,
  type PutEntry,
  placeOf,
  rowBytes,
} from './index/index-rows.ts';
import { isBusy } from './index/index-tables.ts';
import { type Reservation, toDiskFault } from './space/disk-space.ts';

/** Options of a writer. */
interface DiskWriterOptions {
  readonly parts: DiskParts;
  readonly generation: string;
  readonly key: string;
  readonly variant: string;
  readonly metadata: StoredResponse;
  readonly sizeBytes: number | undefined;
  readonly onDisposed: () => void;
}

/** A writer whose steps run one after the other. */
export class DiskWriter implements EntryWriter {
  readonly generation: string;
  readonly #options: DiskWriterOptions;
  readonly #parts: DiskParts;
  readonly #plan: BlockPlan;
  readonly #body: DiskBody;
  readonly #room: Reservation;
  #rowBytes: number;
  /** Bytes that the row of the current generation counts. */
  #countedBytes = 0;
  #blockCount = 0;
  /** Whether the generation is the current one: not yet, now, or no longer, because it was replaced or removed. */
  #standing: 'hidden' | 'current' | 'removed' = 'hidden';
  /** Whether storing was on, or a trial was due, when this writer began to write. */
  #isAdmitted = false;
  readonly #steps = new StepQueue();
  #disposing: Promise<void> | undefined;

  /** Throws `StoreFault` `too_large`. */
  constructor(options: DiskWriterOptions) {
    const { parts, generation, key, variant, sizeBytes } = options;
    this.generation = generation;
    this.#options = options;
    this.#parts = parts;
    this.#plan = new BlockPlan({ ...parts, sizeBytes });
    this.#body = new DiskBody(parts, generation, sizeBytes);
    this.#room = parts.space.reservation();
    // The bytes of the metadata are added when the row is encoded.
    this.#rowBytes = rowBytes(key, variant, '');
  }

  /** Begins a new generation. Throws `StoreFault`. */
  begin(): Promise<void> {
    return this.#step(async () => {
      this.#admit();
      await this.#room.growTo(this.#rowBytes);
    });
  }

  /**
   * Continues an entry of the index, whose row counts `allocatedBytes` for it. Throws `ProxyError`, and `StoreFault` when another
   * process is writing it.
   */
  async resume({ isInline, sizeBytes, blockChecksum }: IndexedEntry, allocatedBytes: number): Promise<void> {
    this.#parts.index.hold(this.generation);
    // Set before the first `await`, so that a removal meanwhile is noticed.
    this.#standing = 'current';
    this.#noteCounted(allocatedBytes);
    await this.#step(async () => {
      const { blockSizeBytes, index } = this.#parts;
      const inline = isInline ? index.body(this.generation) : undefined;
      const fileBytes = isInline ? 0 : await this.#body.open(sizeBytes, blockChecksum);
      for (let at = 0; at * blockSizeBytes < sizeBytes; at += 1) {
        const { start, end } = spanOfBlock(at, blockSizeBytes, sizeBytes);
        if (inline !== undefined) this.#body.hold(at, inline.subarray(start, end));
        if (this.hasBlock(at)) this.#blockCount += 1;
      }
      // Blocks whose checksums a crash kept from the sidecar take room too.
      this.#blockCount = Math.max(this.#blockCount, Math.ceil(fileBytes / blockSizeBytes));
    });
  }

  /** Whether the generation was published and is no longer the current one. */
  get isRemoved(): boolean {
    return this.#standing === 'removed';
  }

  /** Notes that the generation is no longer the current one. */
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
      const place = this.#placeOf(extentBytes);
      await this.#countAhead(place, extentBytes);
      if (place === 'files') await this.#reportingOutcome(() => this.#writeToFiles(index, bytes));
      else this.#body.hold(index, bytes);
      this.#plan.add(index, bytes.length);
      this.#blockCount += 1;
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
      const text = this.#encode(metadata);
      await this.#room.growTo(this.#allocated('files', sizeBytes, this.#blockCount));
      await this.#reportingOutcome(async () => {
        await this.#moveToFiles();
        const final = { metadata, sizeBytes, pinPreviousUntil };
        const put = this.#toPut(final, text, { isComplete: false, isInline: false });
        this.#parts.index.put(put);
        this.#notePut(put);
      });
      await this.#parts.changes.settled();
    });
  }

  commit(final: FinalEntry): Promise<StoredEntry> {
    return this.#step(async () => {
      const { metadata, sizeBytes } = final;
      this.#requireBlocks(this.#plan.end(sizeBytes));
      this.#body.end(sizeBytes);
      const text = this.#encode(metadata);
      const place = this.#placeOf(sizeBytes);
      await this.#room.growTo(this.#allocated(place, sizeBytes, this.#blockCount));
      const blockChecksum = place === 'inline' ? undefined : await this.#reportingOutcome(() => this.#bringTo(place));
      // A removal after this check also reaches the index after this commit.
      if (this.#standing === 'removed') throw removedFault(this.generation);
      const put = this.#toPut(final, text, { isComplete: true, isInline: place === 'inline', blockChecksum });
      await this.#reportingOutcome(() => this.#parts.index.putSoon(put, () => this.#notePut(put)));
      const entry = createDiskEntry(this.#parts, { ...put.entry, pinnedUntil: undefined });
      await this.#parts.changes.settled();
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

  /** Brings a complete body into its files; returns the checksum of a body without a sidecar. */
  async #bringTo(place: BodyPlace): Promise<number | undefined> {
    if (place === 'lone') return await this.#body.createLone();
    await this.#moveToFiles();
    return undefined;
  }

  /** Returns what is to be put into the index. */
  #toPut(
    { metadata, sizeBytes, pinPreviousUntil }: FinalEntry,
    text: string,
    state: Pick<IndexedEntry, 'isComplete' | 'isInline' | 'blockChecksum'>,
  ): PutEntry {
    const { key, variant } = this.#options;
    const place = state.isComplete ? this.#placeOf(sizeBytes) : 'files';
    return {
      entry: { key, variant, generation: this.generation, metadata, sizeBytes, ...state },
      metadata: text,
      allocatedBytes: this.#allocated(place, sizeBytes, this.#blockCount),
      body: state.isInline ? this.#body.bytes : undefined,
      pinPreviousUntil,
    };
  }

  /** Notes that the index counts from now on what the entry takes. */
  #notePut({ allocatedBytes }: PutEntry): void {
    this.#noteCounted(allocatedBytes);
    this.#standing = 'current';
  }

  #noteCounted(allocatedBytes: number, aheadBytes = 0): void {
    this.#countedBytes = allocatedBytes;
    this.#room.count(allocatedBytes, aheadBytes);
  }

  #placeOf(sizeBytes: number): BodyPlace {
    if (this.#body.isLone) return 'lone';
    if (this.#body.isInFiles) return 'files';
    return placeOf(sizeBytes, this.#plan.sizeBytes !== undefined, this.#parts.blockSizeBytes);
  }

  /**
   * Makes room for one more block. The row of a published generation counts ahead of its files, so that it never counts less than
   * they take, not even after a crash. Throws `StoreFault`.
   */
  async #countAhead(place: BodyPlace, extentBytes: number): Promise<void> {
    const neededBytes = this.#allocated(place, extentBytes, this.#blockCount + 1);
    const { sizeBytes } = this.#plan;
    if (place !== 'files' || this.#standing !== 'current' || sizeBytes === undefined) {
      await this.#room.growTo(neededBytes);
      return;
    }
    if (neededBytes <= this.#countedBytes) return;
    const { blockSizeBytes, index, stepBytes } = this.#parts;
    const wholeBytes = this.#allocated(place, sizeBytes, Math.ceil(sizeBytes / blockSizeBytes));
    const aheadBytes = Math.min(neededBytes + stepBytes, wholeBytes);
    await this.#room.growTo(neededBytes);
    // Without room to count ahead, each block is counted by itself.
    const counted = (await this.#tryReserve(aheadBytes)) ? aheadBytes : neededBytes;
    // The generation may have been removed while room was made.
    if (this.#standing !== 'current' || !index.resize(this.generation, counted)) return;
    this.#noteCounted(counted, counted - this.#allocated(place, extentBytes, this.#blockCount));
  }

  /** Reserves room if there is any; returns whether there was. */
  async #tryReserve(bytes: number): Promise<boolean> {
    try {
      await this.#room.growTo(bytes);
      return true;
    } catch (error) {
      if (error instanceof StoreFault && error.reason === 'no_room') return false;
      throw error;
    }
  }

  /** Corrects the bytes that the row counts. */
  #count(): void {
    const { sizeBytes } = this.#plan;
    if (this.#standing !== 'current' || sizeBytes === undefined) return;
    const allocated = this.#allocated(this.#placeOf(sizeBytes), sizeBytes, this.#blockCount);
    if (allocated === this.#countedBytes) return;
    if (this.#parts.index.resize(this.generation, allocated)) this.#noteCounted(allocated);
  }

  #requireBlocks(count: number): void {
    for (let index = 0; index < count; index += 1) {
      if (this.hasBlock(index)) continue;
      if (this.#body.hasLost(index)) throw new StoreFault('io', `Block ${index} was damaged since it was written.`);
      throw new RangeError(`Block ${index} was not written before the commit.`);
    }
  }

  /** Throws the `StoreFault` that turned storing off. Checks only before the first write. */
  #admit(): void {
    if (!this.#isAdmitted) this.#parts.storing.check();
    this.#isAdmitted = true;
  }

  /** Runs one step after the other, until the writer is disposed. */
  #step<T>(take: () => Promise<T>): Promise<T> {
    if (this.#disposing === undefined) return this.#steps.take(take);
    return Promise.reject(new StoreFault('io', 'The writer was disposed.'));
  }

  /** Writes to the disk, and reports success or failure to `StoringSwitch`. Throws `StoreFault`. */
  async #reportingOutcome<T>(write: () => Promise<T>): Promise<T> {
    const { storing, space } = this.#parts;
    try {
      const result = await write();
      storing.succeeded();
      return result;
    } catch (error) {
      this.#dropDamaged(error);
      const isGone = this.#standing === 'removed' || this.#isRemovedElsewhere(error);
      const fault = isGone && isAbsence(error) ? removedFault(this.generation) : toDiskFault(error);
      // A removal, or an index kept locked by another process, says nothing about the disk.
      if (fault.reason === 'removed' || isBusy(fault.cause)) throw fault;
      storing.failed(fault);
      if (fault.reason === 'no_room') await space.measure();
      throw fault;
    }
  }

  /** Removes the entry as damaged where its files are missing. That says nothing about the disk. */
  #dropDamaged(error: unknown): void {
    if (this.#standing !== 'current' || !isAbsence(error) || this.#isRemovedElsewhere(error)) return;
    const detail = `The files of generation ${this.generation} cannot be written: ${String(error)}`;
    this.#parts.index.removeDamaged(this.generation, detail);
  }

  /** Whether a file is gone because another process removed the generation. This process may not know of the removal yet. */
  #isRemovedElsewhere(error: unknown): boolean {
    const isGone = this.#standing !== 'hidden' && systemCode(error) === 'ENOENT';
    return isGone && !this.#parts.index.has(this.generation);
  }

  #allocated(place: BodyPlace, sizeBytes: number, blockCount: number): number {
    return this.#rowBytes + bodyBytes(place, sizeBytes, blockCount, this.#parts.blockSizeBytes);
  }

  /** Encodes the metadata for the row, and notes what the rows of the entry take. */
  #encode(metadata: StoredResponse): string {
    const text = encodeMetadata(metadata);
    this.#rowBytes = rowBytes(this.#options.key, this.#options.variant, text, metadata.tags);
    return text;
  }

  async #dispose(): Promise<void> {
    await this.#steps.settled();
    const { index, files } = this.#parts;
    // A pinned generation keeps its files.
    const isRemoved = this.#standing === 'removed' && !index.has(this.generation);
    // The index may have been lost meanwhile, and the row with it.
    const isLost = this.#standing === 'current' && !index.isPublished(this.generation);
    const isLeftOver = this.#body.hasFiles && (this.#standing === 'hidden' || isRemoved || isLost);
    if (isLeftOver) this.noteRemoval();
    if (this.#body.isInFiles && !this.#body.isLone) this.#count();
    await this.#body.close();
    if (isLeftOver) await files.remove(this.generation);
    this.#room.count(0);
    index.release(this.generation);
    this.#options.onDisposed();
  }
}

/** The blocks of one generation. They move to files once, before more than a small body is written. */
class DiskBody implements BlockSource {
  readonly #generation: string;
  readonly #parts: Pick<DiskParts, 'files' | 'bodies'>;
  /** Length of the whole body in bytes, where it was known at the beginning. */
  readonly #sizeBytes: number | undefined;
  readonly #held = new Map<number, Uint8Array>();
  #file: BlockFile | undefined;
  #loneChecksum: number | undefined;
  #hasLone = false;
  #writer: BlockFileWriter | undefined;

  constructor(parts: Pick<DiskParts, 'files' | 'bodies'>, generation: string, sizeBytes: number | undefined) {
    this.#parts = parts;
    this.#generation = generation;
    this.#sizeBytes = sizeBytes;
  }

  /** Whether the body is in files, or on its way there. */
  get isInFiles(): boolean {
    return this.#file !== undefined;
  }

  /** Whether the body has, or may have, files. */
  get hasFiles(): boolean {
    return this.isInFiles || this.#hasLone;
  }

  /** Whether the body is one block in a file without a sidecar. */
  get isLone(): boolean {
    return this.#loneChecksum !== undefined;
  }

  /** All blocks of a body that is in memory, one after the other. */
  get bytes(): Uint8Array {
    const [first] = this.#held.values();
    if (first !== undefined && this.#held.size === 1) return first;
    return Buffer.concat([...this.#held].sort(([a], [b]) => a - b).map(([, bytes]) => bytes));
  }

  /**
   * Opens the body on the disk. `blockChecksum` is that of a body of one block without a sidecar. Returns the bytes that the body
   * takes there. Throws `ProxyError` `bytes_gone`.
   */
  async open(sizeBytes: number, blockChecksum?: number): Promise<number> {
    this.#file = await this.#parts.bodies.acquire(this.#generation, sizeBytes, blockChecksum);
    this.#loneChecksum = blockChecksum;
    const allocatedBytes = await this.#file.allocatedBytes();
    if (blockChecksum !== undefined) return allocatedBytes;
    await this.#file.loadSums();
    // Opened now, because the files may be removed later. A body that cannot be written can still be read.
    this.#writer = await this.#parts.files.openForWriting(this.#file).catch(() => undefined);
    return allocatedBytes;
  }

  has(index: number): boolean {
    return this.#held.has(index) || this.#file?.has(index) === true;
  }

  /** Checks whether a block was present and was found damaged. */
  hasLost(index: number): boolean {
    return this.#file?.hasLost(index) === true;
  }

  /** Holds a block in memory. */
  hold(index: number, bytes: Uint8Array): void {
    this.#held.set(index, bytes);
  }

  /**
   * Writes a body of one block into a file without a sidecar, unless it is already there; returns its checksum. Throws the
   * system's error.
   */
  async createLone(): Promise<number> {
    this.#hasLone = true;
    this.#loneChecksum ??= await this.#parts.files.createLone(this.#generation, this.bytes);
    return this.#loneChecksum;
  }

  /** Moves the blocks in memory into files; returns the number of bytes moved. Throws the system's error; may be tried again. */
  async moveToFiles(): Promise<number> {
    let moved = 0;
    if (this.#file !== undefined && this.#held.size === 0) return moved;
    const writer = await this.#openFiles();
    for (const [index, bytes] of this.#held) {
      await writer.write(index, bytes);
      this.#held.delete(index);
      moved += bytes.length;
    }
    return moved;
  }

  /** Writes a block into the files. Throws the system's error. */
  async write(index: number, bytes: Uint8Array): Promise<void> {
    const writer = await this.#openFiles();
    await writer.write(index, bytes);
  }

  peekBlock(index: number): Uint8Array | undefined {
    return this.#held.get(index);
  }

  async readBlock(index: number): Promise<Uint8Array> {
    const block = this.#held.get(index) ?? (this.has(index) ? await this.#file?.read(index) : undefined);
    if (block !== undefined) return block;
    throw new ProxyError('bytes_gone', { detail: `Generation ${this.#generation} has no block ${index} yet.` });
  }

  /** Notes the length of the whole body, in bytes. */
  end(sizeBytes: number): void {
    this.#file?.end(sizeBytes);
  }

  /** Releases the files. Never rejects. */
  async close(): Promise<void> {
    await this.#writer?.close();
    if (this.#file !== undefined) this.#parts.bodies.release(this.#generation);
  }

  async #openFiles(): Promise<BlockFileWriter> {
    if (this.#writer !== undefined) return this.#writer;
    const { files, bodies } = this.#parts;
    if (this.#file === undefined) {
      this.#writer = await files.create(this.#generation, this.#sizeBytes);
      this.#file = this.#writer.file;
      bodies.share(this.#file);
    } else {
      this.#writer = await files.openForWriting(this.#file);
    }
    return this.#writer;
  }
}

/** Runs steps one after the other. A step that need not wait begins in the same call: most writers have one step at a time. */
export class StepQueue {
  /** The last step that is not over; never rejects. */
  #last: Promise<void> | undefined;

  /** Runs a step after all earlier ones, whether they succeeded or failed; returns its result. */
  take<T>(step: () => Promise<T>): Promise<T> {
    const taken = this.#last === undefined ? step() : this.#last.then(step);
    const end = () => {
      if (this.#last === ended) this.#last = undefined;
    };
    const ended = taken.then(end, end);
    this.#last = ended;
    return taken;
  }

  /** Resolves when all steps added so far are over. */
  async settled(): Promise<void> {
    await this.#last;
  }
}

/** Options of a writer of a whole body. */
interface DiskWholeWriterOptions {
  readonly parts: DiskParts;
  readonly entry: NewEntry;
  readonly bytes: Uint8Array;
  readonly place: BodyPlace;
  readonly onDisposed: (generation: string) => void;
}

/** Writes a generation whose bytes are all known. The caller must first reserve `reservedBytes` for it. */
export class DiskWholeWriter implements WholeWriter {
  readonly generation: string;
  readonly #options: DiskWholeWriterOptions;
  #reservedBytes: number;
  /** The metadata of the entry, encoded for its row. */
  readonly #text: string;
  #isCounted = false;
  #isRemoved = false;
  #hasFile = false;
  #committing: Promise<StoredEntry> | undefined;
  #disposing: Promise<void> | undefined;

  constructor(generation: string, options: DiskWholeWriterOptions) {
    this.generation = generation;
    this.#options = options;
    this.#text = encodeMetadata(options.entry.metadata);
    this.#reservedBytes = this.#bytesOnDisk(options.entry.metadata, this.#text);
  }

  get reservedBytes(): number {
    return this.#reservedBytes;
  }

  /** Notes that the generation is no longer the current one. */
  noteRemoval(): void {
    this.#isRemoved = this.#isCounted;
  }

  commit(final: FinalEntry): Promise<StoredEntry> {
    if (this.#disposing !== undefined) return Promise.reject(new StoreFault('io', 'The writer was disposed.'));
    this.#committing = this.#commit(final);
    return this.#committing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#disposing ??= this.#dispose();
    return this.#disposing;
  }

  async #commit({ metadata, sizeBytes, pinPreviousUntil }: FinalEntry): Promise<StoredEntry> {
    const { parts, entry: newEntry, bytes, place } = this.#options;
    const { key, variant } = newEntry;
    const { index, storing, space, files, changes } = parts;
    const { generation } = this;
    // The metadata may have been freshened since.
    const text = metadata === newEntry.metadata ? this.#text : encodeMetadata(metadata);
    const allocatedBytes = this.#bytesOnDisk(metadata, text);
    const missingBytes = allocatedBytes - this.#reservedBytes;
    if (missingBytes > 0 && !space.take(missingBytes)) await space.takeMore(missingBytes);
    this.#reservedBytes = Math.max(allocatedBytes, this.#reservedBytes);
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
      await changes.settled();
      return createDiskEntry(parts, { ...entry, pinnedUntil: undefined });
    } catch (error) {
      const fault = toDiskFault(error);
      // An index kept locked by another process says nothing about the disk.
      if (isBusy(fault.cause)) throw fault;
      storing.failed(fault);
      if (fault.reason === 'no_room') await space.measure();
      throw fault;
    }
  }

  /** Returns the bytes that the entry takes on the disk. */
  #bytesOnDisk({ tags }: StoredResponse, text: string): number {
    const { entry, bytes, place, parts } = this.#options;
    return rowBytes(entry.key, entry.variant, text, tags) + bodyBytes(place, bytes.length, 1, parts.blockSizeBytes);
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
