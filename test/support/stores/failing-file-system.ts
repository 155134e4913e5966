/** A file system whose disk fills up, fails or is slow when a test says so. */

import * as promises from 'node:fs/promises';
import { type FileSystem, readFlags } from '../../../src/store/disk/bodies/file-system.ts';

/** The real file system, but for the faults that are switched on. */
export class FailingFileSystem {
  /** The code with which writing and creating files fails now, such as `ENOSPC`; undefined: all is well. */
  writeFault: string | undefined;
  /** The code with which opening files for reading fails now. */
  openFault: string | undefined;
  /** The code with which reading files fails now. */
  readFault: string | undefined;
  /** The free bytes that the disk claims to have; undefined: those it has. */
  freeBytes: number | undefined;
  /** How many times a file was opened for reading. */
  opens = 0;
  /** How many times a file was read from, and how many bytes came of it. */
  reads = 0;
  bytesRead = 0;
  /** What each read waits for before it begins. */
  readGate: Promise<void> = Promise.resolve();

  readonly fileSystem: FileSystem = {
    ...promises,
    open: async (path, flags, mode) => {
      if (flags === readFlags) {
        this.opens += 1;
        failWith(this.openFault);
        return this.#failing(await promises.open(path, flags, mode));
      }
      failWith(this.writeFault);
      return this.#failing(await promises.open(path, flags, mode));
    },
    statfs: Object.assign(async (path: string) => {
      const stats = await promises.statfs(path);
      const { freeBytes } = this;
      return freeBytes === undefined ? stats : Object.assign(stats, { bavail: Math.floor(freeBytes / stats.bsize) });
    }, promises.statfs),
  };

  #failing(handle: promises.FileHandle): promises.FileHandle {
    const read = handle.read.bind(handle);
    const write = handle.write.bind(handle);
    return Object.assign(handle, {
      read: async (...values: Parameters<typeof read>) => {
        this.reads += 1;
        await this.readGate;
        failWith(this.readFault);
        const result = await read(...values);
        this.bytesRead += result.bytesRead;
        return result;
      },
      write: async (...values: Parameters<typeof write>) => {
        failWith(this.writeFault);
        return await write(...values);
      },
    });
  }
}

function failWith(code: string | undefined): void {
  if (code !== undefined) throw Object.assign(new Error(`${code}: as the test wants it`), { code });
}
