/**
 * Writes one generation to the disk. `DiskBody` keeps a small body in memory until its end, and then the index takes it; a larger
 * body goes block by block into its files. The steps of one writer run one after the other.
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
import { type Reservation, toStoreFault } from './space/disk-space.ts';

/** What a writer is made with. */
interface DiskWriterOptions {
  readonly parts: DiskParts;
  readonly generation: string;
  readonly key: string;
  readonly variant: string;
  readonly metadata: StoredResponse;
  readonly sizeBytes: number | undefined;
  readonly onDisposed: () => void;
}

/** A writer. It takes one step after the other. */
export class DiskWriter implements EntryWriter {
  readonly generation: string;
  readonly #options: DiskWriterOptions;
  readonly #parts: DiskParts;
  readonly #plan: BlockPlan;
  readonly #body: DiskBody;
  readonly #room: Reservation;
  #rowBytes: number;
  /** What the row of the current generation counts, in bytes. */
  #countedBytes = 0;
  #blockCount = 0;
  /** Whether the generation is the current one: not yet, now, or not any more, for it was replaced or removed. */
  #standing: 'hidden' | 'current' | 'removed' = 'hidden';
  /** Whether storing was on, or a trial was due, when this writer came to write. */
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
    // What its metadata takes is counted when it is put into the index.
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
   * Begins with what there is of an entry in the index, which counts so many bytes for it. Throws `ProxyError`, and
   * `StoreFault` when another process writes it.
   */
  async resume({ isInline, sizeBytes, blockChecksum }: IndexedEntry, allocatedBytes: number): Promise<void> {
    this.#parts.index.hold(this.generation);
    // At once, or a removal could come before it.
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
      // Bytes of blocks that a crash has kept from the sidecar take room too.
      this.#blockCount = Math.max(this.#blockCount, Math.ceil(fileBytes / blockSizeBytes));
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
      const place = this.#placeOf(extentBytes);
      await this.#countAhead(place, extentBytes);
      if (place === 'files') await this.#telling(() => this.#writeToFiles(index, bytes));
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
      await this.#telling(async () => {
        await this.#moveToFiles();
        const final = { metadata, sizeBytes, pinPreviousUntil };
        const put = this.#toPut(final, text, { isComplete: false, isInline: false });
        this.#parts.index.put(put);
        this.#notePut(put);
      });
      await this.#parts.news.told();
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
      const blockChecksum = place === 'inline' ? undefined : await this.#telling(() => this.#bringTo(place));
      // Removals that come after this come after the change of the index too.
      if (this.#standing === 'removed') throw removedFault(this.generation);
      const put = this.#toPut(final, text, { isComplete: true, isInline: place === 'inline', blockChecksum });
      await this.#telling(() => this.#parts.index.putSoon(put, () => this.#notePut(put)));
      const entry = createDiskEntry(this.#parts, { ...put.entry, pinnedUntil: undefined });
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

  /** Brings a whole body into its files; gives the checksum of one without a sidecar. */
  async #bringTo(place: BodyPlace): Promise<number | undefined> {
    if (place === 'lone') return await this.#body.createLone();
    await this.#moveToFiles();
    return undefined;
  }

  /** What is to be put into the index. */
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

  /** The index counts from now on what the entry takes. */
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
   * Sees that there is room for one block more. The row of a published generation counts ahead of its files, so that it never
   * counts less than they take, not even after a crash. Throws `StoreFault`.
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
    // Where there is no room for more than what is needed, each block is counted by itself.
    const counted = (await this.#isRoomFor(aheadBytes)) ? aheadBytes : neededBytes;
    // It may have been removed while room was made for it.
    if (this.#standing !== 'current' || !index.resize(this.generation, counted)) return;
    this.#noteCounted(counted, counted - this.#allocated(place, extentBytes, this.#blockCount));
  }

  /** Reserves room if there is any; tells whether there was. */
  async #isRoomFor(bytes: number): Promise<boolean> {
    try {
      await this.#room.growTo(bytes);
      return true;
    } catch (error) {
      if (error instanceof StoreFault && error.reason === 'no_room') return false;
      throw error;
    }
  }

  /** Brings what the row counts up to date. */
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
      throw new RangeError(`A commit without block ${index}.`);
    }
  }

  /** Throws the `StoreFault` for which storing is off. */
  #admit(): void {
    if (!this.#isAdmitted) this.#parts.storing.check();
    this.#isAdmitted = true;
  }

  /** Takes one step after the other, until the writer is disposed. */
  #step<T>(take: () => Promise<T>): Promise<T> {
    if (this.#disposing === undefined) return this.#steps.take(take);
    return Promise.reject(new StoreFault('io', 'The writer was disposed.'));
  }

  /** Writes to the disk, and lets the switch know whether that went well. Throws `StoreFault`. */
  async #telling<T>(write: () => Promise<T>): Promise<T> {
    const { storing, space } = this.#parts;
    try {
      const result = await write();
      storing.succeeded();
      return result;
    } catch (error) {
      this.#dropDamaged(error);
      const isGone = this.#standing === 'removed' || this.#isRemovedElsewhere(error);
      const fault = isGone && isAbsence(error) ? removedFault(this.generation) : toStoreFault(error);
      // That others were faster, or have kept the index locked, says nothing about the disk.
      if (fault.reason === 'removed' || isBusy(fault.cause)) throw fault;
      storing.failed(fault);
      if (fault.reason === 'no_room') await space.measure();
      throw fault;
    }
  }

  /** Where there are no files in the place of those of an entry, it is damaged; that says nothing about the disk. */
  #dropDamaged(error: unknown): void {
    if (this.#standing !== 'current' || !isAbsence(error) || this.#isRemovedElsewhere(error)) return;
    const detail = `The files of generation ${this.generation} cannot be written: ${String(error)}`;
    this.#parts.index.removeDamaged(this.generation, detail);
  }

  /** Whether a file is gone because another process has removed the generation, of which this one may not have heard. */
  #isRemovedElsewhere(error: unknown): boolean {
    const isGone = this.#standing !== 'hidden' && systemCode(error) === 'ENOENT';
    return isGone && !this.#parts.index.has(this.generation);
  }

  #allocated(place: BodyPlace, sizeBytes: number, blockCount: number): number {
    return this.#rowBytes + bodyBytes(place, sizeBytes, blockCount, this.#parts.blockSizeBytes);
  }

  /** Metadata as the row will hold it; what the rows take is known then. */
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

