/**
 * The files of all bodies that are not in the index: `blocks/ab/<generation>.body`, and `.sums` where a body has a sidecar.
 * Creates, opens, lists and removes them. `BlockFileWriter` writes blocks, each followed by its checksum in the sidecar.
 */

import { join, sep } from 'node:path';
import { BlockFile, type BlockFileOptions, type LostBlock } from './block-file.ts';
import { blockSum, encodeSum, Sidecar, sumsSizeBytes } from './block-sums.ts';
import { createDirectory, type OpenFile, openFile, systemCode, writeFully } from './file-system.ts';
import type { QuickWrites } from './synchronous-io.ts';

/** Options of the body files. */
interface BodyFilesOptions extends Omit<BlockFileOptions, 'generation' | 'paths'> {
  /** The store's directory. */
  readonly dir: string;
  /** Writes bodies of one block in the same tick; undefined where the thread pool writes everything. */
  readonly quickWrites?: QuickWrites | undefined;
}

const shardPattern = /^[0-9a-zA-Z_-]{2}$/;
const filePattern = /^([0-9a-zA-Z_-]+)\.(?:body|sums)$/;

function noneIfAbsent(error: unknown): [] {
  if (systemCode(error) === 'ENOENT') return [];
  throw error;
}

/** Creates, opens, lists and removes the files of generations. The name of a generation consists of letters, digits, `-` and `_`. */
export class BodyFiles {
  readonly #options: BodyFilesOptions;
  readonly #blocksDir: string;

  constructor(options: BodyFilesOptions) {
    this.#options = options;
    this.#blocksDir = join(options.dir, 'blocks');
  }

  /** Creates the files of a new generation, whose length may still be unknown. Throws the system's error. */
  async create(generation: string, sizeBytes: number | undefined): Promise<BlockFileWriter> {
    return await this.#inShard(generation, () => BlockFileWriter.create(this.#fileOptions(generation), sizeBytes));
  }

  /** Creates the file of a body of one block, without a sidecar; returns its checksum. Throws the system's error. */
  async createLone(generation: string, bytes: Uint8Array): Promise<number> {
    const path = this.#paths(generation).body;
    try {
      const isWritten = this.#writeAtOnce(path, bytes);
      if (!isWritten) await this.#inShard(generation, () => this.#writeLone(path, bytes));
    } catch (error) {
      await this.#options.fileSystem.unlink(path).catch(() => {});
      throw error;
    }
    return blockSum(generation, 0, bytes);
  }

  /**
   * Opens a generation for reading. `blockChecksum` is that of a body of one block without a sidecar. Throws `ProxyError`
   * `bytes_gone`.
   */
  open(generation: string, sizeBytes: number, blockChecksum?: number): Promise<BlockFile> {
    const options = this.#fileOptions(generation);
    if (blockChecksum === undefined) return BlockFile.open(options, sizeBytes);
    // A body that loses its only block is lost.
    const onBlockLost = ({ detail }: LostBlock) => options.onBodyLost(generation, detail);
    return BlockFile.openLone({ ...options, onBlockLost }, { sizeBytes, checksum: blockChecksum });
  }

  /**
   * Reads a body of one block without a sidecar in the same tick, and checks it. Returns undefined where that is not possible, or
   * not known to be quick. Never throws.
   */
  readLone(generation: string, sizeBytes: number, checksum: number): Uint8Array | undefined {
    const bytes = this.#options.quickReads?.readFile(this.#paths(generation).body, sizeBytes);
    // Opening the file shows what is wrong with it.
    return bytes !== undefined && blockSum(generation, 0, bytes) === checksum ? bytes : undefined;
  }

  /** Opens a file that is open for reading for writing too. Throws the system's error. */
  openForWriting(file: BlockFile): Promise<BlockFileWriter> {
    return BlockFileWriter.open(this.#fileOptions(file.generation), file);
  }

  /**
   * Removes the files of a generation, or what is in their place; open readers keep the bytes. `hasSidecar` is true in doubt.
   * Returns whether the files are gone, and reports a file that is not. Never rejects; a later sweep tries again (`sweepBodies`).
   */
  async remove(generation: string, hasSidecar = true): Promise<boolean> {
    const { body, sums } = this.#paths(generation);
    const [isBodyGone, isSidecarGone] = await Promise.all([this.#remove(body), hasSidecar ? this.#remove(sums) : true]);
    return isBodyGone && isSidecarGone;
  }

  /**
   * Returns the generations that have files, one directory after the other. Files with other names are not ours, and links to
   * other directories are not followed. Throws the system's error where a directory cannot be listed.
   */
  async *generations(): AsyncGenerator<string> {
    for (const shard of await this.#listShards()) {
      const names = await this.#list(join(this.#blocksDir, shard));
      const generations = new Set(names.map((name) => filePattern.exec(name)?.[1]));
      for (const generation of generations) if (generation?.startsWith(shard)) yield generation;
    }
  }

  /** Creates files in the directory of a generation, and the directory where it is missing. */
  async #inShard<T>(generation: string, create: () => Promise<T>): Promise<T> {
    try {
      return await create();
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error;
      await createDirectory(this.#options.fileSystem, this.#shardDir(generation));
      return await create();
    }
  }

  /** Writes a file in the same tick; returns whether it did. Returns false where the directory has to be created first. */
  #writeAtOnce(path: string, bytes: Uint8Array): boolean {
    try {
      return this.#options.quickWrites?.create(path, bytes) === true;
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return false;
      throw error;
    }
  }

  async #writeLone(path: string, bytes: Uint8Array): Promise<void> {
    await using file = await this.#options.fileSystem.open(path, 'wx', 0o600);
    await writeFully(file, bytes, 0);
  }

  /** Removes a file, a link itself, or an empty directory. A directory with content is not ours, and stays. */
  async #remove(path: string): Promise<boolean> {
    const { fileSystem, onNotRemoved } = this.#options;
    try {
      await fileSystem.unlink(path).catch(async (error: unknown) => {
        // Linux reports EISDIR, POSIX EPERM.
        const isDirectory = ['EISDIR', 'EPERM'].includes(systemCode(error) ?? '');
        await (isDirectory ? fileSystem.rmdir(path) : Promise.reject(error));
      });
      return true;
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return true;
      onNotRemoved(path, error);
      return false;
    }
  }

