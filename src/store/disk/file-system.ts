/** The calls of the file system that bodies need; tests put failing ones in their place. */

import type * as promises from 'node:fs/promises';

/** A part of `node:fs/promises`. */
export type FileSystem = Pick<typeof promises, 'mkdir' | 'open' | 'readdir' | 'stat' | 'statfs' | 'unlink'>;

/** The system's code of an error, such as `ENOENT`; undefined for what is none of the system's. */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
