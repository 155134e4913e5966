/** One body in a file, its blocks at their offsets, and what its sidecar file says of them. */

import { spanOfBlock, spanSize } from '../../bytes/span.ts';
import type { ProxyError } from '../../http/proxy-error.ts';
import { type BlockSum, encodeSum, isSameSum, sumOf, sumsSizeBytes, tracedSumOf } from './block-sums.ts';
import { type BodyListeners, gone, isPassing, lostBody } from './body-fault.ts';
import { type FileSystem, type OpenFile, openFile, readFully, versionOf, writeFully } from './file-system.ts';
import { QuickFile } from './quick-file.ts';
import type { QuickReads } from './quick-reads.ts';
import { Sidecar } from './sidecar.ts';

/** The unit in which stat(2) tells what a file takes on the disk, in bytes. */
const statBlockBytes = 512;

/** Where the two files of a generation are. */
export interface BlockFilePaths {
  readonly body: string;
  readonly sums: string;
}

/** A block that somebody wanted to read and that is not there. */
export interface LostBlock {
  readonly generation: string;
  readonly detail: string;
  /** Whether the sidecar said that it was there. */
  readonly isDamaged: boolean;
}

/** What the files of a generation are opened with. */
export interface BlockFileOptions extends BodyListeners {
  readonly generation: string;
  readonly blockSizeBytes: number;
  readonly fileSystem: FileSystem;
  readonly paths: BlockFilePaths;
  /** Whether other processes may write into the files too: what a sidecar has not said, it may say later. */
  readonly isShared?: boolean;
  /** With them, pieces of blocks that were checked before are read in the same tick. */
  readonly quickReads?: QuickReads | undefined;
  /** Is told when a block turns out to be absent, once for each that is damaged. */
  readonly onBlockLost: (lost: LostBlock) => void;
}

/**
 * An open body, shared by all who read and write it. Every block that is read is checked against its checksum; one that
 * does not match is absent from then on, here and in the sidecar.
 */
export class BlockFile {
  readonly generation: string;
  readonly #options: BlockFileOptions;
  readonly #file: OpenFile;
  readonly #sums: Sidecar;
  readonly #lost = new Set<number>();
  /** Those of them of which the sidecar may still say what it said before. */
  readonly #unerased = new Set<number>();
  readonly #reading = new Set<Promise<unknown>>();
  /** What quick reads know it as. */
  readonly #number: number;
  readonly #quick: QuickFile | undefined;
  #sizeBytes: number | undefined;
  #erasing: Promise<void> = Promise.resolve();
  #closing: Promise<void> | undefined;

