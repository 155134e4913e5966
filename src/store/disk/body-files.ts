/** The files of all bodies that are not in the index: `blocks/ab/<generation>.body` and its `.sums`. */

import { join } from 'node:path';
import { BlockFile, type BlockFileOptions } from './block-file.ts';
import { BlockFileWriter } from './block-file-writer.ts';
import { createDirectory } from './create-directory.ts';
import { systemCode } from './file-system.ts';

/** What the files are kept with. */
export interface BodyFilesOptions extends Omit<BlockFileOptions, 'generation' | 'paths'> {
  /** The store's directory. */
  readonly dir: string;
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

  /** Creates the files of a new generation; its length may be unknown yet. Throws the system's error. */
  async create(generation: string, sizeBytes: number | undefined): Promise<BlockFileWriter> {
    const create = () => BlockFileWriter.create(this.#fileOptions(generation), sizeBytes);
    try {
      return await create();
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error;
      await createDirectory(this.#options.fileSystem, this.#shardDir(generation));
      return await create();
    }
  }

  /** Opens a generation for reading. Throws `ProxyError` `bytes_gone`. */
  open(generation: string, sizeBytes: number): Promise<BlockFile> {
    return BlockFile.open(this.#fileOptions(generation), sizeBytes);
  }

  /** Opens what is open for reading for writing too. Throws the system's error. */
  openForWriting(file: BlockFile): Promise<BlockFileWriter> {
    return BlockFileWriter.open(this.#fileOptions(file.generation), file);
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

  #fileOptions(generation: string): BlockFileOptions {
    return { ...this.#options, generation, paths: this.#paths(generation) };
  }

  #shardDir(generation: string): string {
    return join(this.#blocksDir, generation.slice(0, 2));
  }

  #paths(generation: string): BlockFileOptions['paths'] {
    const path = join(this.#shardDir(generation), generation);
    return { body: `${path}.body`, sums: `${path}.sums` };
  }
}
