/** The body files that readers and writers have open: one for all of a generation, so that they know the same of it. */

import type { BackgroundTasks } from './background-tasks.ts';
import type { BlockFile } from './block-file.ts';

interface OpenBody {
  readonly file: Promise<BlockFile>;
  users: number;
}

/** Shares open files by reference count. */
export class OpenBodies {
  readonly #open: (generation: string, sizeBytes: number) => Promise<BlockFile>;
  readonly #background: BackgroundTasks;
  readonly #bodies = new Map<string, OpenBody>();
  /** Those that are being closed: what they still tell their sidecars comes before they are opened again. */
  readonly #closing = new Map<string, Promise<void>>();

  constructor(open: (generation: string, sizeBytes: number) => Promise<BlockFile>, background: BackgroundTasks) {
    this.#open = open;
    this.#background = background;
  }

  /** The file of a generation, opened or shared; each `acquire` that resolves wants one `release`. */
  async acquire(generation: string, sizeBytes: number): Promise<BlockFile> {
    const body = this.#bodies.get(generation) ?? { file: this.#openClosed(generation, sizeBytes), users: 0 };
    this.#bodies.set(generation, body);
    body.users += 1;
    try {
      return await body.file;
    } catch (error) {
      if (this.#bodies.get(generation) === body) this.#bodies.delete(generation);
      throw error;
    }
  }

  /** Shares the file of a new generation, which whoever created it has acquired thereby. */
  share(file: BlockFile): void {
    this.#bodies.set(file.generation, { file: Promise.resolve(file), users: 1 });
  }

  /** Gives a file back; the last one closes it. */
  release(generation: string): void {
    const body = this.#bodies.get(generation);
    if (body === undefined) return;
    body.users -= 1;
    if (body.users === 0) this.#close(generation, body);
  }

  /** Closes all files, whoever has them. */
  closeAll(): void {
    for (const [generation, body] of this.#bodies) this.#close(generation, body);
  }

  async #openClosed(generation: string, sizeBytes: number): Promise<BlockFile> {
    await this.#closing.get(generation);
    return await this.#open(generation, sizeBytes);
  }

  #close(generation: string, body: OpenBody): void {
    this.#bodies.delete(generation);
    const closing = body.file
      .then((file) => file.close())
      .finally(() => {
        if (this.#closing.get(generation) === closing) this.#closing.delete(generation);
      });
    this.#closing.set(generation, closing);
    this.#background.add(closing);
  }
}
