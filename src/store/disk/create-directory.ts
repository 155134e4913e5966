/** Creates a directory and what is missing above it. */

import { dirname } from 'node:path';
import { type FileSystem, systemCode } from './file-system.ts';

type DirectoryCalls = Pick<FileSystem, 'mkdir' | 'stat'>;

/**
 * Creates a directory, and its parents where they are missing, for this user alone; one that is there stays as it is.
 * Throws the system's error. One level at a time, because Node's `recursive` tries again for ever where a parent is
 * there and yet the answer is ENOENT, as it is below /proc.
 */
export async function createDirectory(calls: DirectoryCalls, path: string): Promise<void> {
  try {
    return await createLevel(calls, path);
  } catch (error) {
    const parent = dirname(path);
    if (systemCode(error) !== 'ENOENT' || parent === path) throw error;
    await createDirectory(calls, parent);
  }
  await createLevel(calls, path);
}

async function createLevel(calls: DirectoryCalls, path: string): Promise<void> {
  try {
    await calls.mkdir(path, { mode: 0o700 });
  } catch (error) {
    if (systemCode(error) !== 'EEXIST' || !(await calls.stat(path)).isDirectory()) throw error;
  }
}
