/** The file system calls that bodies need; tests replace them with failing ones. Also creates a directory with its missing parents. */

import { constants, type readSync } from 'node:fs';
import type * as promises from 'node:fs/promises';
import { dirname } from 'node:path';

/** A part of `node:fs/promises`. */
export type FileSystem = Pick<typeof promises, 'mkdir' | 'open' | 'readdir' | 'rmdir' | 'stat' | 'statfs' | 'unlink'>;

/** Reads from an open file in the same tick: `readSync` of `node:fs`. */
export type ReadSync = typeof readSync;

/**
 * Opens a file, fills `bytes` from its beginning, and closes it, in the same tick. Returns how many bytes were read. Throws the
 * system's error.
 */
export type ReadFileInto = (path: string, bytes: Uint8Array) => number;

/**
 * Has the system send `head`, and then `sizeBytes` of an open file from `position` on, into a non-blocking socket (send(2),
 * sendfile(2)). The socket and the file are descriptors. Returns how many bytes of both together the socket took: 0 where it took
 * none, for any reason. Does not throw.
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

/** The path is a directory, a pipe or a device, and not a file. The system itself refuses a link, with `ELOOP`. */
export class NotAFile extends Error {}

/** Flags for opening existing files: no link is followed, and no pipe or device is waited for. */
const openFlags = constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Flags for opening an existing file for reading. `openFile` also checks that it is a file. */
export const readFlags = constants.O_RDONLY | openFlags;

/** Opens an existing file for reading, or for reading and writing. Throws the system's error, and `NotAFile`. */
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

/** Returns the system's code of an error, such as `ENOENT`; undefined for other errors. */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** Reads until `bytes` is full or the file ends; returns how many bytes were read. Throws the system's error. */
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
 * Returns a version of an open file, which identifies it when it is opened again. Another file has another version, and so has a
 * file that was written into, given another length or replaced meanwhile. Throws the system's error.
 */
export async function fileVersion(file: OpenFile): Promise<string> {
  const { dev, ino, size, mtimeNs, ctimeNs } = await file.stat({ bigint: true });
  return [dev, ino, size, mtimeNs, ctimeNs].join('/');
}

type DirectoryCalls = Pick<FileSystem, 'mkdir' | 'stat'>;

/**
 * Creates a directory and its missing parents, for this user alone; an existing directory stays as it is. Throws the system's
 * error. Creates one level at a time, because Node's `recursive` tries again for ever where a parent exists and the answer is
 * ENOENT nevertheless, as below /proc.
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