  async #listShards(): Promise<string[]> {
    const { fileSystem } = this.#options;
    const entries = await fileSystem.readdir(this.#blocksDir, { withFileTypes: true }).catch(noneIfAbsent);
    return entries.filter((entry) => entry.isDirectory() && shardPattern.test(entry.name)).map(({ name }) => name);
  }

  async #list(dir: string): Promise<string[]> {
    return await this.#options.fileSystem.readdir(dir).catch(noneIfAbsent);
  }

  #fileOptions(generation: string): BlockFileOptions {
    return { ...this.#options, generation, paths: this.#paths(generation) };
  }

  #shardDir(generation: string): string {
    return `${this.#blocksDir}${sep}${generation.slice(0, 2)}`;
  }

  #paths(generation: string): BlockFileOptions['paths'] {
    const path = `${this.#shardDir(generation)}${sep}${generation}`;
    return { body: `${path}.body`, sums: `${path}.sums` };
  }
}

/**
 * Writes an open body and its sidecar. A checksum is written only after its block, so that after a crash each block is either
 * present as the sidecar says, or is found damaged.
 */
export class BlockFileWriter {
  readonly file: BlockFile;
  readonly #blockSizeBytes: number;
  readonly #body: OpenFile;
  readonly #sums: OpenFile;
  /** Whether readers use the same handle, which they then close. */
  readonly #isBodyShared: boolean;

  private constructor(file: BlockFile, blockSizeBytes: number, body: OpenFile, sums: OpenFile, isBodyShared: boolean) {
    this.file = file;
    this.#blockSizeBytes = blockSizeBytes;
    this.#body = body;
    this.#sums = sums;
    this.#isBodyShared = isBodyShared;
  }

  /** Creates the files of a new generation. The caller closes `file`. Throws the system's error. */
  static async create(options: BlockFileOptions, sizeBytes: number | undefined): Promise<BlockFileWriter> {
    const { fileSystem, paths } = options;
    const create = (path: string, flags: string) => fileSystem.open(path, flags, 0o600);
    const opened = openBoth(create(paths.body, 'wx+'), () => create(paths.sums, 'wx'));
    const [body, sums] = await opened.catch(async (error: unknown) => {
      await options.fileSystem.unlink(options.paths.body).catch(() => {});
      throw error;
    });
    const file = new BlockFile(options, body, Sidecar.empty(), sizeBytes);
    return new BlockFileWriter(file, options.blockSizeBytes, body, sums, true);
  }

  /** Opens the files of a generation that is being read for writing too. Throws the system's error. */
  static async open(options: BlockFileOptions, file: BlockFile): Promise<BlockFileWriter> {
    const { fileSystem, paths } = options;
    const open = (path: string) => openFile(fileSystem, path, 'write');
    const [body, sums] = await openBoth(open(paths.body), () => open(paths.sums));
    return new BlockFileWriter(file, options.blockSizeBytes, body, sums, false);
  }

  /** Writes a block. Throws the system's error; the block is then absent. */
  async write(index: number, bytes: Uint8Array): Promise<void> {
    const sum = this.file.sumOf(index, bytes);
    await this.file.whenErased();
    await writeFully(this.#body, bytes, index * this.#blockSizeBytes);
    await writeFully(this.#sums, encodeSum(sum), sumsSizeBytes(index));
    this.file.note(index, sum);
  }

  /** Closes the handles that are not shared with readers. Never rejects. */
  async close(): Promise<void> {
    // An error here means that written bytes were lost, which their checksums will show.
    await Promise.allSettled([this.#sums.close(), this.#isBodyShared ? undefined : this.#body.close()]);
  }
}

async function openBoth(
  opening: Promise<OpenFile>,
  openSums: () => Promise<OpenFile>,
): Promise<[body: OpenFile, sums: OpenFile]> {
  const body = await opening;
  try {
    return [body, await openSums()];
  } catch (error) {
    await body.close();
    throw error;
  }
}
