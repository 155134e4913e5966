/**
 * The checksums of a body: one for each block. A trace also has the checksum at each 8 KiB of the block, so that a piece can be
 * checked by itself. The sidecar file holds the checksums and thereby says which blocks are present; it is read page by page,
 * when needed.
 */

import { crc32 } from 'node:zlib';
import { type FileSystem, type OpenFile, openFile, readFully } from './file-system.ts';

/** Size of a record: the block's length and its checksum, 32 bits each, little-endian. Length 0 means that the block is absent. */
const recordBytes = 8;

/** The length and checksum of one block. */
export interface BlockSum {
  readonly sizeBytes: number;
  readonly checksum: number;
  /** How the pieces of the block are checked, where that is known: see `tracedSumOf`. The sidecar does not contain it. */
  readonly trace?: Uint32Array | undefined;
}

/** The checksums of consecutive blocks of one body. Absent blocks have none. */
export class BlockSums {
  #records: DataView<ArrayBuffer>;
  #count: number;

  /** Decodes records of a sidecar; without them no block is present. A record that is cut off at the end counts as absent. */
  constructor(encoded: Uint8Array = new Uint8Array()) {
    this.#records = new DataView(new Uint8Array(encoded).buffer);
    this.#count = Math.floor(encoded.length / recordBytes);
  }

