/** Reads files in the same tick. */

import { closeSync, openSync, readSync } from 'node:fs';

/** Opens a file, fills bytes from its beginning, and closes it. Gives how many were filled. Throws the system's error. */
export function readFileInto(path: string, bytes: Uint8Array): number {
  const fd = openSync(path, 'r');
  try {
    return readSync(fd, bytes, 0, bytes.length, 0);
  } finally {
    closeSync(fd);
  }
}
