/** What a sidecar file says of the blocks of a body, read page by page as it is asked for. */

import { type BlockSum, BlockSums, sumsSizeBytes } from './block-sums.ts';
import { type FileSystem, type OpenFile, openFile, readFully } from './file-system.ts';

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
