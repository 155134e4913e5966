/** Writes blocks into the body of a generation, each followed by its checksum in the sidecar. */

import { BlockFile, type BlockFileOptions } from './block-file.ts';
import { encodeSum, sumsSizeBytes } from './block-sums.ts';
import { type OpenFile, openFile, writeFully } from './file-system.ts';
import { Sidecar } from './sidecar.ts';

/**
 * An open body and its sidecar. A checksum is written only after the block that it is of, so that after a sudden end
 * each block is either there as far as the sidecar says, or is found damaged.
 */
export class BlockFileWriter {
  readonly file: BlockFile;
  readonly #blockSizeBytes: number;
  readonly #body: OpenFile;
  readonly #sums: OpenFile;
  /** Whether readers use the same handle, which is theirs to close. */
  readonly #isBodyShared: boolean;

  private constructor(file: BlockFile, blockSizeBytes: number, body: OpenFile, sums: OpenFile, isBodyShared: boolean) {
    this.file = file;
    this.#blockSizeBytes = blockSizeBytes;
    this.#body = body;
    this.#sums = sums;
    this.#isBodyShared = isBodyShared;
  }

  /** Creates the files of a new generation. Its `file` is the caller's to close. Throws the system's error. */
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

  /** Writes a block. Throws the system's error; the block is absent then. */
  async write(index: number, bytes: Uint8Array): Promise<void> {
    const sum = this.file.sumOf(index, bytes);
    await this.file.whenErased();
    await writeFully(this.#body, bytes, index * this.#blockSizeBytes);
    await writeFully(this.#sums, encodeSum(sum), sumsSizeBytes(index));
    this.file.note(index, sum);
  }

  /** Closes what is not shared with readers. Never rejects. */
  async close(): Promise<void> {
    // An error here says that written bytes were lost; their checksums will tell.
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