/** The blocks of one generation. It is moved to files once, before more than a small body is written. */
class DiskBody implements BlockSource {
  readonly #generation: string;
  readonly #parts: Pick<DiskParts, 'files' | 'bodies'>;
  /** The length of the whole, as far as it was known at the beginning. */
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

  /** Whether it is in files, or on its way there. */
  get isInFiles(): boolean {
    return this.#file !== undefined;
  }

  /** Whether anything of it is on the disk beside the index. */
  get hasFiles(): boolean {
    return this.isInFiles || this.#hasLone;
  }

  /** Whether it is one block in a file without a sidecar. */
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
   * Opens what is on the disk already; one block without a sidecar with its checksum. Gives what the body takes there, in
   * bytes. Throws `ProxyError` `bytes_gone`.
   */
  async open(sizeBytes: number, blockChecksum?: number): Promise<number> {
    this.#file = await this.#parts.bodies.acquire(this.#generation, sizeBytes, blockChecksum);
    this.#loneChecksum = blockChecksum;
    const allocatedBytes = await this.#file.allocatedBytes();
    if (blockChecksum !== undefined) return allocatedBytes;
    await this.#file.loadSums();
    // Now, for the files may be removed later. What cannot be written can be read nevertheless.
    this.#writer = await this.#parts.files.openForWriting(this.#file).catch(() => undefined);
    return allocatedBytes;
  }

  has(index: number): boolean {
    return this.#held.has(index) || this.#file?.has(index) === true;
  }

  /** Whether a block was there, and turned out to be damaged. */
  hasLost(index: number): boolean {
    return this.#file?.hasLost(index) === true;
  }

  /** Keeps a block in memory. */
  hold(index: number, bytes: Uint8Array): void {
    this.#held.set(index, bytes);
  }

  /** Puts a body of one block into a file without a sidecar, if it is not there; gives its checksum. Throws the system's error. */
  async createLone(): Promise<number> {
    this.#hasLone = true;
    this.#loneChecksum ??= await this.#parts.files.createLone(this.#generation, this.bytes);
    return this.#loneChecksum;
  }

  /** Puts what is in memory into files; tells how many bytes that were. Throws the system's error; may be tried again. */
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

  /** Notes how long the whole is. */
  end(sizeBytes: number): void {
    this.#file?.end(sizeBytes);
  }

  /** Gives the files back. Never rejects. */
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

/** A step that need not wait for another one begins in the call that asks for it: most writers have one at a time. */
export class StepQueue {
  /** The last step that was asked for and is not over; never rejects. */
  #last: Promise<void> | undefined;

  /** Takes a step when those before it are over, done or failed; gives what it gives. */
  take<T>(step: () => Promise<T>): Promise<T> {
    const taken = this.#last === undefined ? step() : this.#last.then(step);
    const end = () => {
      if (this.#last === ended) this.#last = undefined;
    };
    const ended = taken.then(end, end);
    this.#last = ended;
    return taken;
  }

  /** Resolves when all steps that were asked for are over. */
  async settled(): Promise<void> {
    await this.#last;
  }
}

/** What a writer is made with. */
interface DiskWholeWriterOptions {
  readonly parts: DiskParts;
  readonly entry: NewEntry;
  readonly bytes: Uint8Array;
  readonly place: BodyPlace;
  readonly onDisposed: (generation: string) => void;
}

/** A writer. `reservedBytes` are to be reserved for it before anything else. */
export class DiskWholeWriter implements WholeWriter {
  readonly generation: string;
  readonly #options: DiskWholeWriterOptions;
  #reservedBytes: number;
  /** The metadata of the entry as its row holds it. */
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
    this.#reservedBytes = this.#takes(options.entry.metadata, this.#text);
  }

  get reservedBytes(): number {
    return this.#reservedBytes;
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
    // It may have been freshened since.
    const text = metadata === given.metadata ? this.#text : encodeMetadata(metadata);
    const allocatedBytes = this.#takes(metadata, text);
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

  /** What the entry takes on the disk, in bytes. */
  #takes({ tags }: StoredResponse, text: string): number {
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
