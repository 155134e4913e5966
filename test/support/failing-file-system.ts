/** A file system whose disk fills up or fails when a test says so. */

import * as promises from 'node:fs/promises';
import type { FileSystem } from '../../src/store/disk/file-system.ts';

/** The real file system, but for the faults that are switched on. */
export class FailingFileSystem {
  /** The code with which writing and creating files fails now, such as `ENOSPC`; undefined: all is well. */
  writeFault: string | undefined;
  /** The code with which opening files for reading fails now. */
  openFault: string | undefined;
  /** The free bytes that the disk claims to have; undefined: those it has. */
  freeBytes: number | undefined;
  /** How many times a file was opened for reading. */
  opens = 0;

  readonly fileSystem: FileSystem = {
    ...promises,
    open: async (path, flags, mode) => {
      if (flags === 'r') {
        this.opens += 1;
        failWith(this.openFault);
        return await promises.open(path, flags, mode);
      }
      failWith(this.writeFault);
      const handle = await promises.open(path, flags, mode);
      const write = handle.write.bind(handle);
      return Object.assign(handle, {
        write: async (...values: Parameters<typeof write>) => {
          failWith(this.writeFault);
          return await write(...values);
        },
      });
    },
    statfs: Object.assign(async (path: string) => {
      const stats = await promises.statfs(path);
      return this.freeBytes === undefined ? stats : Object.assign(stats, { bsize: 1, bavail: this.freeBytes });
    }, promises.statfs),
  };
}

function failWith(code: string | undefined): void {
  if (code !== undefined) throw Object.assign(new Error(`${code}: as the test wants it`), { code });
}
