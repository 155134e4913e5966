/** One body in a file, its blocks at their offsets, and the sidecar file of their checksums. */

import type { FileHandle } from 'node:fs/promises';
import { spanOfBlock } from '../../bytes/span.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import { BlockSums } from './block-sums.ts';
import { type FileSystem, systemCode } from './file-system.ts';

/** Where the two files of a generation are. */
export interface BlockFilePaths {
  readonly body: string;
  readonly sums: string;
}

/** What the file of a generation is opened with. */
export interface BlockFileOptions {
  readonly generation: string;
  readonly blockSizeBytes: number;
  /** Is told once for each read that found the body damaged. */
  readonly onDamaged: (generation: string, detail: string) => void;
}

/** Errors of the system that say nothing about a file, only that there are too few of something to open it now. */
const shortages: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN']);

/** An open body. Every block that is read is checked against its checksum. */
export class BlockFile {
  readonly #options: BlockFileOptions;
  readonly #handle: FileHandle;
  readonly #sums: BlockSums;
  /** The size of a finished body; while it is being written, only the sums say which blocks there are. */
  readonly #sizeBytes: number | undefined;
  #closing: Promise<void> | undefined;

  private constructor(options: BlockFileOptions, handle: FileHandle, sums: BlockSums, sizeBytes?: number) {
    this.#options = options;
    this.#handle = handle;
    this.#sums = sums;
    this.#sizeBytes = sizeBytes;
  }

  /** Creates the body's file for writing and reading. Throws the system's error. */
  static async create(fileSystem: FileSystem, path: string, options: BlockFileOptions): Promise<BlockFile> {
    const handle = await fileSystem.open(path, 'wx+', 0o600);
    return new BlockFile(options, handle, new BlockSums(options.generation));
  }

  /** Opens a finished body for reading. Throws `ProxyError` `bytes_gone`. */
  static async open(
    fileSystem: FileSystem,
    paths: BlockFilePaths,
    options: BlockFileOptions & { readonly sizeBytes: number },
  ): Promise<BlockFile> {
    const { generation, sizeBytes, onDamaged } = options;
    let handle: FileHandle | undefined;
    try {
      handle = await fileSystem.open(paths.body, 'r');
      const sums = await readSums(fileSystem, paths.sums);
      return new BlockFile(options, handle, new BlockSums(generation, sums), sizeBytes);
    } catch (error) {
      await handle?.close();
      const detail = `Generation ${generation} cannot be opened: ${String(error)}`;
      if (!shortages.has(systemCode(error) ?? '')) onDamaged(generation, detail);
      throw gone(detail, error);
    }
  }

  /** Writes a block. Throws the system's error. */
  async write(index: number, bytes: Uint8Array): Promise<void> {
    await writeAll(this.#handle, bytes, index * this.#options.blockSizeBytes);
    this.#sums.note(index, bytes);
  }

  /** Writes the sidecar: from now on the body can be opened. Throws the system's error. */
  async finish(fileSystem: FileSystem, sumsPath: string): Promise<void> {
    const handle = await fileSystem.open(sumsPath, 'wx', 0o600);
    try {
      await writeAll(handle, this.#sums.encode(), 0);
    } finally {
      await handle.close();
    }
  }

  /** Reads a block and checks it. Throws `ProxyError` `bytes_gone` when it is absent, damaged or cannot be read. */
  async read(index: number): Promise<Uint8Array> {
    const { generation, blockSizeBytes } = this.#options;
    if (this.#closing !== undefined) throw gone(`Generation ${generation} was closed.`);
    const length = this.#lengthOf(index);
    if (length === 0) throw gone(`Generation ${generation} has no block ${index}.`);
    try {
      const bytes = Buffer.allocUnsafeSlow(length);
      const count = await readInto(this.#handle, bytes, index * blockSizeBytes);
      if (this.#sums.match(index, bytes.subarray(0, count))) return bytes;
    } catch (error) {
      throw this.#damaged(`Block ${index} of generation ${generation} cannot be read: ${String(error)}`, error);
    }
    throw this.#damaged(`Block ${index} of generation ${generation} does not match its checksum.`);
  }

  /** Closes the file when what is being read has been read. Never rejects. */
  close(): Promise<void> {
    // An error here says that written bytes were lost; their checksums will tell.
    this.#closing ??= this.#handle.close().catch(() => {});
    return this.#closing;
  }

  /** How long a block must be; 0 when there is none of this index. */
  #lengthOf(index: number): number {
    if (this.#sizeBytes === undefined) return this.#sums.lengthOf(index);
    const { start, end } = spanOfBlock(index, this.#options.blockSizeBytes, this.#sizeBytes);
    return Math.max(0, end - start);
  }

  #damaged(detail: string, cause?: unknown): ProxyError {
    this.#options.onDamaged(this.#options.generation, detail);
    return gone(detail, cause);
  }
}

function gone(detail: string, cause?: unknown): ProxyError {
  return new ProxyError('bytes_gone', { detail, cause });
}

async function readSums(fileSystem: FileSystem, path: string): Promise<Uint8Array> {
  const handle = await fileSystem.open(path, 'r');
  try {
    return await handle.readFile();
  } finally {
    await handle.close();
  }
}

/** Reads until the bytes are full or the file ends; gives how many were read. */
async function readInto(handle: FileHandle, bytes: Uint8Array, position: number): Promise<number> {
  let count = 0;
  while (count < bytes.length) {
    const { bytesRead } = await handle.read(bytes, count, bytes.length - count, position + count);
    if (bytesRead === 0) break;
    count += bytesRead;
  }
  return count;
}

async function writeAll(handle: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  let count = 0;
  while (count < bytes.length) {
    const { bytesWritten } = await handle.write(bytes, count, bytes.length - count, position + count);
    count += bytesWritten;
  }
}