  /** Returns the sum of a block; undefined when the block is absent. */
  get(index: number): BlockSum | undefined {
    if (index < 0 || index >= this.#count) return undefined;
    const sizeBytes = this.#records.getUint32(index * recordBytes, true);
    if (sizeBytes === 0) return undefined;
    return { sizeBytes, checksum: this.#records.getUint32(index * recordBytes + 4, true) };
  }

  /** Sets the sum of a block; undefined makes it absent. */
  set(index: number, sum: BlockSum | undefined): void {
    if (index >= this.#count) {
      if (sum === undefined) return;
      this.#growTo(index + 1);
    }
    this.#records.setUint32(index * recordBytes, sum?.sizeBytes ?? 0, true);
    this.#records.setUint32(index * recordBytes + 4, sum?.checksum ?? 0, true);
  }

  #growTo(count: number): void {
    this.#count = count;
    const neededBytes = this.#count * recordBytes;
    if (neededBytes <= this.#records.byteLength) return;
    const grown = new Uint8Array(Math.max(neededBytes, 2 * this.#records.byteLength));
    grown.set(new Uint8Array(this.#records.buffer));
    this.#records = new DataView(grown.buffer);
  }
}

/** Returns the sum of a block in its place. */
export function sumOf(generation: string, index: number, bytes: Uint8Array): BlockSum {
  return { sizeBytes: bytes.length, checksum: blockSum(generation, index, bytes) };
}

/** Checks whether two sums are the same. */
export function isSameSum(a: BlockSum | undefined, b: BlockSum | undefined): boolean {
  return a?.sizeBytes === b?.sizeBytes && a?.checksum === b?.checksum;
}

/**
 * Returns the checksum of a block: CRC-32 of its bytes, seeded with that of its generation and index, so that right bytes in a
 * wrong place are detected too.
 */
export function blockSum(generation: string, index: number, bytes: Uint8Array): number {
  return crc32(bytes, crc32(`${generation}/${index}`));
}

/**
 * Size of a piece, a part of a block that can be checked by itself, in bytes. Smaller pieces cost more calls when a whole block
 * is read; larger ones make a range read more bytes beside its own.
 */
export const pieceBytes = 8 * 1024;

/**
 * Returns the running checksum of a block: before the first piece, and after each piece. The last value is the block's checksum.
 * So once a block was checked, its pieces can be checked later, although the sidecar has no sums of them.
 */
function traceSum(generation: string, index: number, bytes: Uint8Array): Uint32Array {
  const count = Math.ceil(bytes.length / pieceBytes);
  const trace = new Uint32Array(count + 1);
  let sum = crc32(`${generation}/${index}`);
  trace[0] = sum;
  for (let piece = 0; piece < count; piece += 1) {
    sum = crc32(bytes.subarray(piece * pieceBytes, (piece + 1) * pieceBytes), sum);
    trace[piece + 1] = sum;
  }
  return trace;
}

/** Returns the sum of a block in its place, with its trace. */
export function tracedSumOf(generation: string, index: number, bytes: Uint8Array): BlockSum {
  const trace = traceSum(generation, index, bytes);
  return { sizeBytes: bytes.length, checksum: trace.at(-1) ?? 0, trace };
}

/** Checks bytes against the trace of their block. They must begin with a piece and end with a piece. */
export function matchesTrace(trace: Uint32Array, firstPiece: number, bytes: Uint8Array): boolean {
  return crc32(bytes, trace[firstPiece]) === trace[firstPiece + Math.ceil(bytes.length / pieceBytes)];
}

/** Encodes a sum as its record in a sidecar; undefined gives the record of an absent block. */
export function encodeSum(sum: BlockSum | undefined): Uint8Array {
  const record = new DataView(new ArrayBuffer(recordBytes));
  record.setUint32(0, sum?.sizeBytes ?? 0, true);
  record.setUint32(4, sum?.checksum ?? 0, true);
  return new Uint8Array(record.buffer);
}

/** Returns the bytes that the sums of this many blocks take in a sidecar. The record of block `i` begins at `sumsSizeBytes(i)`. */
export function sumsSizeBytes(blockCount: number): number {
  return blockCount * recordBytes;
}

/** Number of blocks whose records are read together: a page of the file system. */
const pageBlocks = 512;

/** The checksums of one body's blocks. Blocks of a page that was not read yet count as absent. */
export class Sidecar {
  readonly #pages = new Map<number, BlockSums>();
  readonly #loading = new Map<number, Promise<void>>();
  readonly #blockCount: number;
  /** Whether other processes may write blocks that are absent now. */
  readonly #isShared: boolean;
  /** The file, while some of it is still to be read; undefined when everything is known. */
  #file: OpenFile | undefined;
  /** The file, for reading later what other processes have written since. */
  #laterFile: OpenFile | undefined;

  private constructor(file: OpenFile | undefined, blockCount: number, isShared: boolean) {
    this.#file = file;
    this.#blockCount = blockCount;
    this.#isShared = isShared;
  }

  /** Returns the sidecar of a new body, which has no blocks. */
  static empty(): Sidecar {
    return new Sidecar(undefined, 0, false);
  }

  /**
   * Opens the sidecar of a body of this many blocks, so that it can be read although its files are removed. A sidecar of one page
   * is read and closed at once, unless blocks are absent that other processes may write. Throws the system's error.
   */
  static async open(fileSystem: FileSystem, path: string, blockCount: number, isShared = false): Promise<Sidecar> {
    const sidecar = new Sidecar(await openFile(fileSystem, path, 'read'), blockCount, isShared);
    try {
      if (blockCount <= pageBlocks) await sidecar.loadAll();
      return sidecar;
    } catch (error) {
      await sidecar.close();
      throw error;
    }
  }

  /** Checks whether the record of a block is known. */
  knows(index: number): boolean {
    return this.#file === undefined || this.#pages.has(Math.floor(index / pageBlocks));
  }

  /** Returns the sum of a block; undefined when the block is absent. */
  get(index: number): BlockSum | undefined {
    return this.#pages.get(Math.floor(index / pageBlocks))?.get(index % pageBlocks);
  }

  /** Sets the sum of a block whose record is known; undefined makes it absent. */
  set(index: number, sum: BlockSum | undefined): void {
    const number = Math.floor(index / pageBlocks);
    const page = this.#pages.get(number) ?? new BlockSums();
    this.#pages.set(number, page);
    page.set(index % pageBlocks, sum);
  }

  /** Reads the record of a block. Throws the system's error. */
  async load(index: number): Promise<void> {
    const number = Math.floor(index / pageBlocks);
    if (this.knows(index)) return;
    const loading = this.#loading.get(number) ?? this.#loadPages(number, number + 1);
    this.#loading.set(number, loading);
    try {
      await loading;
    } catch (error) {
      // The error does not matter where `loadAll` has meanwhile read everything and closed the file.
      if (!this.knows(index)) throw error;
    } finally {
      this.#loading.delete(number);
    }
  }

  /** Reads all records. Throws the system's error. */
  async loadAll(): Promise<void> {
    if (this.#file === undefined) return;
    await this.#loadPages(0, Math.ceil(this.#blockCount / pageBlocks));
    if (this.#isShared && this.#isAnyAbsent()) {
      this.#laterFile ??= this.#file;
      this.#file = undefined;
    } else {
      await this.close();
    }
  }

  /**
   * Reads again the records of the blocks from `start` up to `end` (exclusive). The sum of block `start` has index 0 in the
   * result. `reopen` opens the file where it is not open. Throws the system's error.
   */
  async readAgain(start: number, end: number, reopen: () => Promise<OpenFile>): Promise<BlockSums> {
    const openedFile = this.#file ?? this.#laterFile;
    const file = openedFile ?? (await reopen());
    try {
      const bytes = Buffer.alloc(sumsSizeBytes(end - start));
      const count = await readFully(file, bytes, sumsSizeBytes(start));
      return new BlockSums(bytes.subarray(0, count));
    } finally {
      if (openedFile === undefined) await file.close();
    }
  }

  /** Closes the file. Known records stay known, and all other blocks are absent. Never rejects. */
  async close(): Promise<void> {
    const files = [this.#file, this.#laterFile];
    this.#file = undefined;
    this.#laterFile = undefined;
    for (const file of files) await file?.close().catch(() => {});
  }

  #isAnyAbsent(): boolean {
    for (let index = 0; index < this.#blockCount; index += 1) if (this.get(index) === undefined) return true;
    return false;
  }

  async #loadPages(start: number, end: number): Promise<void> {
    const first = start * pageBlocks;
    const bytes = Buffer.alloc(sumsSizeBytes(Math.min(end * pageBlocks, this.#blockCount) - first));
    const count = this.#file === undefined ? 0 : await readFully(this.#file, bytes, sumsSizeBytes(first));
    for (let number = start; number < end; number += 1) {
      // Keeps the sums that were set since the page was first read.
      if (this.#pages.has(number)) continue;
      const from = sumsSizeBytes((number - start) * pageBlocks);
      const page = bytes.subarray(from, Math.min(from + sumsSizeBytes(pageBlocks), Math.max(count, from)));
      this.#pages.set(number, new BlockSums(page));
    }
  }
}