  /**
   * Takes over a file that was opened, what its sidecar says, its whole length where it is known, and its version where it
   * was not created just now.
   */
  constructor(options: BlockFileOptions, file: OpenFile, sums: Sidecar, sizeBytes?: number, version?: string) {
    this.generation = options.generation;
    this.#options = options;
    this.#file = file;
    this.#sums = sums;
    this.#sizeBytes = sizeBytes;
    const { quickReads, blockSizeBytes } = options;
    this.#number = quickReads?.numberOf(options.generation) ?? 0;
    const sizeOfBlock = (index: number) => {
      if (!sums.knows(index)) this.#loadSumForLater(index);
      return sums.get(index)?.sizeBytes ?? 0;
    };
    const checksumOf = (index: number) => {
      const sum = sums.get(index);
      return this.#fits(index, sum) ? sum.checksum : undefined;
    };
    const checkBlock = (index: number, bytes: Uint8Array) =>
      this.has(index) && this.#isSound(index, sums.get(index), bytes);
    const identity = version ?? this;
    const body = { fd: file.fd, identity, number: this.#number, blockSizeBytes, sizeOfBlock, checksumOf, checkBlock };
    this.#quick = quickReads && new QuickFile(body, quickReads);
  }

  /**
   * Opens the body of an entry for reading, which costs the same however long it is. Throws `ProxyError` `bytes_gone`.
   */
  static async open(options: BlockFileOptions, sizeBytes: number): Promise<BlockFile> {
    const { fileSystem, paths, blockSizeBytes, isShared } = options;
    let file: OpenFile | undefined;
    try {
      file = await openFile(fileSystem, paths.body, 'read');
      const sums = await Sidecar.open(fileSystem, paths.sums, Math.ceil(sizeBytes / blockSizeBytes), isShared);
      const { move, trustsLateChecks = false } = options.quickReads ?? {};
      // Otherwise nothing is noted as checked.
      const version = move !== undefined || trustsLateChecks ? await versionOf(file) : undefined;
      return new BlockFile(options, file, sums, sizeBytes, version);
    } catch (error) {
      await file?.close();
      throw lostBody(options.generation, options, error);
    }
  }

  /** Opens a body that is one block, the sum of which is known, for reading. Throws `ProxyError` `bytes_gone`. */
  static async openLone(options: BlockFileOptions, sum: BlockSum): Promise<BlockFile> {
    try {
      const file = await openFile(options.fileSystem, options.paths.body, 'read');
      const sums = Sidecar.empty();
      sums.set(0, sum);
      return new BlockFile(options, file, sums, sum.sizeBytes);
    } catch (error) {
      throw lostBody(options.generation, options, error);
    }
  }

  /** Finds out about all blocks, for those who write. Throws `ProxyError` `bytes_gone`. */
  async loadSums(): Promise<void> {
    try {
      await this.#sums.loadAll();
    } catch (error) {
      throw lostBody(this.generation, this.#options, error);
    }
    const blockCount = Math.ceil((this.#sizeBytes ?? 0) / this.#options.blockSizeBytes);
    if (this.#options.isShared === true && blockCount > 0) await this.#learn(0, blockCount);
  }

  /** Whether a block is there, as far as is known without reading it; needs `loadSums` in a file that was opened. */
  has(index: number): boolean {
    return this.#fits(index, this.#sums.get(index));
  }

  /** What it takes on the disk now, in bytes; 0 where the system cannot tell. */
  async allocatedBytes(): Promise<number> {
    const stats = await this.#file.stat().catch(() => undefined);
    return (stats?.blocks ?? 0) * statBlockBytes;
  }

  /** Whether it is, or may be, of more than one block. */
  get isLong(): boolean {
    return this.#sizeBytes === undefined || this.#sizeBytes > this.#options.blockSizeBytes;
  }

  /** Whether a block was there, and turned out to be damaged. */
  hasLost(index: number): boolean {
    return this.#lost.has(index);
  }

  /** Reads a block and checks it. Throws `ProxyError` `bytes_gone` when it is absent, damaged or cannot be read. */
  async read(index: number): Promise<Uint8Array> {
    const { generation } = this.#options;
    if (this.#closing !== undefined) throw gone(`Generation ${generation} was closed.`);
    if (this.#expectedSize(index) === 0) throw gone(`There is no block ${index} in generation ${generation}.`);
    return await this.#noteReading(this.#read(index));
  }

  /** The file stays open until it is over. */
  async #noteReading<T>(reading: Promise<T>): Promise<T> {
    this.#reading.add(reading);
    try {
      return await reading;
    } finally {
      this.#reading.delete(reading);
    }
  }

  async #read(index: number): Promise<Uint8Array> {
    const { generation, blockSizeBytes } = this.#options;
    const name = `Block ${index} of generation ${generation}`;
    if (!this.#sums.knows(index)) await this.#loadSum(index);
    if (this.#options.isShared === true && !this.has(index)) await this.#learn(index, index + 1);
    const sum = this.#sums.get(index);
    if (!this.#fits(index, sum)) throw this.#lose(index, sum, `${name} is not in the sidecar.`);
    try {
      const bytes = Buffer.allocUnsafeSlow(sum.sizeBytes);
      const count = await readFully(this.#file, bytes, index * blockSizeBytes);
      if (this.#isSound(index, sum, bytes.subarray(0, count))) return bytes;
    } catch (error) {
      if (isPassing(error)) throw gone(`${name} cannot be read now: ${String(error)}`, error);
      throw this.#lose(index, sum, `${name} cannot be read: ${String(error)}`, error);
    }
    throw this.#lose(index, sum, `${name} does not match its checksum.`);
  }

  /** What is read, or moved, in the same tick; undefined where nothing is. To be used in this tick only. */
  get quick(): QuickFile | undefined {
    return this.#closing === undefined ? this.#quick : undefined;
  }

  /** The sum of a block that is about to be written. Whoever wants to read a body of one block soon has it in memory. */
  sumOf(index: number, bytes: Uint8Array): BlockSum {
    const { generation, quickReads } = this.#options;
    return (quickReads === undefined || !this.isLong ? sumOf : tracedSumOf)(generation, index, bytes);
  }

  /** Notes what was written of a block: from now on it is there. */
  note(index: number, sum: BlockSum): void {
    this.#noteTrace(index, sum);
    this.#sums.set(index, sum);
    this.#lost.delete(index);
  }

  /** Notes how long the whole is, when that was not known before. */
  end(sizeBytes: number): void {
    this.#sizeBytes = sizeBytes;
  }

  /** Resolves when the sidecar says of lost blocks that they are absent. Only then they may be written anew. */
  whenErased(): Promise<void> {
    return this.#erasing;
  }

  /** Closes the file when what is being read has been read. Never rejects. */
  close(): Promise<void> {
    // An error here says that written bytes were lost; their checksums will tell.
    this.#closing ??= Promise.allSettled(this.#reading)
      .then(() => this.#erasing)
      .then(() => Promise.allSettled([this.#file.close(), this.#sums.close()]))
      .then(() => {});
    return this.#closing;
  }

  async #loadSum(index: number): Promise<void> {
    try {
      await this.#sums.load(index);
    } catch (error) {
      throw lostBody(this.generation, this.#options, error);
    }
  }

  /** Finds out about a block for whoever asks for it again: who has its bytes in memory reads none of the file. */
  #loadSumForLater(index: number): void {
    // Whoever reads the block learns why it cannot be known.
    if (this.#closing === undefined) this.#noteReading(this.#sums.load(index)).catch(() => {});
  }

  /** Learns which blocks another process has written since. What cannot be learned stays absent here. */
  async #learn(start: number, end: number): Promise<void> {
    const { fileSystem, paths } = this.#options;
    const reopen = () => openFile(fileSystem, paths.sums, 'read');
    const sums = await this.#sums.readAgain(start, end, reopen).catch(() => undefined);
    for (let index = start; sums !== undefined && index < end; index += 1) {
      const sum = sums.get(index - start);
      if (sum !== undefined && !this.has(index) && !this.#unerased.has(index)) this.note(index, sum);
    }
  }

  /** Whether the bytes that were read of a block have its checksum. */
  #isSound(index: number, sum: BlockSum | undefined, bytes: Uint8Array): boolean {
    const { generation, quickReads } = this.#options;
    const read = (quickReads === undefined ? sumOf : tracedSumOf)(generation, index, bytes);
    if (!isSameSum(sum, read)) return false;
    // Unless it was lost meanwhile, or written anew.
    if (isSameSum(sum, this.#sums.get(index))) this.#noteTrace(index, read);
    return true;
  }

  #noteTrace(index: number, { trace }: BlockSum): void {
    if (trace === undefined) this.#options.quickReads?.forgetTrace(this.#number, index);
    else this.#options.quickReads?.noteTrace(this.#number, index, trace);
  }

  #fits(index: number, sum: BlockSum | undefined): sum is BlockSum {
    return sum !== undefined && sum.sizeBytes === (this.#expectedSize(index) ?? sum.sizeBytes);
  }

  /** How long a block must be; 0 when there is none of this index, undefined while that is not known. */
  #expectedSize(index: number): number | undefined {
    if (this.#sizeBytes === undefined) return undefined;
    if (index < 0) return 0;
    return Math.max(0, spanSize(spanOfBlock(index, this.#options.blockSizeBytes, this.#sizeBytes)));
  }

  /** Makes a block absent, unless somebody did before or has written it anew. Gives what to throw. */
  #lose(index: number, sum: BlockSum | undefined, detail: string, cause?: unknown): ProxyError {
    const { generation } = this.#options;
    if (isSameSum(sum, this.#sums.get(index))) {
      if (sum !== undefined) this.#erase(index);
      this.#options.onBlockLost({ generation, detail, isDamaged: sum !== undefined });
    }
    return gone(detail, cause);
  }

  #erase(index: number): void {
    const { fileSystem, paths } = this.#options;
    this.#options.quickReads?.forgetTrace(this.#number, index);
    this.#sums.set(index, undefined);
    this.#lost.add(index);
    this.#unerased.add(index);
    const erase = () => eraseSum(fileSystem, paths.sums, index).then(() => void this.#unerased.delete(index));
    // What the sidecar cannot be told is found out again by the next one who reads the block.
    this.#erasing = this.#erasing.then(erase).catch(() => {});
  }
}

async function eraseSum(fileSystem: FileSystem, path: string, index: number): Promise<void> {
  const file = await openFile(fileSystem, path, 'write');
  try {
    await writeFully(file, encodeSum(undefined), sumsSizeBytes(index));
  } finally {
    await file.close();
  }
}
