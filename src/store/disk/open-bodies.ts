/** The body files that readers have open: one descriptor for all readers of a generation. */

import type { BackgroundTasks } from './background-tasks.ts';
import type { BlockFile } from './block-file.ts';

interface OpenBody {
  readonly file: Promise<BlockFile>;
  readers: number;
}

/** Shares open files by reference count. */
export class OpenBodies {
  readonly #open: (generation: string, sizeBytes: number) => Promise<BlockFile>;
  readonly #background: BackgroundTasks;
  readonly #bodies = new Map<string, OpenBody>();

  constructor(open: (generation: string, sizeBytes: number) => Promise<BlockFile>, background: BackgroundTasks) {
    this.#open = open;
    this.#background = background;
  }

  /** The file of a generation, opened or shared; each `acquire` that resolves wants one `release`. */
  async acquire(generation: string, sizeBytes: number): Promise<BlockFile> {
    const body = this.#bodies.get(generation) ?? { file: this.#open(generation, sizeBytes), readers: 0 };
    this.#bodies.set(generation, body);
    body.readers += 1;
    try {
      return await body.file;
    } catch (error) {
      if (this.#bodies.get(generation) === body) this.#bodies.delete(generation);
      throw error;
    }
  }

  /** Gives a file back; the last one closes it. */
  release(generation: string): void {
    const body = this.#bodies.get(generation);
    if (body === undefined) return;
    body.readers -= 1;
    if (body.readers === 0) this.#close(generation, body);
  }

  /** Closes all files, whoever has them. */
  closeAll(): void {
    for (const [generation, body] of this.#bodies) this.#close(generation, body);
  }

  #close(generation: string, body: OpenBody): void {
    this.#bodies.delete(generation);
    this.#background.add(body.file.then((file) => file.close()));
  }
}
