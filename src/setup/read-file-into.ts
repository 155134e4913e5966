/** Reads files in the same tick. */

import { closeSync, openSync, readSync } from 'node:fs';
import { readFlags } from '../store/disk/file-system.ts';

/** Opens a file, fills bytes from its beginning, and closes it. Gives how many were filled. Throws the system's error. */
export function readFileInto(path: string, bytes: Uint8Array): number {
  // A pipe or device is not waited for: it gives other bytes, or none.
  const fd = openSync(path, readFlags);
  try {
    return readSync(fd, bytes, 0, bytes.length, 0);
  } finally {
    closeSync(fd);
  }
}
