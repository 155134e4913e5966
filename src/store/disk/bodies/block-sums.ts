/**
 * The checksums of a body: one for each block, with the sum noted at each 8 KiB so that a piece can be checked by itself. And the
 * sidecar file that holds them, which also says which blocks are present; it is read page by page when it is needed.
 */

import { crc32 } from 'node:zlib';
import { type FileSystem, type OpenFile, openFile, readFully } from './file-system.ts';

/** A record: the block's length and its checksum, 32 bits each, little-endian. Length 0: the block is absent. */
const recordBytes = 8;

/** What is known of one block. */
export interface BlockSum {
  readonly sizeBytes: number;
  readonly checksum: number;
  /** How the pieces of the block are checked, where that is known: see `tracedSumOf`. No sidecar says it. */
  readonly trace?: Uint32Array | undefined;
}

/** The checksums of one body's blocks, as far as they are there. */
export class BlockSums {
  #records: DataView<ArrayBuffer>;
  #count: number;

  /** The sums of a new body, or those of a sidecar; what is cut off at the end of it is absent. */
  constructor(encoded: Uint8Array = new Uint8Array()) {
    this.#records = new DataView(new Uint8Array(encoded).buffer);
    this.#count = Math.floor(encoded.length / recordBytes);
  }

  /** The sum of a block; undefined when the block is absent. */
  get(index: number): BlockSum | undefined {
    if (index < 0 || index >= this.#count) return undefined;
    const sizeBytes = this.#records.getUint32(index * recordBytes, true);
    if (sizeBytes === 0) return undefined;
    return { sizeBytes, checksum: this.#records.getUint32(index * recordBytes + 4, true) };
  }

  /** Notes the sum of a block; undefined makes it absent. */
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

/** The sum of a block in its place. */
export function sumOf(generation: string, index: number, bytes: Uint8Array): BlockSum {
  return { sizeBytes: bytes.length, checksum: blockSum(generation, index, bytes) };
}

/** Whether two sums are the same. */
export function isSameSum(a: BlockSum | undefined, b: BlockSum | undefined): boolean {
  return a?.sizeBytes === b?.sizeBytes && a?.checksum === b?.checksum;
}

/**
 * The checksum of a block: CRC-32 of its bytes, begun with that of its generation and index, so that right bytes in a
 * wrong place are found out too.
 */
export function blockSum(generation: string, index: number, bytes: Uint8Array): number {
  return crc32(bytes, crc32(`${generation}/${index}`));
}

/**
 * A part of a block that can be checked for itself, in bytes. Smaller ones cost more calls when a whole block is read,
 * larger ones more bytes that a range has to read beside its own.
 */
export const pieceBytes = 8 * 1024;

/**
 * The checksum of a block on its way: what it is before the first piece, and after each. The last value is the block's
 * checksum, so whoever has checked a block can check its pieces later, though the sidecar says nothing of them.
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

/** The sum of a block in its place, with its trace. */
export function tracedSumOf(generation: string, index: number, bytes: Uint8Array): BlockSum {
  const trace = traceSum(generation, index, bytes);
  return { sizeBytes: bytes.length, checksum: trace.at(-1) ?? 0, trace };
}

/** Whether bytes are those of which a trace was made, from one piece on to the end of another. */
export function isOnTrace(trace: Uint32Array, firstPiece: number, bytes: Uint8Array): boolean {
  return crc32(bytes, trace[firstPiece]) === trace[firstPiece + Math.ceil(bytes.length / pieceBytes)];
}

/** A sum as its record in a sidecar; undefined gives the record of an absent block. */
export function encodeSum(sum: BlockSum | undefined): Uint8Array {
  const record = new DataView(new ArrayBuffer(recordBytes));
  record.setUint32(0, sum?.sizeBytes ?? 0, true);
  record.setUint32(4, sum?.checksum ?? 0, true);
  return new Uint8Array(record.buffer);
}

/** How many bytes the sums of so many blocks take in a sidecar; the record of block `i` begins at that of `i` blocks. */
export function sumsSizeBytes(blockCount: number): number {
  return blockCount * recordBytes;
}

/** So many blocks are told of at once: a page of the file system. */
const pageBlocks = 512;

/** The checksums of one body's blocks. Of a page that has not been read yet, no block is there. */
export class Sidecar {
  readonly #pages = new Map<number, BlockSums>();
  readonly #loading = new Map<number, Promise<void>>();
  readonly #blockCount: number;
  /** Whether other processes may write blocks that are absent now. */
  readonly #isShared: boolean;
  /** What is still to be read from; undefined when all is known. */
  #file: OpenFile | undefined;
  /** Where it may be read later what others have written since. */
  #laterFile: OpenFile | undefined;

  private constructor(file: OpenFile | undefined, blockCount: number, isShared: boolean) {
    this.#file = file;
    this.#blockCount = blockCount;
    this.#isShared = isShared;
  }

  /** That of a new body, of which no block is there. */
  static empty(): Sidecar {
    return new Sidecar(undefined, 0, false);
  }

  /**
   * Opens that of a body of so many blocks, so that it can be read although its files are removed. A sidecar of one page is
   * read and closed at once, unless blocks are absent that other processes may write. Throws the system's error.
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

  /** Whether it is known what is said of a block. */
  knows(index: number): boolean {
    return this.#file === undefined || this.#pages.has(Math.floor(index / pageBlocks));
  }

  /** The sum of a block; undefined when the block is absent. */
  get(index: number): BlockSum | undefined {
    return this.#pages.get(Math.floor(index / pageBlocks))?.get(index % pageBlocks);
  }

  /** Notes the sum of a block of which it is known what is said; undefined makes it absent. */
  set(index: number, sum: BlockSum | undefined): void {
    const number = Math.floor(index / pageBlocks);
    const page = this.#pages.get(number) ?? new BlockSums();
    this.#pages.set(number, page);
    page.set(index % pageBlocks, sum);
  }

  /** Reads what is said of a block. Throws the system's error. */
  async load(index: number): Promise<void> {
    const number = Math.floor(index / pageBlocks);
    if (this.knows(index)) return;
    const loading = this.#loading.get(number) ?? this.#loadPages(number, number + 1);
    this.#loading.set(number, loading);
    try {
      await loading;
    } catch (error) {
      // Whoever read all of it meanwhile has closed the file.
      if (!this.knows(index)) throw error;
    } finally {
      this.#loading.delete(number);
    }
  }

  /** Reads all of it. Throws the system's error. */
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
   * Reads once more what the file says of the blocks from one index to before another; `reopen` opens it where it is not
   * open. Throws the system's error.
   */
  async readAgain(start: number, end: number, reopen: () => Promise<OpenFile>): Promise<BlockSums> {
    const kept = this.#file ?? this.#laterFile;
    const file = kept ?? (await reopen());
    try {
      const bytes = Buffer.alloc(sumsSizeBytes(end - start));
      const count = await readFully(file, bytes, sumsSizeBytes(start));
      return new BlockSums(bytes.subarray(0, count));
    } finally {
      if (kept === undefined) await file.close();
    }
  }

  /** Closes the file; what is known stays so, and the rest is absent. Never rejects. */
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
      // What was noted of a page since it was read first is not to be undone.
      if (this.#pages.has(number)) continue;
      const from = sumsSizeBytes((number - start) * pageBlocks);
      const page = bytes.subarray(from, Math.min(from + sumsSizeBytes(pageBlocks), Math.max(count, from)));
      this.#pages.set(number, new BlockSums(page));
    }
  }
}
