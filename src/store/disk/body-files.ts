/** The files of all bodies that are not in the index: `blocks/ab/<generation>.body` and its `.sums`. */

import { join } from 'node:path';
import { BlockFile, type BlockFilePaths } from './block-file.ts';
import { createDirectory } from './create-directory.ts';
import { type FileSystem, systemCode } from './file-system.ts';

/** What the files are kept with. */
export interface BodyFilesOptions {
  /** The store's directory. */
  readonly dir: string;
  readonly blockSizeBytes: number;
  readonly fileSystem: FileSystem;
  /** Is told when a body turns out to be damaged or gone. */
  readonly onDamaged: (generation: string, detail: string) => void;
}

const shardPattern = /^[0-9a-zA-Z_-]{2}$/;
const filePattern = /^([0-9a-zA-Z_-]+)\.(?:body|sums)$/;

/** Creates, opens and removes the files of generations. A generation's name is of letters, digits, `-` and `_`. */
export class BodyFiles {
  readonly #options: BodyFilesOptions;
  readonly #blocksDir: string;

  constructor(options: BodyFilesOptions) {
    this.#options = options;
    this.#blocksDir = join(options.dir, 'blocks');
  }

  /** Creates the file of a new generation. Throws the system's error. */
  async create(generation: string): Promise<BlockFile> {
    const { fileSystem } = this.#options;
    const { body } = this.#paths(generation);
    const create = () => BlockFile.create(fileSystem, body, { ...this.#options, generation });
    try {
      return await create();
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error;
      await createDirectory(fileSystem, this.#shardDir(generation));
      return await create();
    }
  }

  /** Writes the sidecar of a generation whose blocks are all written. Throws the system's error. */
  finish(generation: string, file: BlockFile): Promise<void> {
    return file.finish(this.#options.fileSystem, this.#paths(generation).sums);
  }

  /** Opens a finished generation. Throws `ProxyError` `bytes_gone`. */
  open(generation: string, sizeBytes: number): Promise<BlockFile> {
    const { fileSystem } = this.#options;
    return BlockFile.open(fileSystem, this.#paths(generation), { ...this.#options, generation, sizeBytes });
  }

  /** Removes the files of a generation; whoever has them open keeps the bytes. Never rejects: see `sweepBodies`. */
  async remove(generation: string): Promise<void> {
    const { body, sums } = this.#paths(generation);
    await Promise.allSettled([this.#options.fileSystem.unlink(body), this.#options.fileSystem.unlink(sums)]);
  }

  /** The generations that have files, one directory after the other. What has another name is not ours. */
  async *generations(): AsyncGenerator<string> {
    for (const shard of await this.#list(this.#blocksDir)) {
      if (!shardPattern.test(shard)) continue;
      const names = await this.#list(join(this.#blocksDir, shard));
      const generations = new Set(names.map((name) => filePattern.exec(name)?.[1]));
      for (const generation of generations) if (generation?.startsWith(shard)) yield generation;
    }
  }

  async #list(dir: string): Promise<string[]> {
    try {
      return await this.#options.fileSystem.readdir(dir);
    } catch {
      return [];
    }
  }

  #shardDir(generation: string): string {
    return join(this.#blocksDir, generation.slice(0, 2));
  }

  #paths(generation: string): BlockFilePaths {
    const path = join(this.#shardDir(generation), generation);
    return { body: `${path}.body`, sums: `${path}.sums` };
  }
}
