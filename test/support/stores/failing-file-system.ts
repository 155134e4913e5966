/** A file system whose disk fills up, fails or is slow when a test says so. */

import * as promises from 'node:fs/promises';
import { type FileSystem, readFlags } from '../../../src/store/disk/bodies/file-system.ts';

/** The real file system with faults that a test can switch on. */
export class FailingFileSystem {
  /** The error code of writing and creating files, such as `ENOSPC`; undefined: no fault. */
  writeFault: string | undefined;
  /** The error code of opening files for reading. */
  openFault: string | undefined;
  /** The error code of reading files. */
  readFault: string | undefined;
  /** The free bytes that the disk reports; undefined: the real number. */
  freeBytes: number | undefined;
  /** Number of times that a file was opened for reading. */
  opens = 0;
  /** Number of reads, and the sum of their bytes. */
  reads = 0;
  bytesRead = 0;
  /** Each read waits for this promise before it begins. */
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
