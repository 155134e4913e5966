/** A file system that knows its unfinished calls and its open files. */

import type { FileSystem, OpenFile } from '../../../src/store/disk/bodies/file-system.ts';

/** Wraps another file system, and counts its calls and open files. */
export class CountedFileSystem {
  readonly fileSystem: FileSystem;
  readonly #running = new Set<Promise<unknown>>();
  readonly #open = new Map<OpenFile, string>();
  /** Number of files that were opened. */
  openings = 0;

  constructor(below: FileSystem) {
    const open: FileSystem['open'] = async (path, flags, mode) => {
      const file = await this.#follow(below.open(path, flags, mode));
      this.#open.set(file, String(path));
      this.openings += 1;
      return this.#counted(file);
    };
    this.fileSystem = {
      open,
      mkdir: this.#following(below.mkdir),
      readdir: this.#following(below.readdir),
      rmdir: this.#following(below.rmdir),
      stat: this.#following(below.stat),
      statfs: this.#following(below.statfs),
      unlink: this.#following(below.unlink),
    };
  }

  /** The paths of the open files. */
  get open(): readonly string[] {
    return [...this.#open.values()];
  }

  /** Whether a call is unfinished. */
  get isBusy(): boolean {
    return this.#running.size > 0;
  }

  /** Resolves when all calls so far have ended, successfully or not. */
  async done(): Promise<void> {
    await Promise.allSettled(this.#running);
  }

  #counted(file: OpenFile): OpenFile {
    const close = file.close.bind(file);
    return Object.assign(file, {
      read: this.#following(file.read.bind(file)),
      write: this.#following(file.write.bind(file)),
      stat: this.#following(file.stat.bind(file)),
      close: async () => {
        await this.#follow(close());
        this.#open.delete(file);
      },
    });
  }

  /** Wraps a call of the file system so that it is followed. Keeps its overloads. */
  #following<T>(call: T & ((...values: never[]) => Promise<unknown>)): T {
    return ((...values: never[]) => this.#follow(call(...values))) as T;
  }

  #follow<T>(running: Promise<T>): Promise<T> {
    this.#running.add(running);
    const forget = () => this.#running.delete(running);
    running.then(forget, forget);
    return running;
  }
}
