/**
 * The calls of the file system that bodies need; tests put failing ones in their place. Also creates a directory with its missing
 * parents.
 */

import { constants, type readSync } from 'node:fs';
import type * as promises from 'node:fs/promises';
import { dirname } from 'node:path';

/** A part of `node:fs/promises`. */
export type FileSystem = Pick<typeof promises, 'mkdir' | 'open' | 'readdir' | 'rmdir' | 'stat' | 'statfs' | 'unlink'>;

/** Reads from an open file in the same tick: that of `node:fs`. */
export type ReadSync = typeof readSync;

/**
 * Opens a file, fills bytes from its beginning, and closes it, in the same tick. Gives how many were filled. Throws the system's
 * error.
 */
export type ReadFileInto = (path: string, bytes: Uint8Array) => number;

/**
 * Has the system send a head, and then bytes of an open file from `position` on, into a socket that takes what it has room
 * for (send(2), sendfile(2)). The socket and the file are descriptors. Gives how many bytes of both, together, were taken: 0
 * where none were, whatever the reason. Does not throw.
 */
export type MoveToSocket = (
  socket: number,
  head: Uint8Array,
  file: number,
  position: number,
  sizeBytes: number,
) => number;

/** An open file. */
export type OpenFile = promises.FileHandle;

/** What is in the place of a file is a directory, a pipe or a device. A link is refused by the system, with `ELOOP`. */
export class NotAFile extends Error {}

/** What files that are there are opened with: no link is followed, and no pipe or device is waited for. */
const openFlags = constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** With these flags a file that is there is opened for reading: `openFile` looks at what it is, too. */
export const readFlags = constants.O_RDONLY | openFlags;

/** Opens a file that is there, for reading, or for writing too. Throws the system's error, and `NotAFile`. */
export async function openFile(fileSystem: FileSystem, path: string, access: 'read' | 'write'): Promise<OpenFile> {
  const file = await fileSystem.open(path, access === 'read' ? readFlags : constants.O_RDWR | openFlags);
  try {
    if ((await file.stat()).isFile()) return file;
    throw new NotAFile(`${path} is not a file.`);
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** The system's code of an error, such as `ENOENT`; undefined for what is none of the system's. */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** Reads until the bytes are full or the file ends; gives how many were read. Throws the system's error. */
export async function readFully(file: OpenFile, bytes: Uint8Array, position: number): Promise<number> {
  let count = 0;
  while (count < bytes.length) {
    const { bytesRead } = await file.read(bytes, count, bytes.length - count, position + count);
    if (bytesRead === 0) break;
    count += bytesRead;
  }
  return count;
}

/** Writes all of the bytes. Throws the system's error. */
export async function writeFully(file: OpenFile, bytes: Uint8Array, position: number): Promise<void> {
  let count = 0;
  while (count < bytes.length) {
    const { bytesWritten } = await file.write(bytes, count, bytes.length - count, position + count);
    count += bytesWritten;
  }
}

/**
 * What an open file is known by, when it is opened once more: another file has another version, and so has one that was
 * written into, given another length or replaced meanwhile. Throws the system's error.
 */
export async function fileVersion(file: OpenFile): Promise<string> {
  const { dev, ino, size, mtimeNs, ctimeNs } = await file.stat({ bigint: true });
  return [dev, ino, size, mtimeNs, ctimeNs].join('/');
}

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
