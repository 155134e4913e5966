/** Notices when files are replaced, however that is done: written anew, renamed, or behind a symbolic link that moves. */

import { stat } from 'node:fs/promises';

/** What one look at some files tells. */
export type FileLook = 'same' | 'changing' | 'changed';

/** Files that belong together, such as a certificate and its key. */
export class WatchedFiles {
  readonly #paths: readonly string[];
  /** As they were when they were last taken for good, and as they were at the last look. */
  #taken: string;
  #seen: string;

  private constructor(paths: readonly string[], state: string) {
    this.#paths = paths;
    this.#taken = state;
    this.#seen = state;
  }

  /** Remembers the files as they are now. */
  static async open(paths: readonly string[]): Promise<WatchedFiles> {
    return new WatchedFiles(paths, await stateOf(paths));
  }

  /**
   * Looks at them. They are `changed` when they are not as they were taken, and are as they were at the look before, so that
   * files that are replaced one after the other are not taken half-way.
   */
  async look(): Promise<FileLook> {
    const state = await stateOf(this.#paths);
    const isSettled = state === this.#seen;
    this.#seen = state;
    if (state === this.#taken) return 'same';
    return isSettled ? 'changed' : 'changing';
  }

  /** Takes them as they were at the last look: they are looked at no more closely until they change again. */
  take(): void {
    this.#taken = this.#seen;
  }
}

async function stateOf(paths: readonly string[]): Promise<string> {
  const states = await Promise.all(paths.map(fileState));
  return states.join(' ');
}

/** Follows links; the nanoseconds tell two versions of one size apart. */
async function fileState(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : 'unknown';
  }
}
